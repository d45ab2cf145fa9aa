# What a value must be before a rule looks at what it says. Every question is positive: a value of another
# type is not an error, it only does not hold, in each engine alike. Two things are compared only after one of them is
# known to be there: not every engine says of two missing things that they are not the same.
package kfm.facts

is_text(value) if {
	is_string(value)
	trim_space(value) != ""
}

# That the rest is hexadecimal is asked where a question is read; here it only has to be a digest and no other text.
is_digest(value) if {
	is_string(value)
	startswith(value, "sha256:")
	count(value) == 71
}

# Up to 2^53: beyond it engines do not agree on what a whole number is.
is_count(value) if {
	is_number(value)
	value >= 0
	value <= 9007199254740991
	value == floor(value)
}

# Milliseconds since 1970: numbers have one order in every engine. A request or a receipt is never older than that.
is_instant(value) if {
	is_number(value)
	value > 0
	value <= 9007199254740991
}

is_list(value) if {
	is_array(value)
	count(value) > 0
}
