# What this installation asks for beside the shipped policies: nothing is published under a licence of another kind.
package main

ours := {"CC-PDM-1.0", "CC0-1.0", "CC-BY-4.0"}

deny contains "licence: none of those that this installation publishes under" if {
	input.step.to == "published"
	input.licence
	not input.licence.id in ours
}
