# Operations: who may do what, with whose consent, about which bytes. Making things safer takes one person, less safe
# takes two stewards of that custodian who signed exactly this request. Signatures are verified before they come here.
package kfm.operation

rules := {
	"asked.told": "asked: who asks for what, when and why is not all said",
	"operation.known": "operation: there is no such operation",
	"operation.role": "operation: the role of who asks does not allow it",
	"operation.request": "operation: the request has no digest",
	"operation.subjects": "operation: it moves other bytes than were asked about",
	"operation.approved": "operation: not enough other people approved exactly this request",
	"operation.faircare": "operation: what it brings to the public does not pass FAIR+CARE",
}

# roles: who may ask. approvals: how many others must have signed. publishes: it may bring bytes to the public.
operations := {
	"run": {"roles": {"operator", "single"}, "approvals": 0, "publishes": false},
	"backfill": {"roles": {"operator", "single"}, "approvals": 0, "publishes": false},
	"retry": {"roles": {"operator", "single"}, "approvals": 0, "publishes": false},
	"force": {"roles": {"operator", "single"}, "approvals": 0, "publishes": false},
	"freeze": {"roles": {"operator", "steward", "admin", "single"}, "approvals": 0, "publishes": false},
	"thaw": {"roles": {"operator", "steward", "admin", "single"}, "approvals": 1, "publishes": false},
	"promote": {"roles": {"operator", "steward", "single"}, "approvals": 1, "publishes": true},
	"rollback": {"roles": {"operator", "steward", "single"}, "approvals": 1, "publishes": true},
	"hotfix": {"roles": {"operator", "steward", "single"}, "approvals": 1, "publishes": true},
	"withdraw": {"roles": {"operator", "steward", "single"}, "approvals": 0, "publishes": false},
	"tighten": {"roles": {"operator", "steward", "single"}, "approvals": 0, "publishes": false},
	"loosen": {"roles": {"operator", "steward"}, "approvals": 2, "publishes": false},
	"unmask": {"roles": {"operator", "steward"}, "approvals": 2, "publishes": false},
	"deploy-policy": {"roles": {"admin", "single"}, "approvals": 1, "publishes": false},
	"keys": {"roles": {"admin", "single"}, "approvals": 0, "publishes": false},
}

asked_for := operations[input.operation.name]

holds contains "asked.told" if {
	trim_space(input.asked.who) != ""
	trim_space(input.asked.what) != ""
	input.asked.when > 0
	input.asked.when <= 9007199254740991
	trim_space(input.asked.why) != ""
}

holds contains "operation.known" if {
	is_boolean(asked_for.publishes)
	trim_space(input.operation.name) != ""
	input.asked.what == input.operation.name
}

holds contains "operation.role" if {
	input.operation.role in asked_for.roles
	input.operation.role != "single"
}

# Without a list of keys there is one user, and only public data.
holds contains "operation.role" if {
	"single" in asked_for.roles
	input.operation.role == "single"
	input.label.sensitivity == "public"
}

holds contains "operation.request" if {
	startswith(input.operation.request, "sha256:")
	count(input.operation.request) == 71
}

holds contains "operation.subjects" if {
	is_array(input.subjects)
	is_array(input.operation.moves)
	every subject in input.subjects {
		startswith(subject, "sha256:")
		count(subject) == 71
	}
	every move in input.operation.moves {
		trim_space(move.ref) != ""
		is_string(move.after)
	}
	{subject | some subject in input.subjects} == {move.after | some move in input.operation.moves; move.after != ""}
}

valid contains approval if {
	is_array(input.operation.approvals)
	some approval in input.operation.approvals
	approval.verified == true
	approval.role == "steward"
	trim_space(approval.by) != ""
	approval.by != input.asked.who
	trim_space(approval.key) != ""
	startswith(input.operation.request, "sha256:")
	count(input.operation.request) == 71
	approval.request == input.operation.request
	trim_space(input.label.custodian) != ""
	approval.custodian == input.label.custodian
	approval.until > 0
	approval.until <= 9007199254740991
	input.asked.when > 0
	input.asked.when <= 9007199254740991
	input.asked.when < approval.until
}

holds contains "operation.approved" if asked_for.approvals == 0

holds contains "operation.approved" if {
	"single" in asked_for.roles
	input.operation.role == "single"
	input.label.sensitivity == "public"
}

holds contains "operation.approved" if {
	asked_for.approvals > 0
	trim_space(input.asked.who) != ""
	trim_space(input.label.custodian) != ""
	startswith(input.operation.request, "sha256:")
	count(input.operation.request) == 71
	count({approval.by | some approval in valid}) >= asked_for.approvals
	count({approval.key | some approval in valid}) >= asked_for.approvals
}

holds contains "operation.faircare" if asked_for.publishes == false

holds contains "operation.faircare" if {
	asked_for.publishes == true
	data.kfm.faircare.allow == true
}

# Nothing is brought to the public that was not there: every ref is emptied.
holds contains "operation.faircare" if {
	input.operation.name == "rollback"
	input.subjects == []
}

missing := object.keys(rules) - holds

default allow := false

allow if count(missing) == 0

deny contains {"rule": rule, "msg": rules[rule]} if some rule in missing

deny contains reason if {
	"operation.faircare" in missing
	some reason in data.kfm.faircare.deny
}

warn contains {"rule": "operation.forced", "msg": "operation: rules were set aside by force"} if {
	input.operation.name == "force"
}

obligations contains obligation if {
	asked_for.publishes == true
	count(input.subjects) > 0
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
