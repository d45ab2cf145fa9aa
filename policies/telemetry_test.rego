package kfm.telemetry_test

import data.kfm.examples
import data.kfm.telemetry

# Where, what instead, and the rule that must then say no.
broken := [
	["/subjects", [examples.other], "telemetry.subject"],
	["/emission/recorded", "true", "telemetry.recorded"],
	["/emission/run_id", "run-2", "telemetry.run"],
	["/emission/fields", ["run_id"], "telemetry.fields"],
	["/emission/energy_method", "", "telemetry.energy"],
	["/emission/unmasked", 1, "telemetry.discreet"],
]

test_the_example_is_allowed_without_a_reason if {
	telemetry.allow == true with input as examples.telemetry
	telemetry.deny == set() with input as examples.telemetry
}

test_each_thing_that_is_wrong_is_denied_by_its_rule if {
	every case in broken {
		question := examples.but(examples.telemetry, case[0], case[1])
		telemetry.allow == false with input as question
		denied := telemetry.deny with input as question
		case[2] in {reason.rule | some reason in denied}
	}
}

test_every_part_is_needed if {
	every part in object.keys(examples.telemetry) {
		telemetry.allow == false with input as examples.without(examples.telemetry, part)
	}
}

test_deny_is_empty_exactly_when_allow_is_true if {
	agreeing := [1 |
		some question in questions
		allowed := telemetry.allow with input as question
		denied := telemetry.deny with input as question
		silent := count(denied) == 0
		allowed == silent
	]
	count(agreeing) == count(questions)
}

questions := array.concat(
	[examples.telemetry, {}, [], null, "true", 1, true],
	array.concat(
		[examples.but(examples.telemetry, case[0], case[1]) | some case in broken],
		[examples.without(examples.telemetry, part) | some part in object.keys(examples.telemetry)],
	),
)

test_an_aim_that_was_missed_is_told if {
	warned := telemetry.warn with input as examples.but(examples.telemetry, "/emission/slo_ok", false)
	{reason.rule | some reason in warned} == {"telemetry.slo"}
}
