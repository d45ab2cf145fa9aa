package kfm.own_test

import data.kfm.examples
import data.kfm.own

test_nothing_to_say_is_a_yes if {
	own.allow == true with input as examples.zone with data.main as {"deny": set()}
}

test_a_text_and_an_object_are_reasons if {
	found := own.deny with input as examples.zone with data.main as {"deny": {"not on Fridays", {"msg": "too soon"}}}
	found == {{"rule": "own.deny", "msg": "not on Fridays"}, {"rule": "own.deny", "msg": "too soon"}}
	own.allow == false with input as examples.zone with data.main as {"deny": {"not on Fridays"}}
}

test_what_cannot_be_read_is_a_no if {
	every main in [{}, {"deny": true}, {"deny": []}, {"deny": {1}}, {"deny": {""}}, {"deny": {{"why": "x"}}}] {
		own.allow == false with input as examples.zone with data.main as main
		found := own.deny with input as examples.zone with data.main as main
		count(found) > 0
	}
}

test_warnings_are_told_and_stop_nothing if {
	main := {"deny": set(), "warn": {"it is Friday"}}
	own.allow == true with input as examples.zone with data.main as main
	found := own.warn with input as examples.zone with data.main as main
	found == {{"rule": "own.warn", "msg": "it is Friday"}}
}
