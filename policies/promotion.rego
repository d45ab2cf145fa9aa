# The promotion checklist in full: what must be there before a version may step up to Processed or Published.
# README.md beside this file says for a steward what each rule asks, and why.
package kfm.promotion

rules := {
	"asked.told": "asked: who asks for what, when and why is not all said",
	"metadata.subject": "metadata: the question is not about exactly one version",
	"metadata.dataset": "metadata: the dataset has no id",
	"metadata.title": "metadata: title is not declared",
	"metadata.schema": "metadata: no schema with its digest is named",
	"metadata.extent.space": "metadata: where the data lies is not said",
	"metadata.extent.time": "metadata: of which time the data speaks is not said",
	"metadata.sensitivity": "metadata: sensitivity is not declared, is a word that nobody knows, or is closed",
	"metadata.kept": "metadata: it was made under a more closed sensitivity than it has now, and keeps that",
	"licence.declared": "licence: license is not declared",
	"licence.known": "licence: license is neither an SPDX expression nor a custom licence with its text",
	"licence.checked": "licence: nobody checked that it may be passed on",
	"validation.contracts": "validation: not every source was held against a data contract",
	"validation.columns": "validation: a data contract names neither columns nor variables",
	"validation.quarantined": "validation: more than one row in ten is quarantined",
	"validation.results": "validation: a result is missing, has no threshold, or is beyond it",
	"provenance.inputs": "provenance: the inputs are not recorded with their digests",
	"provenance.transform": "provenance: run, plan, inputs or updater version are not recorded",
	"provenance.code": "provenance: the digest of the code is not recorded",
	"provenance.attested": "provenance: this installation signs statements, and has none about this version",
	"provenance.tools": "provenance: the versions of the tools are not recorded",
	"checksums.manifest": "checksums: the version record is about other bytes",
	"checksums.objects": "checksums: not every object was read and found intact",
	"receipt.told": "receipt: it does not say who, what, when and why",
	"receipt.success": "receipt: the run that made it did not succeed",
	"receipt.bytes": "receipt: it is about other bytes",
	"receipt.evidence": "receipt: inputs, sensitivity or decisions are not in it",
}

# What is asked already of what goes into Work: who asks, and that bytes, origin and label are known. The rest, which
# `holds`, is about what is made.
known contains "asked.told" if {
	trim_space(input.asked.who) != ""
	trim_space(input.asked.what) != ""
	input.asked.when > 0
	input.asked.when <= 9007199254740991
	trim_space(input.asked.why) != ""
}

subject := input.subjects[0] if {
	count(input.subjects) == 1
	startswith(input.subjects[0], "sha256:")
	count(input.subjects[0]) == 71
}

known contains "metadata.subject" if subject == input.identity.version

known contains "metadata.dataset" if trim_space(input.identity.dataset) != ""

holds contains "metadata.title" if trim_space(input.identity.title) != ""

holds contains "metadata.schema" if {
	trim_space(input.schema.name) != ""
	startswith(input.schema.digest, "sha256:")
	count(input.schema.digest) == 71
}

# West, south, east, north. What lies between two numbers is a number.
holds contains "metadata.extent.space" if {
	count(input.extent.bbox) == 4
	input.extent.bbox[0] >= -180
	input.extent.bbox[0] <= 180
	input.extent.bbox[2] >= -180
	input.extent.bbox[2] <= 180
	input.extent.bbox[1] >= -90
	input.extent.bbox[3] <= 90
	input.extent.bbox[1] <= input.extent.bbox[3]
}

# A table without places says so in words, and says nothing else.
holds contains "metadata.extent.space" if {
	input.extent.bbox == []
	trim_space(input.extent.no_place) != ""
}

# Milliseconds since 1970, before it negative. What goes on is open, and says so: a missing end is not an open one.
holds contains "metadata.extent.time" if {
	is_number(input.extent.from)
	is_number(input.extent.until)
	input.extent.from <= input.extent.until
}

holds contains "metadata.extent.time" if {
	input.extent.until == "open"
	is_number(input.extent.from)
}

known contains "metadata.sensitivity" if input.label.sensitivity in data.kfm.words.usable

# A label may be tightened; what was made under a more closed one is not opened by a new word.
holds contains "metadata.kept" if {
	input.label.closed_parts == 0
	is_no_more_open
}

# What is never published may hold parts of any kind.
holds contains "metadata.kept" if {
	input.label.closed_parts >= 0
	input.label.closed_parts <= 9007199254740991
	input.label.closed_parts == floor(input.label.closed_parts)
	input.label.sensitivity == "restricted"
	is_no_more_open
}

