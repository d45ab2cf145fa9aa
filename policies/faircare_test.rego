package kfm.faircare_test

import data.kfm.examples
import data.kfm.faircare

# Where, what instead, and the rule that must then say no.
broken := [
	["/asked/when", 0, "asked.told"],
	["/identity/description", "", "fair.findable"],
	["/subjects", [examples.other], "fair.findable"],
	["/label/access", "embargoed", "fair.accessible"],
	["/label/access", "everybody", "fair.accessible"],
	["/schema/name", "", "fair.interoperable"],
	["/licence/id", "", "fair.reusable"],
	["/provenance/inputs", [], "fair.reusable"],
	["/label/care", "sacred", "care.class"],
	["/label/care", "a new word", "care.class"],
	["/label/sensitivity", "sacred", "care.class"],
	["/label/sensitivity", "public", "care.class"],
	["/label/sensitivity", "restricted", "care.class"],
	["/label/sensitivity", "closed", "care.class"],
	["/label/authority", "", "care.authority"],
	["/label/custodian", " ", "care.authority"],
	["/label/expires", 1767323045000, "care.consent"],
	["/label/expires", "never", "care.consent"],
	["/consent/signatures", 1, "care.consent"],
	["/consent/threshold", 0, "care.consent"],
	["/consent/subject", examples.other, "care.consent"],
	["/consent/until", 1767323044999, "care.consent"],
	["/review/outcome", "rejected", "care.review"],
	["/review/subject", examples.other, "care.review"],
	["/review/at", 1767323045001, "care.review"],
	["/review/by", "", "care.review"],
	["/masking/resolution", 8, "care.masking"],
	["/masking/resolution", 6, "care.masking"],
	["/masking/leaks", 1, "care.masking"],
	["/masking/finer_than_source", true, "care.masking"],
	["/masking/subject", examples.other, "care.masking"],
	["/label/public_resolution", 16, "care.masking"],
	["/label/withhold", "trinomial", "care.duties"],
	["/label/withhold", [7], "care.duties"],
	["/label/withhold", null, "care.duties"],
	["/label/per_minute", 0, "care.duties"],
	["/label/per_minute", "60", "care.duties"],
]

test_the_example_is_allowed_without_a_reason if {
	faircare.allow == true with input as examples.faircare
	faircare.deny == set() with input as examples.faircare
}

test_each_thing_that_is_wrong_is_denied_by_its_rule if {
	every case in broken {
		question := examples.but(examples.faircare, case[0], case[1])
		faircare.allow == false with input as question
		denied := faircare.deny with input as question
		case[2] in {reason.rule | some reason in denied}
	}
}

test_every_part_is_needed if {
	every part in object.keys(examples.faircare) {
		faircare.allow == false with input as examples.without(examples.faircare, part)
	}
}

test_deny_is_empty_exactly_when_allow_is_true if {
	agreeing := [1 |
		some question in questions
		allowed := faircare.allow with input as question
		denied := faircare.deny with input as question
		silent := count(denied) == 0
		allowed == silent
	]
	count(agreeing) == count(questions)
}

questions := array.concat(
	[examples.faircare, {}, [], null, "true", 1, true],
	array.concat(
		[examples.but(examples.faircare, case[0], case[1]) | some case in broken],
		[examples.without(examples.faircare, part) | some part in object.keys(examples.faircare)],
	),
)

test_obligations_are_data if {
	question := examples.but(examples.but(examples.faircare, "/label/withhold", ["trinomial"]), "/label/per_minute", 60)
	duties := faircare.obligations with input as question
	duties == {
		{"do": "mask", "resolution": 7},
		{"do": "withhold", "field": "trinomial"},
		{"do": "throttle", "per_minute": 60},
	}
}

public_label := {
	"sensitivity": "public", "care": "open", "access": "open",
	"authority": "state", "custodian": "state-museum", "expires": "never",
}

public_question := json.remove(
	examples.but(examples.faircare, "/label", public_label),
	["review", "consent", "masking"],
)

test_what_is_public_needs_no_community if {
	faircare.allow == true with input as public_question
	faircare.obligations == set() with input as public_question
}

test_public_data_of_nobody_in_particular_needs_no_authority_and_no_custodian if {
	faircare.allow == true with input as examples.without(public_question, "label/authority")
	faircare.allow == true with input as examples.without(public_question, "label/custodian")
	faircare.allow == false with input as examples.without(examples.faircare, "label/authority")
	faircare.allow == false with input as examples.without(examples.faircare, "label/custodian")
}

test_what_is_generalised_for_another_reason_is_masked_and_is_its_custodians_matter if {
	question := json.remove(examples.but(examples.faircare, "/label/care", "open"), ["consent", "review"])
	faircare.allow == true with input as question
	faircare.allow == true with input as examples.but(question, "/label/expires", "never")
	faircare.allow == true with input as examples.without(question, "label/authority")
	faircare.allow == false with input as examples.without(question, "label/custodian")
	faircare.allow == false with input as examples.without(question, "masking")
	faircare.allow == false with input as examples.but(question, "/label/expires", 1767323045000)
}

test_a_communitys_data_is_published_by_the_community_alone if {
	faircare.allow == false with input as examples.without(examples.faircare, "consent")
	faircare.allow == false with input as examples.without(examples.faircare, "review")
}

test_a_consent_that_expired_closes_public_data_too if {
	faircare.allow == false with input as examples.but(public_question, "/label/expires", 1767323045000)
}

test_a_consent_that_ends_soon_is_told if {
	warned := faircare.warn with input as examples.but(examples.faircare, "/label/expires", 1767323046000)
	{reason.rule | some reason in warned} == {"care.ending"}
}

test_a_consent_that_still_runs_keeps_public_data_open if {
	faircare.allow == true with input as examples.but(public_question, "/label/expires", 1767323045001)
}

test_a_limit_that_can_be_read_is_no_reason if {
	faircare.allow == true with input as examples.but(examples.faircare, "/label/per_minute", 60)
}
