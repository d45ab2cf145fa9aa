# Questions that are allowed, with nothing in them that could be left out: what every test changes.
package kfm.examples

version := "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

other := "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

asked := {"who": "ada", "what": "promote", "when": 1767323045000, "why": "the spring release"}

identity := {"dataset": "sites", "title": "Sites", "version": version}

described := object.union(identity, {"description": "Sites by county"})

schema := {"name": "sites/1", "digest": other}

licence := {"id": "CC0-1.0", "known": true, "checked": true, "redistribution": true, "checked_by": "licence.list"}

open_label := {"sensitivity": "public", "closed_parts": 0}

masked_label := {
	"sensitivity": "generalised",
	"care": "community",
	"access": "open",
	"authority": "the nation whose sites they are",
	"custodian": "state-museum",
	"expires": 1798675200000,
	"public_resolution": 7,
}

provenance := {
	"inputs": [{"uri": "https://example.org/sites.csv", "digest": other}],
	"run_id": "run-1",
	"updater": "sites",
	"updater_version": "1.0.0",
	"plan_hash": other,
	"input_hash": other,
	"code_hash": other,
	"attestation": "verified",
	"tools": {"kfm": "0.1.0", "runtime": "python 3.11"},
}

receipt := {
	"run_id": "run-1",
	"who": "ada",
	"what": "run",
	"when": 1767323000000,
	"why": "cron",
	"status": "SUCCESS",
	"dry_run": false,
	"outputs": [version],
	"inputs": 1,
	"sensitivity": "public",
	"decisions": 0,
}

promotion := {
	"subjects": [version],
	"asked": asked,
	"identity": identity,
	"schema": schema,
	"extent": {"bbox": [-102.1, 36.9, -94.5, 40.1], "from": -3786825600000, "until": 1735689600000},
	"licence": licence,
	"label": open_label,
	"quality": {"sources": 1, "contracts": 1, "thin": 0, "unheld_parts": 0, "results": [
		{"check": "rows", "value": 120, "at_least": 100, "at_most": 1000000},
		{"check": "held_share", "value": 0.01, "at_least": 0, "at_most": 0.05},
	]},
	"provenance": provenance,
	"checksums": {"algorithm": "sha256", "manifest": version, "objects": 3, "intact": 3, "damaged": 0},
	"receipt": receipt,
}

faircare := {
	"subjects": [version],
	"asked": asked,
	"identity": described,
	"schema": schema,
	"licence": licence,
	"label": masked_label,
	"provenance": provenance,
	"review": {"subject": version, "outcome": "approved", "by": "grace", "at": 1767300000000},
	"consent": {"subject": version, "threshold": 2, "signatures": 2, "until": 1798675200000},
	"masking": {"subject": version, "resolution": 7, "leaks": 0, "finer_than_source": false},
}

serve := {
	"subjects": [version],
	"asked": {"who": "viewer", "what": "serve", "when": 1767323045000, "why": "it is asked for"},
	"identity": identity,
	"label": {
		"sensitivity": "generalised",
		"care": "open",
		"access": "open",
		"expires": 1798675200000,
		"public_resolution": 7,
		"closed_parts": 0,
	},
	"masking": {"subject": version, "resolution": 7, "leaks": 0, "finer_than_source": false},
	"serving": {"audience": "viewer", "status": "current"},
}

telemetry := {
	"subjects": [version],
	"identity": identity,
	"provenance": provenance,
	"emission": {
		"recorded": true,
		"run_id": "run-1",
		"fields": [
			"run_id", "updater_id", "version", "status", "failure_stage", "latency_ms", "retries",
			"wal_replay_count", "inputs_count", "outputs_count", "bytes_in", "bytes_out", "energy_kwh", "co2e_g",
			"energy_method", "slo_target_latency_ms", "slo_ok",
		],
		"energy_method": "cpu-seconds",
		"unmasked": 0,
	},
}

zone := object.union(
	object.union(object.union(promotion, telemetry), faircare),
	{
		"step": {"from": "processed", "to": "published"},
		"receipt": object.union(receipt, {"sensitivity": "generalised"}),
		"label": object.union(masked_label, {"closed_parts": 0}),
	},
)

to_processed := object.union(promotion, {
	"step": {"from": "work", "to": "processed", "sealed": true},
	"label": object.union(open_label, {"sensitivity": "restricted"}),
})

from_quarantine := json.remove(
	object.union(promotion, {
		"step": {"from": "quarantine", "to": "work"},
		"review": faircare.review,
	}),
	["schema", "extent", "licence", "quality", "receipt", "label/closed_parts"],
)

operation := object.union(faircare, {"operation": {
	"name": "promote",
	"role": "operator",
	"request": other,
	"moves": [{"ref": "published/sites", "after": version}],
	"approvals": [{
		"by": "grace",
		"role": "steward",
		"key": "key-1",
		"custodian": "state-museum",
		"request": other,
		"until": 1767409445000,
		"verified": true,
	}],
}})

minimum := {
	"subjects": [version],
	"made": {
		"title": "Sites",
		"licence": "CC0-1.0",
		"licence_known": true,
		"sensitivity": "public",
		"made_as": "public",
		"closed_parts": [],
		"unheld_parts": [],
		"thin": [],
		"attestation": "verified",
		"sources": 1,
		"contracts": 1,
		"version": version,
		"plan_hash": other,
		"input_hash": other,
		"updater_version": "1.0.0",
		"run_id": "run-1",
		"looked_at": true,
		"damaged": "",
		"receipt": {"status": "SUCCESS", "dry_run": false, "outputs": [version]},
	},
}

# A question with one thing in it set, by its path.
but(question, path, value) := json.patch(question, [{"op": "add", "path": path, "value": value}])

without(question, path) := json.remove(question, [path])
