package kfm.promotion_test

import data.kfm.examples
import data.kfm.promotion

# Where, what instead, and the rule that must then say no.
broken := [
	["/asked/who", " ", "asked.told"],
	["/asked/when", "2026-01-01", "asked.told"],
	["/asked/why", "", "asked.told"],
	["/subjects", [examples.other], "metadata.subject"],
	["/subjects", [examples.version, examples.other], "metadata.subject"],
	["/subjects", [], "metadata.subject"],
	["/identity/dataset", "", "metadata.dataset"],
	["/identity/title", "\t", "metadata.title"],
	["/schema/digest", "sha256:1", "metadata.schema"],
	["/extent/bbox", [], "metadata.extent.space"],
	["/extent/bbox", [0, 1, 2], "metadata.extent.space"],
	["/extent/bbox", [0, 50, 1, 40], "metadata.extent.space"],
	["/extent/bbox", [-181, 0, 1, 40], "metadata.extent.space"],
	["/extent/bbox", ["0", 0, 1, 40], "metadata.extent.space"],
	["/extent/until", -9999999999999, "metadata.extent.time"],
	["/extent/until", null, "metadata.extent.time"],
	["/label/sensitivity", "sacred", "metadata.sensitivity"],
	["/label/sensitivity", "Public", "metadata.sensitivity"],
	["/label/sensitivity", "closed", "metadata.sensitivity"],
	["/label/closed_parts", 1, "metadata.kept"],
	["/receipt/sensitivity", "restricted", "metadata.kept"],
	["/receipt/sensitivity", "generalised", "metadata.kept"],
	["/receipt/sensitivity", "closed", "metadata.kept"],
	["/licence/id", "Unknown", "licence.declared"],
	["/licence/id", " NOASSERTION ", "licence.declared"],
	["/licence/checked", "true", "licence.checked"],
	["/licence/redistribution", false, "licence.checked"],
	["/quality/contracts", 0, "validation.contracts"],
	["/quality/sources", 0, "validation.contracts"],
	["/quality/unheld_parts", 1, "validation.contracts"],
	["/quality/results", [], "validation.results"],
	["/quality/results/0/value", 99, "validation.results"],
	["/quality/results/0/at_least", 0, "validation.results"],
	["/quality/results/1/at_most", 0.5, "validation.results"],
	["/quality/results/1/value", 0.06, "validation.results"],
	["/quality/results/1/check", "rows", "validation.results"],
	["/provenance/inputs", [], "provenance.inputs"],
	["/provenance/inputs/0/digest", "", "provenance.inputs"],
	["/provenance/code_hash", "", "provenance.code"],
	["/provenance/tools", {}, "provenance.tools"],
	["/checksums/manifest", examples.other, "checksums.manifest"],
	["/checksums/algorithm", "md5", "checksums.manifest"],
	["/checksums/intact", 2, "checksums.objects"],
	["/checksums/damaged", 1, "checksums.objects"],
	["/receipt/who", "", "receipt.told"],
	["/receipt/why", "", "receipt.told"],
	["/receipt/status", "FAILED", "receipt.success"],
	["/receipt/dry_run", true, "receipt.success"],
	["/receipt/run_id", "run-2", "receipt.success"],
	["/receipt/outputs", [examples.other], "receipt.bytes"],
	["/receipt/inputs", 2, "receipt.evidence"],
	["/receipt/decisions", null, "receipt.evidence"],
]

test_the_example_is_allowed_without_a_reason if {
	promotion.allow == true with input as examples.promotion
	promotion.deny == set() with input as examples.promotion
}

test_each_thing_that_is_wrong_is_denied_by_its_rule if {
	every case in broken {
		question := examples.but(examples.promotion, case[0], case[1])
		promotion.allow == false with input as question
		denied := promotion.deny with input as question
		case[2] in {reason.rule | some reason in denied}
	}
}

test_every_part_is_needed if {
	every part in object.keys(examples.promotion) {
		promotion.allow == false with input as examples.without(examples.promotion, part)
	}
}

test_deny_is_empty_exactly_when_allow_is_true if {
	agreeing := [1 |
		some question in questions
		allowed := promotion.allow with input as question
		denied := promotion.deny with input as question
		silent := count(denied) == 0
		allowed == silent
	]
	count(agreeing) == count(questions)
}

questions := array.concat(
	[examples.promotion, {}, [], null, "true", 1, true],
	array.concat(
		[examples.but(examples.promotion, case[0], case[1]) | some case in broken],
		[examples.without(examples.promotion, part) | some part in object.keys(examples.promotion)],
	),
)

test_what_has_no_place_says_why if {
	question := examples.but(examples.but(examples.promotion, "/extent/bbox", []), "/extent/no_place", "a list of names")
	promotion.allow == true with input as question
}

test_what_goes_on_is_open if {
	promotion.allow == true with input as examples.but(examples.promotion, "/extent/until", "open")
}

test_a_warning_denies_nothing if {
	warned := promotion.warn with input as examples.promotion
	{reason.rule | some reason in warned} == {"metadata.description"}
}

test_a_version_without_objects_is_told if {
	empty := examples.but(
		examples.but(
			examples.but(examples.promotion, "/checksums/objects", 0),
			"/checksums/intact", 0,
		),
		"/identity/description", "Sites by county",
	)
	promotion.allow == true with input as empty
	warned := promotion.warn with input as empty
	{reason.rule | some reason in warned} == {"validation.empty"}
}

labelled(made, said) := examples.but(
	examples.but(examples.promotion, "/receipt/sensitivity", made),
	"/label/sensitivity", said,
)

test_a_label_may_be_tightened_and_not_loosened if {
	every pair in [["public", "generalised"], ["generalised", "generalised"], ["generalised", "restricted"]] {
		promotion.allow == true with input as labelled(pair[0], pair[1])
	}
	every pair in [["generalised", "public"], ["restricted", "public"], ["restricted", "generalised"]] {
		denied := promotion.deny with input as labelled(pair[0], pair[1])
		{reason.rule | some reason in denied} == {"metadata.kept"}
	}
	mixed := examples.but(labelled("generalised", "generalised"), "/label/closed_parts", 1)
	promotion.allow == false with input as mixed
	promotion.allow == true with input as examples.but(mixed, "/label/sensitivity", "restricted")
}
