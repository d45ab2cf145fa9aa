package kfm.operation_test

import data.kfm.examples
import data.kfm.operation

# Where, what instead, and the rule that must then say no.
broken := [
	["/asked/why", "", "asked.told"],
	["/operation/name", "delete", "operation.known"],
	["/asked/what", "rollback", "operation.known"],
	["/operation/role", "viewer", "operation.role"],
	["/operation/role", "admin", "operation.role"],
	["/operation/role", "single", "operation.role"],
	["/operation/request", "", "operation.request"],
	["/operation/moves", [], "operation.subjects"],
	["/operation/moves/0/after", examples.other, "operation.subjects"],
	["/operation/moves/0/after", "", "operation.subjects"],
	["/operation/approvals", [], "operation.approved"],
	["/operation/approvals/0/by", "ada", "operation.approved"],
	["/operation/approvals/0/role", "operator", "operation.approved"],
	["/operation/approvals/0/verified", "true", "operation.approved"],
	["/operation/approvals/0/request", examples.version, "operation.approved"],
	["/operation/approvals/0/custodian", "another", "operation.approved"],
	["/operation/approvals/0/until", 1767323045000, "operation.approved"],
	["/label/care", "sacred", "operation.faircare"],
	["/label/care", "sacred", "care.class"],
]

test_the_example_is_allowed_without_a_reason if {
	operation.allow == true with input as examples.operation
	operation.deny == set() with input as examples.operation
}

test_each_thing_that_is_wrong_is_denied_by_its_rule if {
	every case in broken {
		question := examples.but(examples.operation, case[0], case[1])
		operation.allow == false with input as question
		denied := operation.deny with input as question
		case[2] in {reason.rule | some reason in denied}
	}
}

test_every_part_is_needed if {
	every part in object.keys(examples.operation) {
		operation.allow == false with input as examples.without(examples.operation, part)
	}
}

test_deny_is_empty_exactly_when_allow_is_true if {
	agreeing := [1 |
		some question in questions
		allowed := operation.allow with input as question
		denied := operation.deny with input as question
		silent := count(denied) == 0
		allowed == silent
	]
	count(agreeing) == count(questions)
}

questions := array.concat(
	[examples.operation, {}, [], null, "true", 1, true],
	array.concat(
		[examples.but(examples.operation, case[0], case[1]) | some case in broken],
		[examples.without(examples.operation, part) | some part in object.keys(examples.operation)],
	),
)

loosening := examples.but(examples.but(examples.operation, "/asked/what", "loosen"), "/operation/name", "loosen")

approval := examples.operation.operation.approvals[0]

approved(approvals) := examples.but(loosening, "/operation/approvals", approvals)

test_less_safe_takes_two_stewards if {
	second := object.union(approval, {"by": "mary", "key": "key-2"})
	operation.allow == true with input as approved([approval, second])
}

test_one_person_is_not_two if {
	every second in [
		approval,
		object.union(approval, {"key": "key-2"}),
		object.union(approval, {"by": "mary"}),
		object.union(approval, {"by": "ada", "key": "key-2"}),
	] {
		operation.allow == false with input as approved([approval, second])
	}
}

test_safer_takes_one if {
	every name in ["freeze", "withdraw", "tighten"] {
		question := examples.but(
			examples.but(
				examples.but(examples.operation, "/asked/what", name),
				"/operation/name", name,
			),
			"/operation/approvals", [],
		)
		operation.allow == true with input as question
	}
}

test_a_single_user_has_public_data_only if {
	alone := examples.but(
		examples.but(
			examples.but(examples.operation, "/operation/role", "single"),
			"/operation/approvals", [],
		),
		"/label", {
			"sensitivity": "public", "care": "open", "access": "open",
			"authority": "state", "custodian": "state-museum", "expires": "never",
		},
	)
	operation.allow == true with input as alone
	operation.allow == false with input as examples.but(alone, "/label/sensitivity", "restricted")
}

test_a_rollback_to_nothing_needs_no_faircare if {
	emptied := examples.but(
		examples.but(
			examples.but(
				examples.but(examples.operation, "/asked/what", "rollback"),
				"/operation/name", "rollback",
			),
			"/operation/moves/0/after", "",
		),
		"/subjects", [],
	)
	operation.allow == true with input as emptied
}

test_force_is_told if {
	forced := examples.but(examples.but(examples.operation, "/asked/what", "force"), "/operation/name", "force")
	operation.allow == true with input as forced
	warned := operation.warn with input as forced
	{reason.rule | some reason in warned} == {"operation.forced"}
}

test_the_obligations_of_what_is_brought_to_the_public_are_handed_on if {
	duties := operation.obligations with input as examples.operation
	duties == {{"do": "mask", "resolution": 7}}
}
