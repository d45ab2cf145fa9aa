# Every step up a zone: Raw, Work, Processed, Published; from Quarantine back to Work. One step at a time.
package kfm.zone

import data.kfm.facts
import data.kfm.faircare
import data.kfm.promotion
import data.kfm.telemetry

rules := {
	"zone.step": "zone: there is no such step up",
	"zone.evidence": "zone: what the step asks for is not all there",
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

holds contains "zone.step" if {"from": input.step.from, "to": input.step.to} in steps

holds contains "zone.evidence" if {
	input.step.to == "work"
	count(into_work - promotion.holds) == 0
}

holds contains "zone.evidence" if {
	input.step.to == "processed"
	promotion.allow == true
}

holds contains "zone.evidence" if {
	input.step.to == "published"
	promotion.allow == true
	faircare.allow == true
	telemetry.allow == true
}

holds contains "zone.sealed" if input.label.sensitivity == "public"

holds contains "zone.sealed" if {
	input.label.sensitivity in {"generalised", "restricted"}
	input.step.sealed == true
}

# What was made of a generalised source is masked, and masked bytes are not sealed; the source itself is.
holds contains "zone.sealed" if {
	input.label.sensitivity == "generalised"
	input.step.to in {"processed", "published"}
	"care.masking" in faircare.holds
}

holds contains "zone.released" if input.step.from in {"raw", "work", "processed"}

holds contains "zone.released" if {
	input.step.from == "quarantine"
	input.review.outcome == "approved"
	facts.is_text(input.review.by)
	facts.is_digest(input.identity.version)
	input.review.subject == input.identity.version
}

missing := object.keys(rules) - holds

default allow := false

allow if count(missing) == 0

deny contains {"rule": rule, "msg": rules[rule]} if some rule in missing

# The parts say why, and only where their evidence is asked for.
deny contains reason if {
	"zone.evidence" in missing
	input.step.to in {"processed", "published"}
	some reason in promotion.deny
}

deny contains reason if {
	"zone.evidence" in missing
	input.step.to == "work"
	some reason in promotion.deny
	reason.rule in into_work
}

deny contains reason if {
	"zone.evidence" in missing
	input.step.to == "published"
	some reason in (faircare.deny | telemetry.deny)
}

warn contains reason if {
	input.step.to in {"processed", "published"}
	some reason in promotion.warn
}

warn contains reason if {
	input.step.to == "published"
	some reason in (faircare.warn | telemetry.warn)
}

obligations contains obligation if {
	input.step.to == "published"
	some obligation in faircare.obligations
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
