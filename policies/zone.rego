# Every step up a zone: Raw, Work, Processed, Published; from Quarantine back to Work. One step at a time.
package kfm.zone

rules := {
	"zone.step": "zone: there is no such step up",
	"zone.evidence": "zone: what the step asks for is not all there",
	"zone.usable": "zone: its sensitivity is closed, or a word that nobody knows",
	"zone.sealed": "zone: bytes of a protected source are not sealed",
	"zone.released": "zone: what was held was not released by a steward",
}

steps := {
	{"from": "raw", "to": "work"},
	{"from": "quarantine", "to": "work"},
	{"from": "work", "to": "processed"},
	{"from": "processed", "to": "published"},
}

# Into Work goes what is known by its bytes, its origin and its label; the rest of the checklist is about what is made.
into_work := {
	"asked.told", "metadata.subject", "metadata.dataset", "metadata.sensitivity", "provenance.inputs",
	"checksums.manifest", "checksums.objects",
}

# What may come later than Work and Processed, and only warns there. Nothing of it is unsafe.
late := {
	"metadata.title", "metadata.schema", "metadata.extent.space", "metadata.extent.time", "metadata.sensitivity",
	"metadata.kept", "licence.declared", "licence.known", "licence.checked", "validation.contracts",
	"validation.columns", "validation.quarantined", "validation.results", "provenance.inputs", "provenance.code",
	"provenance.attested", "provenance.tools", "receipt.evidence",
}

# What public data may lack even when it is published, and is told about.
advised := {
	"metadata.extent.space", "metadata.extent.time", "licence.checked", "validation.results", "provenance.code",
	"provenance.tools", "fair.findable",
}

holds contains "zone.step" if {"from": input.step.from, "to": input.step.to} in steps

holds contains "zone.evidence" if {
	input.step.to == "work"
	count((into_work - data.kfm.promotion.known) - late) == 0
}

holds contains "zone.evidence" if {
	input.step.to == "processed"
	count(data.kfm.promotion.missing - late) == 0
}

holds contains "zone.evidence" if {
	input.step.to == "published"
	count(data.kfm.promotion.missing - advised) == 0
	count(data.kfm.faircare.missing - advised) == 0
	data.kfm.telemetry.allow == true
}

holds contains "zone.usable" if input.label.sensitivity in data.kfm.words.usable

# Nobody said how open it is: it may be worked on, and is published by no rule.
holds contains "zone.usable" if input.label.sensitivity == "unsaid"

holds contains "zone.sealed" if input.label.sensitivity in {"public", "unsaid"}

holds contains "zone.sealed" if {
	input.label.sensitivity in {"generalised", "restricted"}
	input.step.sealed == true
}

# Where nobody keeps labels there is no custodian's key to seal with. Such data is never published.
holds contains "zone.sealed" if {
	input.label.sensitivity in {"generalised", "restricted"}
	input.step.labelled == false
	input.step.to in {"work", "processed"}
}

# What was made of a generalised source is masked, and masked bytes are not sealed; the source itself is.
holds contains "zone.sealed" if {
	input.label.sensitivity == "generalised"
	input.step.to in {"processed", "published"}
	"care.masking" in data.kfm.faircare.holds
}

holds contains "zone.released" if input.step.from in {"raw", "work", "processed"}

holds contains "zone.released" if {
	input.step.from == "quarantine"
	input.review.outcome == "approved"
	trim_space(input.review.by) != ""
	startswith(input.identity.version, "sha256:")
	count(input.identity.version) == 71
	input.review.subject == input.identity.version
}

missing := object.keys(rules) - holds

default allow := false

allow if count(missing) == 0

deny contains {"rule": rule, "msg": rules[rule]} if some rule in missing

# The parts say why, and only where their evidence is asked for.
deny contains {"rule": rule, "msg": data.kfm.promotion.rules[rule]} if {
	"zone.evidence" in missing
	input.step.to == "processed"
	some rule in (data.kfm.promotion.missing - late)
}

deny contains {"rule": rule, "msg": data.kfm.promotion.rules[rule]} if {
	"zone.evidence" in missing
	input.step.to == "work"
	some rule in ((into_work - data.kfm.promotion.known) - late)
}

deny contains reason if {
	"zone.evidence" in missing
	input.step.to == "published"
	some reason in ((data.kfm.promotion.deny | data.kfm.faircare.deny) | data.kfm.telemetry.deny)
	not reason.rule in advised
}

warn contains {"rule": rule, "msg": data.kfm.promotion.rules[rule]} if {
	input.step.to == "processed"
	some rule in (data.kfm.promotion.missing & late)
}

warn contains {"rule": rule, "msg": data.kfm.promotion.rules[rule]} if {
	input.step.to == "work"
	some rule in ((into_work & late) - data.kfm.promotion.known)
}

warn contains {"rule": rule, "msg": data.kfm.promotion.rules[rule]} if {
	input.step.to == "published"
	some rule in (data.kfm.promotion.missing & advised)
}

warn contains {"rule": rule, "msg": data.kfm.faircare.rules[rule]} if {
	input.step.to == "published"
	some rule in (data.kfm.faircare.missing & advised)
}

warn contains reason if {
	input.step.to == "processed"
	some reason in data.kfm.promotion.warn
}

# A missing description is said once: by fair.findable.
warn contains reason if {
	input.step.to == "published"
	some reason in data.kfm.promotion.warn
	reason.rule != "metadata.description"
}

warn contains reason if {
	input.step.to == "published"
	some reason in (data.kfm.faircare.warn | data.kfm.telemetry.warn)
}

obligations contains obligation if {
	input.step.to == "published"
	some obligation in data.kfm.faircare.obligations
}

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
