# The promotion checklist in full: what must be there before a version may step up to Processed or Published.
# README.md beside this file says for a steward what each rule asks, and why.
package kfm.promotion

import data.kfm.facts
import data.kfm.words

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
	"licence.checked": "licence: nobody checked that it may be passed on",
	"validation.contracts": "validation: not every source was held against a data contract",
	"validation.results": "validation: a result is missing, has no threshold, or is beyond it",
	"provenance.inputs": "provenance: the inputs are not recorded with their digests",
	"provenance.transform": "provenance: run, plan, inputs or updater version are not recorded",
	"provenance.code": "provenance: the digest of the code is not recorded",
	"provenance.tools": "provenance: the versions of the tools are not recorded",
	"checksums.manifest": "checksums: the version record is about other bytes",
	"checksums.objects": "checksums: not every object was read and found intact",
	"receipt.told": "receipt: it does not say who, what, when and why",
	"receipt.success": "receipt: the run that made it did not succeed",
	"receipt.bytes": "receipt: it is about other bytes",
	"receipt.evidence": "receipt: inputs, sensitivity or decisions are not in it",
}

holds contains "asked.told" if {
	facts.is_text(input.asked.who)
	facts.is_text(input.asked.what)
	facts.is_instant(input.asked.when)
	facts.is_text(input.asked.why)
}

subject := input.subjects[0] if {
	is_array(input.subjects)
	count(input.subjects) == 1
	facts.is_digest(input.subjects[0])
}

holds contains "metadata.subject" if {
	facts.is_digest(subject)
	subject == input.identity.version
}

holds contains "metadata.dataset" if facts.is_text(input.identity.dataset)

holds contains "metadata.title" if facts.is_text(input.identity.title)

holds contains "metadata.schema" if {
	facts.is_text(input.schema.name)
	facts.is_digest(input.schema.digest)
}

holds contains "metadata.extent.space" if is_box(input.extent.bbox)

# A table without places says so in words, and says nothing else.
holds contains "metadata.extent.space" if {
	input.extent.bbox == []
	facts.is_text(input.extent.no_place)
}

is_box(box) if {
	is_array(box)
	count(box) == 4
	west := box[0]
	south := box[1]
	east := box[2]
	north := box[3]
	is_number(west)
	is_number(south)
	is_number(east)
	is_number(north)
	west >= -180
	west <= 180
	east >= -180
	east <= 180
	south >= -90
	north <= 90
	south <= north
}

holds contains "metadata.extent.time" if is_interval(input.extent.from, input.extent.until)

# Milliseconds since 1970, before it negative. What goes on is open, and says so: a missing end is not an open one.
is_interval(start, end) if {
	is_number(start)
	is_number(end)
	start <= end
}

is_interval(start, end) if {
	is_number(start)
	end == "open"
}

holds contains "metadata.sensitivity" if input.label.sensitivity in words.usable

# A label may be tightened; what was made under a more closed one is not opened by a new word.
holds contains "metadata.kept" if {
	input.label.closed_parts == 0
	is_no_more_open
}

# What is never published may hold parts of any kind.
holds contains "metadata.kept" if {
	facts.is_count(input.label.closed_parts)
	input.label.sensitivity == "restricted"
	is_no_more_open
}

is_no_more_open if {
	made := words.rank[input.receipt.sensitivity]
	said := words.rank[input.label.sensitivity]
	facts.is_count(made)
	facts.is_count(said)
	made <= said
}

no_licence := {"unknown", "none", "noassertion", "other", "proprietary", "n/a", "tbd", "?", "-"}

holds contains "licence.declared" if {
	facts.is_text(input.licence.id)
	not lower(trim_space(input.licence.id)) in no_licence
}

holds contains "licence.checked" if {
	input.licence.checked == true
	input.licence.redistribution == true
	facts.is_text(input.licence.checked_by)
}

holds contains "validation.contracts" if {
	facts.is_count(input.quality.sources)
	input.quality.sources > 0
	is_number(input.quality.contracts)
	input.quality.contracts == input.quality.sources
	input.quality.unheld_parts == 0
}

# The weakest thresholds that are accepted; a dataset may have stricter ones, and more results.
floors := {"rows": 1}

ceilings := {"held_share": 0.1}

demanded := {"rows", "held_share"}

holds contains "validation.results" if {
	is_array(input.quality.results)
	named := {result.check |
		some result in input.quality.results
		is_number(result.value)
		is_number(result.at_least)
		is_number(result.at_most)
		result.value >= result.at_least
		result.value <= result.at_most
		result.at_least >= object.get(floors, result.check, result.at_least)
		result.at_most <= object.get(ceilings, result.check, result.at_most)
	}
	count(named) == count(input.quality.results)
	count(demanded - named) == 0
	every check in named {
		facts.is_text(check)
	}
}

holds contains "provenance.inputs" if {
	facts.is_list(input.provenance.inputs)
	every source in input.provenance.inputs {
		facts.is_text(source.uri)
		facts.is_digest(source.digest)
	}
}

holds contains "provenance.transform" if {
	facts.is_text(input.provenance.run_id)
	facts.is_text(input.provenance.updater)
	facts.is_text(input.provenance.updater_version)
	facts.is_digest(input.provenance.plan_hash)
	facts.is_digest(input.provenance.input_hash)
}

holds contains "provenance.code" if facts.is_digest(input.provenance.code_hash)

holds contains "provenance.tools" if {
	facts.is_text(input.provenance.tools.kfm)
	facts.is_text(input.provenance.tools.runtime)
}

holds contains "checksums.manifest" if {
	facts.is_digest(subject)
	input.checksums.algorithm == "sha256"
	input.checksums.manifest == subject
}

holds contains "checksums.objects" if {
	facts.is_count(input.checksums.objects)
	is_number(input.checksums.intact)
	input.checksums.intact == input.checksums.objects
	input.checksums.damaged == 0
}

holds contains "receipt.told" if {
	facts.is_text(input.receipt.who)
	facts.is_text(input.receipt.what)
	facts.is_instant(input.receipt.when)
	facts.is_text(input.receipt.why)
}

holds contains "receipt.success" if {
	input.receipt.status == "SUCCESS"
	input.receipt.dry_run == false
	facts.is_text(input.receipt.run_id)
	input.receipt.run_id == input.provenance.run_id
}

holds contains "receipt.bytes" if {
	is_array(input.receipt.outputs)
	facts.is_digest(subject)
	subject in input.receipt.outputs
}

holds contains "receipt.evidence" if {
	facts.is_count(input.receipt.inputs)
	input.receipt.inputs == count(input.provenance.inputs)
	input.receipt.sensitivity in words.usable
	facts.is_count(input.receipt.decisions)
}

missing := object.keys(rules) - holds

default allow := false

allow if count(missing) == 0

deny contains {"rule": rule, "msg": rules[rule]} if some rule in missing

warn contains {"rule": "metadata.description", "msg": "metadata: a description would help people to find it"} if {
	not is_described
}

is_described if facts.is_text(input.identity.description)

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
