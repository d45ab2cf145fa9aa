package kfm.serve_test

import data.kfm.examples
import data.kfm.serve

# Where, what instead, and the rule that must then say no.
broken := [
	["/asked/who", " ", "asked.told"],
	["/asked/what", "", "asked.told"],
	["/asked/when", 0, "asked.told"],
	["/asked/when", 9007199254740993, "asked.told"],
	["/asked/when", null, "serve.consent"],
	["/asked/why", "", "asked.told"],
	["/subjects", [examples.other], "serve.subject"],
	["/subjects", [], "serve.subject"],
	["/subjects", [examples.version, examples.other], "serve.subject"],
	["/identity/dataset", "", "serve.subject"],
	["/serving/audience", "everybody", "serve.audience"],
	["/serving/audience", "", "serve.audience"],
	["/serving/audience", "Public", "serve.audience"],
	["/serving/status", "withdrawn", "serve.status"],
	["/serving/status", "rolled back", "serve.status"],
	["/serving/status", "none", "serve.status"],
	["/serving/status", "", "serve.status"],
	["/label/sensitivity", "restricted", "serve.label"],
	["/label/sensitivity", "closed", "serve.label"],
	["/label/sensitivity", "unsaid", "serve.label"],
	["/label/care", "sacred", "serve.label"],
	["/label/care", "a new word", "serve.label"],
	["/label/access", "embargoed", "serve.access"],
	["/label/access", "everybody", "serve.access"],
	["/label/expires", 1767323045000, "serve.consent"],
	["/label/expires", "soon", "serve.consent"],
	["/label/expires", null, "serve.consent"],
	["/masking/subject", examples.other, "serve.masking"],
	["/masking/resolution", 8, "serve.masking"],
	["/masking/resolution", -1, "serve.masking"],
	["/masking/resolution", 6.5, "serve.masking"],
	["/masking/leaks", 1, "serve.masking"],
	["/masking/finer_than_source", true, "serve.masking"],
	["/label/public_resolution", 6, "serve.masking"],
	["/label/public_resolution", 16, "serve.masking"],
	["/label/closed_parts", 1, "serve.kept"],
	["/label/closed_parts", "0", "serve.kept"],
	["/label/withhold", "trinomial", "serve.duties"],
	["/label/withhold", [7], "serve.duties"],
	["/label/withhold", null, "serve.duties"],
	["/label/public_resolution", 6.5, "serve.masking"],
	["/label/public_resolution", -1, "serve.masking"],
	["/label/withhold", {"a": "trinomial"}, "serve.duties"],
	["/label/per_minute", 0, "serve.duties"],
	["/label/per_minute", 1.5, "serve.duties"],
	["/label/per_minute", 9007199254740993, "serve.duties"],
	["/label/per_minute", "60", "serve.duties"],
]

test_the_example_is_allowed_without_a_reason if {
	serve.allow == true with input as examples.serve
	serve.deny == set() with input as examples.serve
}

test_each_thing_that_is_wrong_is_denied_by_its_rule if {
	every case in broken {
		question := examples.but(examples.serve, case[0], case[1])
		serve.allow == false with input as question
		denied := serve.deny with input as question
		case[2] in {reason.rule | some reason in denied}
	}
}

test_every_rule_has_something_that_breaks_it if {
	{case[2] | some case in broken} == object.keys(serve.rules)
}

test_every_part_is_needed if {
	every part in object.keys(examples.serve) {
		serve.allow == false with input as examples.without(examples.serve, part)
	}
}

test_deny_is_empty_exactly_when_allow_is_true if {
	agreeing := [1 |
		some question in questions
		allowed := serve.allow with input as question
		denied := serve.deny with input as question
		silent := count(denied) == 0
		allowed == silent
	]
	count(agreeing) == count(questions)
}

questions := array.concat(
	[examples.serve, {}, [], null, "true", 1, true],
	array.concat(
		[examples.but(examples.serve, case[0], case[1]) | some case in broken],
		[examples.without(examples.serve, part) | some part in object.keys(examples.serve)],
	),
)

public_question := examples.without(
	examples.but(
		examples.serve, "/label",
		{"sensitivity": "public", "care": "open", "access": "open", "expires": "never", "closed_parts": 0},
	),
	"masking",
)

test_what_is_public_needs_no_mask if {
	serve.allow == true with input as public_question
	serve.obligations == set() with input as public_question
}

test_public_data_with_another_care_is_not_shown if {
	serve.allow == false with input as examples.but(public_question, "/label/care", "community")
	serve.allow == false with input as examples.without(public_question, "label/care")
}

test_a_version_is_named_by_a_whole_digest if {
	every digest in ["md5:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "sha256:aa", 7, null] {
		question := examples.but(examples.but(public_question, "/subjects", [digest]), "/identity/version", digest)
		serve.allow == false with input as question
	}
}

test_every_audience_that_is_known_sees_it if {
	every audience in {"public", "single", "viewer", "operator", "steward", "admin"} {
		serve.allow == true with input as examples.but(public_question, "/serving/audience", audience)
	}
}

test_an_older_version_that_was_not_withdrawn_is_shown if {
	serve.allow == true with input as examples.but(examples.serve, "/serving/status", "superseded")
}

test_a_label_that_allows_finer_cells_than_the_version_has_is_no_reason if {
	serve.allow == true with input as examples.but(examples.serve, "/label/public_resolution", 8)
	serve.allow == true with input as examples.but(examples.serve, "/masking/resolution", 6)
}

test_a_communitys_data_is_shown_while_its_consent_runs if {
	question := examples.but(examples.serve, "/label/care", "community")
	serve.allow == true with input as question
	serve.allow == true with input as examples.but(question, "/label/expires", 1767323045001)
	serve.allow == false with input as examples.but(question, "/label/expires", 1767323045000)
	serve.allow == true with input as examples.but(question, "/label/expires", "never")
}

test_obligations_are_data if {
	question := examples.but(examples.but(examples.serve, "/label/withhold", ["trinomial"]), "/label/per_minute", 60)
	serve.allow == true with input as question
	duties := serve.obligations with input as question
	duties == {
		{"do": "mask", "resolution": 7},
		{"do": "withhold", "field": "trinomial"},
		{"do": "throttle", "per_minute": 60},
	}
}

test_a_consent_that_ends_soon_is_told if {
	warned := serve.warn with input as examples.but(examples.serve, "/label/expires", 1767323046000)
	{reason.rule | some reason in warned} == {"serve.ending"}
	serve.warn == set() with input as examples.serve
}
