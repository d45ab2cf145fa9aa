# The least that is asked of a version before it may be published, before any of its bytes is read. What passes is
# asked about once more, in full, by zone.rego.
package kfm.minimum

rules := {
	"metadata.title": "metadata: title is not declared",
	"licence.declared": "licence: license is not declared",
	"licence.known": "licence: license is neither an SPDX expression nor a custom licence with its text",
	"metadata.declared": "metadata: sensitivity is not declared",
	"metadata.public": "metadata: its sensitivity is not public",
	"metadata.kept": "metadata: this version was made when the sensitivity was not public, and stays so",
	"metadata.parts": "metadata: something in it was made when the sensitivity was not public, and stays so",
	"validation.contracts": "validation: not every source was held against a data contract",
	"validation.columns": "validation: a data contract names neither columns nor variables",
	"validation.parts": "validation: not every source of every part was held against a data contract",
	"checksums.subject": "checksums: the version record is about other bytes",
	"checksums.read": "checksums: its objects were not looked at",
	"checksums.intact": "checksums: an object is not what it should be",
	"provenance.recorded": "provenance: plan, inputs or updater version are not recorded",
	"provenance.run": "provenance: no run is known to have made this version",
	"provenance.attested": "provenance: this installation signs statements, and has none about this version",
	"receipt.there": "receipt: the run that made it has none",
	"receipt.success": "receipt: the run that made it did not succeed",
	"receipt.bytes": "receipt: it is about other bytes",
}

subject := input.subjects[0] if {
	count(input.subjects) == 1
	startswith(input.subjects[0], "sha256:")
	count(input.subjects[0]) == 71
}

holds contains "metadata.title" if trim_space(input.made.title) != ""

holds contains "licence.declared" if trim_space(input.made.licence) != ""

holds contains "licence.known" if input.made.licence_known == true

holds contains "metadata.declared" if trim_space(input.made.sensitivity) != ""

holds contains "metadata.public" if input.made.sensitivity == "public"

# Masked on its way in: the whole checklist says what else that takes.
holds contains "metadata.public" if {
	input.made.sensitivity == "generalised"
	input.made.masked == true
}

holds contains "metadata.kept" if input.made.made_as in {"public", "unsaid"}

# What was made as closed as it is now, or less so.
holds contains "metadata.kept" if {
	made := data.kfm.words.rank[input.made.made_as]
	said := data.kfm.words.rank[input.made.sensitivity]
	made <= said
}

holds contains "metadata.parts" if input.made.closed_parts == []

holds contains "validation.contracts" if {
	input.made.sources <= 9007199254740991
	input.made.sources == floor(input.made.sources)
	input.made.sources > 0
	input.made.contracts == input.made.sources
}

holds contains "validation.columns" if input.made.thin == []

holds contains "validation.parts" if input.made.unheld_parts == []

holds contains "checksums.subject" if input.made.version == subject

holds contains "checksums.read" if input.made.looked_at == true

holds contains "checksums.intact" if input.made.damaged == ""

holds contains "provenance.recorded" if {
	startswith(input.made.plan_hash, "sha256:")
	count(input.made.plan_hash) == 71
	startswith(input.made.input_hash, "sha256:")
	count(input.made.input_hash) == 71
	trim_space(input.made.updater_version) != ""
}

holds contains "provenance.run" if trim_space(input.made.run_id) != ""

holds contains "provenance.attested" if input.made.attestation in {"verified", "not required"}

holds contains "receipt.there" if is_object(input.made.receipt)

holds contains "receipt.success" if {
	input.made.receipt.status == "SUCCESS"
	input.made.receipt.dry_run == false
}

holds contains "receipt.bytes" if {
	is_array(input.made.receipt.outputs)
	subject in input.made.receipt.outputs
}

missing := object.keys(rules) - holds

default allow := false

allow if count(missing) == 0

# What only follows from another line is not said beside it.
follows := {
	"licence.known": {"licence.declared"},
	"metadata.public": {"metadata.declared"},
	"metadata.kept": {"metadata.public"},
	"checksums.intact": {"checksums.read"},
	"receipt.success": {"receipt.there"},
	"receipt.bytes": {"receipt.there", "receipt.success"},
}

deny contains {"rule": "provenance.run", "msg": rules["provenance.run"]} if "provenance.run" in missing

deny contains {"rule": rule, "msg": rules[rule]} if {
	not "provenance.run" in missing
	some rule in missing
	count(object.get(follows, rule, set()) & missing) == 0
}

warn := set()

obligations := set()

default policy := ""

policy := data.kfm.bundle.digest

verdict := {
	"allow": allow,
	"deny": deny,
	"warn": warn,
	"obligations": obligations,
	"subjects": input.subjects,
	"question": input.question,
	"policy": policy,
}
