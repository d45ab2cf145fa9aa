# What an installation adds to the policies: `deny` and `warn` of its own package `main`, as Conftest has them. Asked
# only where everything else said yes: it can close, and never opens.
package kfm.own

import data.kfm.facts
import data.main

rules := {
	"own.readable": "own: package main has no set of reasons called deny",
	"own.reasons": "own: a reason is neither a text nor an object with msg",
}

holds contains "own.readable" if is_set(main.deny)

holds contains "own.reasons" if {
	is_set(main.deny)
	every reason in main.deny {
		facts.is_text(text_of(reason))
	}
}

text_of(reason) := reason if is_string(reason)

text_of(reason) := reason.msg if {
	is_object(reason)
	is_string(reason.msg)
}

missing := object.keys(rules) - holds

default allow := false

allow if {
	count(missing) == 0
	count(main.deny) == 0
}

deny contains {"rule": rule, "msg": rules[rule]} if some rule in missing

deny contains {"rule": "own.deny", "msg": text_of(reason)} if some reason in main.deny

warn contains {"rule": "own.warn", "msg": text_of(reason)} if some reason in main.warn

obligations := set()

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
