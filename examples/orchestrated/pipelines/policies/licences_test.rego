package main_test

import data.main

test_one_of_ours_is_let_through if {
	count(main.deny) == 0 with input as {"step": {"to": "published"}, "licence": {"id": "CC-PDM-1.0"}}
}

test_another_is_denied if {
	count(main.deny) == 1 with input as {"step": {"to": "published"}, "licence": {"id": "GPL-3.0"}}
}

test_none_is_denied if {
	count(main.deny) == 1 with input as {"step": {"to": "published"}, "licence": {}}
}
