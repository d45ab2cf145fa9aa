"""The claims of docs/conformance.md about what each run says of itself, each broken in one place."""

from __future__ import annotations

from tests.seeded.planting import Bug

FIELDS = "tests/engine/test_recorded_fields.py"

TELEMETRY_CLAIMS: dict[str, Bug] = {
    "D13": Bug(
        "kfm.engine.telemetry_stage:measure",
        "        **_energy(context),\n",
        "",
        f"{FIELDS}::test_the_telemetry_of_a_run_says_what_it_did_and_how_long_it_took",
    ),
    "D13 coefficient": Bug(
        "kfm.telemetry.run_meter:RunMeter.told",
        "cpu_s * self.watts_per_core, _estimated(self.watts_per_core, is_resumed)",
        "cpu_s * self.watts_per_core, _estimated(12.0, is_resumed)",
        "tests/app/energy/test_energy.py::test_without_counters_a_run_is_an_estimate_and_says_its_coefficient",
    ),
    "D13 carbon": Bug(
        "kfm.telemetry.run_meter:RunMeter.told",
        "None if isinstance(factor, str) else kwh * factor.g_per_kwh",
        "0.0 if isinstance(factor, str) else kwh * factor.g_per_kwh",
        "tests/app/energy/test_energy.py::test_without_a_region_the_carbon_is_unknown_and_never_guessed",
    ),
    "D13 packages": Bug(
        "kfm.telemetry.rapl:_PACKAGE",
        "package-[0-9]+(-die-[0-9]+)?",
        "(package-[0-9]+|psys)",
        "tests/telemetry/test_rapl.py::test_packages_count_and_their_parts_do_not_count_again",
    ),
    "D13 wrap": Bug(
        "kfm.telemetry.rapl:Package.used_uj",
        "now - before + self.range_uj",
        "0",
        "tests/telemetry/test_rapl.py::test_a_counter_that_wrapped_around_goes_on",
    ),
    "D13 on failure": Bug(
        "kfm.engine.receipt_stage:fail",
        'measure(context, tx, "FAILED", run_id, [problem.code])',
        "",
        f"{FIELDS}::test_the_telemetry_of_a_run_that_failed_or_had_nothing_to_do_says_so",
    ),
}
