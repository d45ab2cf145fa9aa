package kfm.minimum_test

import data.kfm.examples
import data.kfm.minimum

# Where, what instead, and the rule that must then say no.
broken := [
	["/made/title", "", "metadata.title"],
	["/made/licence", " ", "licence.declared"],
	["/made/sensitivity", "", "metadata.declared"],
	["/made/sensitivity", "restricted", "metadata.public"],
	["/made/made_as", "restricted", "metadata.kept"],
	["/made/closed_parts", ["restricted/KS"], "metadata.parts"],
	["/made/contracts", 0, "validation.contracts"],
	["/made/sources", 0, "validation.contracts"],
	["/made/unheld_parts", ["unheld/KS"], "validation.parts"],
	["/made/version", examples.other, "checksums.subject"],
	["/made/looked_at", 1, "checksums.read"],
	["/made/damaged", "object", "checksums.intact"],
	["/made/plan_hash", "", "provenance.recorded"],
	["/made/updater_version", "", "provenance.recorded"],
	["/made/run_id", "", "provenance.run"],
	["/made/receipt", null, "receipt.there"],
	["/made/receipt/status", "FAILED", "receipt.success"],
	["/made/receipt/dry_run", true, "receipt.success"],
	["/made/receipt/outputs", [], "receipt.bytes"],
]

test_the_example_is_allowed_without_a_reason if {
	minimum.allow == true with input as examples.minimum
	minimum.deny == set() with input as examples.minimum
}

test_each_thing_that_is_wrong_is_denied_by_its_rule if {
	every case in broken {
		question := examples.but(examples.minimum, case[0], case[1])
		minimum.allow == false with input as question
		denied := minimum.deny with input as question
		case[2] in {reason.rule | some reason in denied}
	}
}

test_every_part_is_needed if {
	every part in object.keys(examples.minimum) {
		minimum.allow == false with input as examples.without(examples.minimum, part)
	}
}

test_deny_is_empty_exactly_when_allow_is_true if {
	agreeing := [1 |
		some question in questions
		allowed := minimum.allow with input as question
		denied := minimum.deny with input as question
		silent := count(denied) == 0
		allowed == silent
	]
	count(agreeing) == count(questions)
}

questions := array.concat(
	[examples.minimum, {}, [], null, "true", 1, true],
	array.concat(
		[examples.but(examples.minimum, case[0], case[1]) | some case in broken],
		[examples.without(examples.minimum, part) | some part in object.keys(examples.minimum)],
	),
)

test_what_was_masked_is_asked_about_in_full if {
	generalised := examples.but(examples.minimum, "/made/sensitivity", "generalised")
	minimum.allow == false with input as generalised
	masked := examples.but(generalised, "/made/masked", true)
	minimum.allow == true with input as masked
	minimum.allow == true with input as examples.but(masked, "/made/made_as", "generalised")
	minimum.allow == false with input as examples.but(masked, "/made/made_as", "restricted")
}
