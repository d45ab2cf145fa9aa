package kfm.zone_test

import data.kfm.examples
import data.kfm.zone

# Where, what instead, and the rule that must then say no.
broken := [
	["/step/from", "raw", "zone.step"],
	["/step/from", "published", "zone.step"],
	["/step/to", "public", "zone.step"],
	["/identity/title", "", "metadata.title"],
	["/identity/title", "", "zone.evidence"],
	["/label/care", "sacred", "care.class"],
	["/emission/recorded", false, "telemetry.recorded"],
	["/label/sensitivity", "sacred", "zone.sealed"],
	["/label/sensitivity", "restricted", "zone.sealed"],
	["/label/sensitivity", "closed", "metadata.sensitivity"],
	["/masking/leaks", 1, "zone.sealed"],
]

test_the_example_is_allowed_without_a_reason if {
	zone.allow == true with input as examples.zone
	zone.deny == set() with input as examples.zone
}

test_each_thing_that_is_wrong_is_denied_by_its_rule if {
	every case in broken {
		question := examples.but(examples.zone, case[0], case[1])
		zone.allow == false with input as question
		denied := zone.deny with input as question
		case[2] in {reason.rule | some reason in denied}
	}
}

# Where the data lies and of which time it speaks may be missing: that is told, and stops nothing.
test_every_part_is_needed if {
	every part in object.keys(examples.zone) - {"extent"} {
		zone.allow == false with input as examples.without(examples.zone, part)
	}
}

test_deny_is_empty_exactly_when_allow_is_true if {
	agreeing := [1 |
		some question in questions
		allowed := zone.allow with input as question
		denied := zone.deny with input as question
		silent := count(denied) == 0
		allowed == silent
	]
	count(agreeing) == count(questions)
}

questions := array.concat(
	[examples.zone, {}, [], null, "true", 1, true],
	array.concat(
		[examples.but(examples.zone, case[0], case[1]) | some case in broken],
		[examples.without(examples.zone, part) | some part in object.keys(examples.zone)],
	),
)

test_every_step_has_its_evidence if {
	zone.allow == true with input as examples.to_processed
	zone.allow == true with input as examples.from_quarantine
}

test_protected_bytes_are_sealed_below_published if {
	denied := zone.deny with input as examples.but(examples.to_processed, "/step/sealed", false)
	{reason.rule | some reason in denied} == {"zone.sealed"}
}

test_what_is_restricted_is_never_published if {
	question := examples.but(examples.but(examples.zone, "/label/sensitivity", "restricted"), "/step/sealed", true)
	denied := zone.deny with input as question
	"care.class" in {reason.rule | some reason in denied}
}

test_what_is_masked_is_not_sealed_and_its_source_is if {
	masked := object.union(examples.zone, {"step": {"from": "work", "to": "processed"}})
	zone.allow == true with input as masked
	denied := zone.deny with input as examples.without(masked, "masking")
	{reason.rule | some reason in denied} == {"zone.sealed"}
	raw := object.union(examples.zone, {"step": {"from": "raw", "to": "work"}})
	zone.allow == false with input as raw
	zone.allow == true with input as examples.but(raw, "/step/sealed", true)
}

test_what_was_held_is_released_by_a_steward if {
	denied := zone.deny with input as examples.but(examples.from_quarantine, "/review/outcome", "rejected")
	{reason.rule | some reason in denied} == {"zone.released"}
}

test_no_step_is_left_out if {
	denied := zone.deny with input as examples.but(examples.zone, "/step/from", "work")
	{reason.rule | some reason in denied} == {"zone.step"}
}

test_the_obligations_of_what_is_published_are_handed_on if {
	duties := zone.obligations with input as examples.zone
	duties == {{"do": "mask", "resolution": 7}}
}

test_into_work_only_its_own_reasons_are_told if {
	denied := zone.deny with input as examples.but(examples.from_quarantine, "/checksums/damaged", 1)
	{reason.rule | some reason in denied} == {"zone.evidence", "checksums.objects"}
}

test_the_warnings_of_the_parts_are_handed_on if {
	late := examples.but(examples.but(examples.zone, "/emission/slo_ok", false), "/label/expires", 1767323046000)
	warned := zone.warn with input as examples.but(late, "/checksums/objects", 0)
	{reason.rule | some reason in warned} == {"telemetry.slo", "care.ending", "validation.empty"}
}

plain := object.union(
	json.remove(examples.zone, [
		"extent", "review", "consent", "masking", "identity/description", "licence", "receipt/sensitivity",
	]),
	{
		"label": {"sensitivity": "public", "care": "open", "access": "open", "expires": "never", "closed_parts": 0},
		"licence": {"id": "CC0-1.0", "known": true, "checked": false, "redistribution": false, "checked_by": ""},
		"receipt": object.union(examples.receipt, {"sensitivity": "public"}),
	},
)

test_plain_public_data_is_published_and_told_what_would_make_it_better if {
	zone.allow == true with input as plain
	warned := zone.warn with input as plain
	{reason.rule | some reason in warned} == {
		"metadata.extent.space", "metadata.extent.time", "licence.checked", "fair.findable",
	}
}

bare := {
	"subjects": [examples.version],
	"asked": examples.asked,
	"identity": {"dataset": "sites", "title": "", "version": examples.version},
	"label": {"sensitivity": "unsaid", "closed_parts": 0},
	"quality": {"sources": 0, "contracts": 0, "unheld_parts": 1, "results": []},
	"provenance": object.union(examples.provenance, {"inputs": [], "code_hash": ""}),
	"checksums": examples.promotion.checksums,
	"receipt": object.union(examples.receipt, {"inputs": 0, "sensitivity": "unsaid"}),
	"step": {"from": "work", "to": "processed", "labelled": false},
}

not_broken := {"metadata.kept", "provenance.tools", "provenance.attested"}

test_what_may_come_later_only_warns_before_published if {
	zone.allow == true with input as bare
	warned := zone.warn with input as bare
	zone.late == ({reason.rule | some reason in warned} - {"metadata.description"}) | not_broken
	into_work := examples.but(bare, "/step", {"from": "raw", "to": "work"})
	zone.allow == true with input as into_work
	told := zone.warn with input as into_work
	{reason.rule | some reason in told} == {"metadata.sensitivity", "provenance.inputs"}
	zone.allow == false with input as examples.but(bare, "/step", {"from": "processed", "to": "published"})
}

test_what_is_unsafe_denies_before_published if {
	every case in [
		["/label/sensitivity", "closed", "zone.usable"],
		["/label/sensitivity", "secret", "zone.usable"],
		["/label/sensitivity", "", "zone.usable"],
		["/checksums/damaged", 1, "checksums.objects"],
		["/checksums/manifest", examples.other, "checksums.manifest"],
		["/receipt/status", "FAILED", "receipt.success"],
		["/asked/who", "", "asked.told"],
	] {
		denied := zone.deny with input as examples.but(bare, case[0], case[1])
		case[2] in {reason.rule | some reason in denied}
	}
}

test_what_is_restricted_is_sealed_wherever_there_are_labels if {
	restricted := examples.but(bare, "/label/sensitivity", "restricted")
	zone.allow == true with input as restricted
	labelled := examples.without(restricted, "step/labelled")
	denied := zone.deny with input as labelled
	{reason.rule | some reason in denied} == {"zone.sealed"}
	zone.allow == true with input as examples.but(labelled, "/step/sealed", true)
}
