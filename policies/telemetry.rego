# Telemetry is itself a gate: a run nobody can look into afterwards publishes nothing.
package kfm.telemetry

rules := {
	"telemetry.subject": "telemetry: the question is not about exactly one version",
	"telemetry.recorded": "telemetry: the envelope of the run is not durably recorded",
	"telemetry.run": "telemetry: it is about another run",
	"telemetry.fields": "telemetry: the envelope lacks a field",
	"telemetry.energy": "telemetry: how energy and carbon were found out, or why not, is not said",
	"telemetry.discreet": "telemetry: a field holds what may not be told",
}

envelope := {
	"run_id", "updater_id", "version", "status", "failure_stage", "latency_ms", "retries", "wal_replay_count",
	"inputs_count", "outputs_count", "bytes_in", "bytes_out", "energy_kwh", "co2e_g", "energy_method",
	"slo_target_latency_ms", "slo_ok",
}

holds contains "telemetry.subject" if {
	count(input.subjects) == 1
	startswith(input.subjects[0], "sha256:")
	count(input.subjects[0]) == 71
	input.subjects[0] == input.identity.version
}

holds contains "telemetry.recorded" if input.emission.recorded == true

holds contains "telemetry.run" if {
	trim_space(input.emission.run_id) != ""
	input.emission.run_id == input.provenance.run_id
}

holds contains "telemetry.fields" if {
	is_array(input.emission.fields)
	count(envelope - {field | some field in input.emission.fields}) == 0
}

holds contains "telemetry.energy" if trim_space(input.emission.energy_method) != ""

holds contains "telemetry.discreet" if input.emission.unmasked == 0

missing := object.keys(rules) - holds

default allow := false

allow if count(missing) == 0

deny contains {"rule": rule, "msg": rules[rule]} if some rule in missing

warn contains {"rule": "telemetry.slo", "msg": "telemetry: the run missed its aim"} if input.emission.slo_ok == false

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
