# What a value must be before a rule looks at what it says. Every question is positive: a value of another
# type is not an error, it only does not hold, in each engine alike, and no comparison with what is missing holds.
#
# The rules of the gates ask in place, because each call of a function costs more than what it asks. A text is what has
# something left when trimmed. A digest begins with `sha256:` and has 71 characters; that the rest is hexadecimal is
# asked where a question is read. What lies between two numbers is a number; beyond 2^53 engines do not agree on what a
# whole one is. Times are milliseconds since 1970: numbers have one order in every engine.
package kfm.facts

is_text(value) if {
	is_string(value)
	trim_space(value) != ""
}
