# The least that is asked of a version before it may be published, before any of its bytes is read. What passes is
# asked about once more, in full, by zone.rego.
package kfm.minimum

import data.kfm.facts
import data.kfm.words

rules := {
	"metadata.title": "metadata: title is not declared",
	"licence.declared": "licence: license is not declared",
	"metadata.declared": "metadata: sensitivity is not declared",
	"metadata.public": "metadata: its sensitivity is not public",
	"metadata.kept": "metadata: this version was made when the sensitivity was not public, and stays so",
	"metadata.parts": "metadata: something in it was made when the sensitivity was not public, and stays so",
	"validation.contracts": "validation: not every source was held against a data contract",
	"validation.parts": "validation: not every source of every part was held against a data contract",
	"checksums.subject": "checksums: the version record is about other bytes",
	"checksums.read": "checksums: its objects were not looked at",
	"checksums.intact": "checksums: an object is not what it should be",
	"provenance.recorded": "provenance: plan, inputs or updater version are not recorded",
	"provenance.run": "provenance: no run is known to have made this version",
	"receipt.there": "receipt: the run that made it has none",
	"receipt.success": "receipt: the run that made it did not succeed",
	"receipt.bytes": "receipt: it is about other bytes",
}

subject := input.subjects[0] if {
	is_array(input.subjects)
	count(input.subjects) == 1
	facts.is_digest(input.subjects[0])
}

holds contains "metadata.title" if facts.is_text(input.made.title)

holds contains "licence.declared" if facts.is_text(input.made.licence)

holds contains "metadata.declared" if facts.is_text(input.made.sensitivity)

holds contains "metadata.public" if input.made.sensitivity == "public"

# Masked on its way in: the whole checklist says what else that takes.
holds contains "metadata.public" if {
	input.made.sensitivity == "generalised"
	input.made.masked == true
}

holds contains "metadata.kept" if input.made.made_as in {"public", "unsaid"}

# What was made as closed as it is now, or less so.
holds contains "metadata.kept" if {
	made := words.rank[input.made.made_as]
	said := words.rank[input.made.sensitivity]
	facts.is_count(made)
	facts.is_count(said)
	made <= said
}

holds contains "metadata.parts" if input.made.closed_parts == []

holds contains "validation.contracts" if {
	facts.is_count(input.made.sources)
	input.made.sources > 0
	is_number(input.made.contracts)
	input.made.contracts == input.made.sources
}

holds contains "validation.parts" if input.made.unheld_parts == []

holds contains "checksums.subject" if {
	facts.is_digest(subject)
	input.made.version == subject
}

holds contains "checksums.read" if input.made.looked_at == true

holds contains "checksums.intact" if input.made.damaged == ""

holds contains "provenance.recorded" if {
	facts.is_digest(input.made.plan_hash)
	facts.is_digest(input.made.input_hash)
	facts.is_text(input.made.updater_version)
}

holds contains "provenance.run" if facts.is_text(input.made.run_id)

holds contains "receipt.there" if is_object(input.made.receipt)

holds contains "receipt.success" if {
	input.made.receipt.status == "SUCCESS"
	input.made.receipt.dry_run == false
}

holds contains "receipt.bytes" if {
	is_array(input.made.receipt.outputs)
	facts.is_digest(subject)
	subject in input.made.receipt.outputs
}

missing := object.keys(rules) - holds

default allow := false

allow if count(missing) == 0

# What only follows from another line is not said beside it.
follows := {
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
