# Serving: may this version be shown to this audience now? Asked over HTTP of every version that is about to be shown.
# What was published may be closed since; so nothing here relies on the yes that published it.
package kfm.serve

rules := {
	"asked.told": "asked: who asks for what, when and why is not all said",
	"serve.subject": "serve: the question is not about exactly one version, or does not name it",
	"serve.audience": "serve: nobody knows this audience",
	"serve.status": "serve: the version is not public now",
	"serve.label": "serve: its present label does not let the public see it",
	"serve.access": "serve: its access is not open",
	"serve.consent": "serve: the consent has ended, or is not said",
	"serve.masking": "serve: it is not masked as coarsely as its present label asks",
	"serve.kept": "serve: a part of it was made under a more closed sensitivity than it has now",
	"serve.duties": "serve: what is to be withheld or throttled cannot be read",
}

audiences := {"public", "single", "viewer", "operator", "steward", "admin"}

holds contains "asked.told" if {
	trim_space(input.asked.who) != ""
	trim_space(input.asked.what) != ""
	input.asked.when > 0
	input.asked.when <= 9007199254740991
	trim_space(input.asked.why) != ""
}

version := input.subjects[0] if {
	count(input.subjects) == 1
	startswith(input.subjects[0], "sha256:")
	count(input.subjects[0]) == 71
}

holds contains "serve.subject" if {
	version == input.identity.version
	trim_space(input.identity.dataset) != ""
}

holds contains "serve.audience" if input.serving.audience in audiences

# What was withdrawn or rolled back is gone for everybody; an older version that was not is still public.
holds contains "serve.status" if input.serving.status in {"current", "superseded"}

holds contains "serve.label" if {
	input.label.sensitivity == "public"
	input.label.care == "open"
}

# A community's consent was asked when it was published; that it still runs is asked below.
holds contains "serve.label" if {
	input.label.sensitivity == "generalised"
	input.label.care in {"open", "community"}
}

holds contains "serve.access" if input.label.access == "open"

# Data of no community needs no consent; but one that was given for a time ends with it.
holds contains "serve.consent" if input.label.expires == "never"

holds contains "serve.consent" if {
	input.asked.when > 0
	input.asked.when < input.label.expires
	input.label.expires <= 9007199254740991
}

holds contains "serve.masking" if input.label.sensitivity == "public"

# A label that asks for coarser cells than the version has closes it; one that allows finer cells opens nothing.
holds contains "serve.masking" if {
	input.label.sensitivity == "generalised"
	input.masking.subject == version
	input.masking.resolution >= 0
	input.masking.resolution <= resolution
	input.masking.resolution == floor(input.masking.resolution)
	input.masking.leaks == 0
	input.masking.finer_than_source == false
}

holds contains "serve.kept" if input.label.closed_parts == 0

# A duty that cannot be read is not one that is left out.
holds contains "serve.duties" if {
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

warn contains {"rule": "serve.ending", "msg": "serve: the consent ends within thirty days"} if {
	input.asked.when > 0
	input.asked.when < input.label.expires
	input.label.expires <= 9007199254740991
	input.label.expires - input.asked.when < ((30 * 24) * 3600) * 1000
}

obligations contains {"do": "mask", "resolution": resolution} if {
	resolution >= 0
	input.label.sensitivity == "generalised"
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
