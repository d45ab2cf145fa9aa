# FAIR+CARE: can it be found, reached, understood and used again, and do the people it speaks of agree?
# Asked at the step to Published, and again by every operation that brings bytes back there.
package kfm.faircare

rules := {
	"asked.told": "asked: who asks for what, when and why is not all said",
	"fair.findable": "fair: it has no description, title or id to be found by",
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
	count(input.subjects) == 1
	startswith(input.subjects[0], "sha256:")
	count(input.subjects[0]) == 71
	input.subjects[0] == input.identity.version
}

holds contains "asked.told" if {
	trim_space(input.asked.who) != ""
	trim_space(input.asked.what) != ""
	input.asked.when > 0
	input.asked.when <= 9007199254740991
	trim_space(input.asked.why) != ""
}

holds contains "fair.findable" if {
	version == input.identity.version
	trim_space(input.identity.dataset) != ""
	trim_space(input.identity.title) != ""
	trim_space(input.identity.description) != ""
}

holds contains "fair.accessible" if input.label.access == "open"

holds contains "fair.interoperable" if {
	trim_space(input.schema.name) != ""
	startswith(input.schema.digest, "sha256:")
	count(input.schema.digest) == 71
}

holds contains "fair.reusable" if {
	trim_space(input.licence.id) != ""
	is_array(input.provenance.inputs)
	count(input.provenance.inputs) > 0
	every source in input.provenance.inputs {
		trim_space(source.uri) != ""
		startswith(source.digest, "sha256:")
		count(source.digest) == 71
	}
}

# A class or a right that nobody knows is neither of these: it is the most restrictive one. Public is for everybody;
# generalised was masked on its way in: what there is of it shows no more than the label allows.
holds contains "care.class" if {
	input.label.sensitivity == "public"
	input.label.care == "open"
}

holds contains "care.class" if {
	input.label.sensitivity == "generalised"
	input.label.care in {"open", "community"}
}

# Public data of nobody in particular has neither; what is known of whose it is must be whole everywhere else.
holds contains "care.authority" if {
	input.label.sensitivity == "public"
	input.label.care == "open"
}

# What is generalised for another reason than a community's is its custodian's matter, whose key it is masked under;
# who may order its publication is asked by operation.rego.
holds contains "care.authority" if {
	input.label.sensitivity == "generalised"
	input.label.care == "open"
	trim_space(input.label.custodian) != ""
}

holds contains "care.authority" if {
	trim_space(input.label.authority) != ""
	trim_space(input.label.custodian) != ""
}

# Data of no community needs no consent; but one that was given for a time ends with it.
holds contains "care.consent" if {
	input.label.expires == "never"
	input.label.care == "open"
	input.label.sensitivity in {"public", "generalised"}
}

holds contains "care.consent" if {
	input.label.care == "open"
	input.label.sensitivity in {"public", "generalised"}
	input.asked.when > 0
	input.asked.when < input.label.expires
	input.label.expires <= 9007199254740991
}

# A community's data is published with the community's own key: so many valid signatures over exactly this version.
holds contains "care.consent" if {
	input.label.care == "community"
	input.label.sensitivity == "generalised"
	input.asked.when > 0
	input.asked.when < input.label.expires
	input.label.expires <= 9007199254740991
	input.consent.subject == version
	input.consent.threshold >= 1
	input.consent.threshold == floor(input.consent.threshold)
	input.consent.signatures >= input.consent.threshold
	input.consent.signatures <= 9007199254740991
	input.consent.signatures == floor(input.consent.signatures)
	input.consent.until > input.asked.when
	input.consent.until <= 9007199254740991
}

holds contains "care.review" if {
	input.label.care == "open"
	input.label.sensitivity in {"public", "generalised"}
}

holds contains "care.review" if {
	input.label.care == "community"
	input.label.sensitivity == "generalised"
	input.review.subject == version
	input.review.outcome == "approved"
	trim_space(input.review.by) != ""
	input.review.at > 0
	input.review.at <= input.asked.when
	input.asked.when <= 9007199254740991
}

holds contains "care.masking" if {
	input.label.sensitivity == "public"
	input.label.care == "open"
}

# The one resolution of the label: a coarser one is another product, a finer one tells too much.
holds contains "care.masking" if {
	input.label.sensitivity == "generalised"
	input.label.care in {"open", "community"}
	input.masking.resolution == resolution
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
		trim_space(field) != ""
	}
	limit := object.get(input.label, "per_minute", 1)
	limit > 0
	limit <= 9007199254740991
	limit == floor(limit)
}

resolution := input.label.public_resolution if {
	input.label.public_resolution >= 0
	input.label.public_resolution <= 15
	input.label.public_resolution == floor(input.label.public_resolution)
}

missing := object.keys(rules) - holds

default allow := false

allow if count(missing) == 0

deny contains {"rule": rule, "msg": rules[rule]} if some rule in missing

warn contains {"rule": "care.ending", "msg": "care: the consent ends within thirty days"} if {
	input.asked.when > 0
	input.asked.when < input.label.expires
	input.label.expires <= 9007199254740991
	input.label.expires - input.asked.when < ((30 * 24) * 3600) * 1000
}

# What is to be done with it, as data: whoever asked does it, or does not go on.
obligations contains {"do": "mask", "resolution": resolution} if {
	resolution >= 0
	input.label.sensitivity == "generalised"
	input.label.care in {"open", "community"}
}

obligations contains {"do": "withhold", "field": field} if {
	is_array(input.label.withhold)
	some field in input.label.withhold
	trim_space(field) != ""
}

obligations contains {"do": "throttle", "per_minute": input.label.per_minute} if {
	input.label.per_minute > 0
	input.label.per_minute <= 9007199254740991
	input.label.per_minute == floor(input.label.per_minute)
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