is_no_more_open if {
	made := data.kfm.words.rank[input.receipt.sensitivity]
	said := data.kfm.words.rank[input.label.sensitivity]
	made <= said
}

holds contains "licence.declared" if {
	word := lower(trim_space(input.licence.id))
	word != ""
	not word in {"unknown", "none", "noassertion", "other", "proprietary", "n/a", "tbd", "?", "-"}
}

holds contains "licence.known" if input.licence.known == true

holds contains "licence.checked" if {
	input.licence.checked == true
	input.licence.redistribution == true
	trim_space(input.licence.checked_by) != ""
}

holds contains "validation.contracts" if {
	input.quality.sources <= 9007199254740991
	input.quality.sources == floor(input.quality.sources)
	input.quality.sources > 0
	input.quality.contracts == input.quality.sources
	input.quality.unheld_parts == 0
}

# A contract that says only the format of a table or grid says nothing about what is in it.
holds contains "validation.columns" if input.quality.thin == 0

# The weakest thresholds that are accepted; a dataset may have stricter ones, and more results.
floors := {"rows": 1}

ceilings := {"held_share": 0.1}

holds contains "validation.quarantined" if {
	some result in input.quality.results
	result.check == "held_share"
	is_number(result.at_most)
	is_number(result.value)
	result.value <= result.at_most
	result.at_most <= ceilings.held_share
}

holds contains "validation.results" if {
	is_array(input.quality.results)
	named := {result.check |
		some result in input.quality.results
		trim_space(result.check) != ""
		is_number(result.at_least)
		is_number(result.at_most)
		result.value >= result.at_least
		result.value <= result.at_most
		result.at_least >= object.get(floors, result.check, result.at_least)
		result.at_most <= object.get(ceilings, result.check, result.at_most)
	}
	count(named) == count(input.quality.results)
	"rows" in named
	"held_share" in named
}

known contains "provenance.inputs" if {
	is_array(input.provenance.inputs)
	count(input.provenance.inputs) > 0
	every source in input.provenance.inputs {
		trim_space(source.uri) != ""
		startswith(source.digest, "sha256:")
		count(source.digest) == 71
	}
}

holds contains "provenance.transform" if {
	trim_space(input.provenance.run_id) != ""
	trim_space(input.provenance.updater) != ""
	trim_space(input.provenance.updater_version) != ""
	startswith(input.provenance.plan_hash, "sha256:")
	count(input.provenance.plan_hash) == 71
	startswith(input.provenance.input_hash, "sha256:")
	count(input.provenance.input_hash) == 71
}

holds contains "provenance.code" if {
	startswith(input.provenance.code_hash, "sha256:")
	count(input.provenance.code_hash) == 71
}

holds contains "provenance.attested" if input.provenance.attestation in {"verified", "not required"}

holds contains "provenance.tools" if {
	trim_space(input.provenance.tools.kfm) != ""
	trim_space(input.provenance.tools.runtime) != ""
}

known contains "checksums.manifest" if {
	input.checksums.algorithm == "sha256"
	input.checksums.manifest == subject
}

known contains "checksums.objects" if {
	input.checksums.objects >= 0
	input.checksums.objects <= 9007199254740991
	input.checksums.objects == floor(input.checksums.objects)
	input.checksums.intact == input.checksums.objects
	input.checksums.damaged == 0
}

holds contains "receipt.told" if {
	trim_space(input.receipt.who) != ""
	trim_space(input.receipt.what) != ""
	input.receipt.when > 0
	input.receipt.when <= 9007199254740991
	trim_space(input.receipt.why) != ""
}

holds contains "receipt.success" if {
	input.receipt.status == "SUCCESS"
	input.receipt.dry_run == false
	trim_space(input.receipt.run_id) != ""
	input.receipt.run_id == input.provenance.run_id
}

holds contains "receipt.bytes" if {
	is_array(input.receipt.outputs)
	subject in input.receipt.outputs
}

holds contains "receipt.evidence" if {
	input.receipt.inputs == count(input.provenance.inputs)
	input.receipt.sensitivity in data.kfm.words.usable
	input.receipt.decisions >= 0
	input.receipt.decisions <= 9007199254740991
	input.receipt.decisions == floor(input.receipt.decisions)
}

missing := (object.keys(rules) - known) - holds

default allow := false

allow if count(missing) == 0

deny contains {"rule": rule, "msg": rules[rule]} if some rule in missing

warn contains {"rule": "metadata.description", "msg": "metadata: a description would help people to find it"} if {
	not is_described
}

is_described if trim_space(input.identity.description) != ""

warn contains {"rule": "validation.empty", "msg": "validation: the version holds no objects"} if {
	input.checksums.objects == 0
}

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
