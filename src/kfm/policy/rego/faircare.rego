# FAIR+CARE: can it be found, reached, understood and used again, and do the people it speaks of agree?
# Asked at the step to Published, and again by every operation that brings bytes back there.
package kfm.faircare

import data.kfm.facts

rules := {
	"asked.told": "asked: who asks for what, when and why is not all said",
	"fair.findable": "fair: it has no id, title and description to be found by",
	"fair.accessible": "fair: who may have it is not said, or is not everybody",
	"fair.interoperable": "fair: no schema with its digest is named",
	"fair.reusable": "fair: licence or inputs are not recorded",
	"care.class": "care: its class is not declared, is a word that nobody knows, or is not for the public",
	"care.authority": "care: whose data it is and who keeps it is not said",
	"care.consent": "care: the consent is missing, expired, or not from those who may give it",
	"care.review": "care: no steward reviewed exactly this version",
	"care.duties": "care: what is to be withheld or throttled cannot be read",
	"care.masking": "care: it is not masked as its label asks, or something leaked",
}

version := input.subjects[0] if {
	is_array(input.subjects)
	count(input.subjects) == 1
	facts.is_digest(input.subjects[0])
	input.subjects[0] == input.identity.version
}

# A class or a right that nobody knows is neither of these: it is the most restrictive one.
is_public if {
	input.label.sensitivity == "public"
	input.label.care == "open"
}

# Masked on its way in: what there is of it shows no more than the label allows.
is_generalised if {
	input.label.sensitivity == "generalised"
	input.label.care in {"open", "community"}
}

# A community's own: it is asked, by its key. What is generalised for another reason is its custodian's matter, whose
# key it is masked under; who may order its publication is asked by operation.rego.
is_theirs if {
	is_generalised
	input.label.care == "community"
}

is_kept if {
	is_generalised
	input.label.care == "open"
}

holds contains "asked.told" if {
	facts.is_text(input.asked.who)
	facts.is_text(input.asked.what)
	facts.is_instant(input.asked.when)
	facts.is_text(input.asked.why)
}

holds contains "fair.findable" if {
	facts.is_digest(version)
	facts.is_text(input.identity.dataset)
	facts.is_text(input.identity.title)
	facts.is_text(input.identity.description)
}

holds contains "fair.accessible" if input.label.access == "open"

holds contains "fair.interoperable" if {
	facts.is_text(input.schema.name)
	facts.is_digest(input.schema.digest)
}

holds contains "fair.reusable" if {
	facts.is_text(input.licence.id)
	is_array(input.provenance.inputs)
	count(input.provenance.inputs) > 0
	every source in input.provenance.inputs {
		facts.is_text(source.uri)
		facts.is_digest(source.digest)
	}
}

holds contains "care.class" if is_public

holds contains "care.class" if is_generalised

# Public data of nobody in particular has neither; what is known of whose it is must be whole everywhere else.
holds contains "care.authority" if is_public

holds contains "care.authority" if {
	is_kept
	facts.is_text(input.label.custodian)
}

holds contains "care.authority" if {
	facts.is_text(input.label.authority)
	facts.is_text(input.label.custodian)
}

# Public data of nobody in particular needs no consent; but one that was given for a time ends with it.
holds contains "care.consent" if {
	is_public
	input.label.expires == "never"
}

holds contains "care.consent" if {
	is_public
	is_running(input.label.expires)
}

holds contains "care.consent" if {
	is_kept
	input.label.expires == "never"
}

holds contains "care.consent" if {
	is_kept
	is_running(input.label.expires)
}

# A community's data is published with the community's own key: so many valid signatures over exactly this version.
holds contains "care.consent" if {
	is_theirs
	is_running(input.label.expires)
	facts.is_digest(version)
	input.consent.subject == version
	facts.is_count(input.consent.threshold)
	input.consent.threshold >= 1
	facts.is_count(input.consent.signatures)
	input.consent.signatures >= input.consent.threshold
	is_running(input.consent.until)
}

is_running(end) if {
	facts.is_instant(end)
	facts.is_instant(input.asked.when)
	input.asked.when < end
}

holds contains "care.review" if is_public

holds contains "care.review" if is_kept

holds contains "care.review" if {
	is_theirs
	facts.is_digest(version)
	input.review.subject == version
	input.review.outcome == "approved"
	facts.is_text(input.review.by)
	facts.is_instant(input.review.at)
	facts.is_instant(input.asked.when)
	input.review.at <= input.asked.when
}

holds contains "care.masking" if is_public

# The one resolution of the label: a coarser one is another product, a finer one tells too much.
holds contains "care.masking" if {
	is_generalised
	facts.is_digest(version)
	facts.is_count(resolution)
	resolution == input.masking.resolution
	input.masking.subject == version
	input.masking.leaks == 0
	input.masking.finer_than_source == false
}

# A duty that cannot be read is not one that is left out.
holds contains "care.duties" if {
	is_object(input.label)
	withheld := object.get(input.label, "withhold", [])
	is_array(withheld)
	every field in withheld {
		facts.is_text(field)
	}
	is_limit(object.get(input.label, "per_minute", "none"))
}

is_limit(limit) if limit == "none"

is_limit(limit) if {
	facts.is_count(limit)
	limit > 0
}

resolution := input.label.public_resolution if {
	facts.is_count(input.label.public_resolution)
	input.label.public_resolution <= 15
}

missing := object.keys(rules) - holds

default allow := false

allow if count(missing) == 0

deny contains {"rule": rule, "msg": rules[rule]} if some rule in missing

warn contains {"rule": "care.ending", "msg": "care: the consent ends within thirty days"} if {
	is_running(input.label.expires)
	input.label.expires - input.asked.when < ((30 * 24) * 3600) * 1000
}

# What is to be done with it, as data: whoever asked does it, or does not go on.
obligations contains {"do": "mask", "resolution": resolution} if {
	is_generalised
	facts.is_count(resolution)
}

obligations contains {"do": "withhold", "field": field} if {
	is_array(input.label.withhold)
	some field in input.label.withhold
	facts.is_text(field)
}

obligations contains {"do": "throttle", "per_minute": input.label.per_minute} if {
	facts.is_count(input.label.per_minute)
	input.label.per_minute > 0
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
