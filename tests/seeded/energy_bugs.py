"""Bugs of the meter of energy, of its factors and of its sums."""

from __future__ import annotations

from tests.seeded.planting import Bug

METER, RAPL, GRID = "kfm.telemetry.run_meter", "kfm.telemetry.rapl", "kfm.telemetry.grid_factors"
UNITS, RUNS = "tests/telemetry", "tests/app/energy/test_energy.py"

ENERGY_BUGS: dict[str, Bug] = {
    "a package that is shown twice counts twice": Bug(
        f"{RAPL}:_DOMAIN",
        r"intel-rapl:[0-9]+\Z",
        r"intel-rapl(-mmio)?:[0-9]+\Z",
        f"{UNITS}/test_rapl.py::test_packages_count_and_their_parts_do_not_count_again",
    ),
    "a counter that was reset is believed": Bug(
        f"{RAPL}:Rapl.step",
        " or used_j > len(self.packages) * MOST_WATTS * (elapsed + SLACK_S)",
        "",
        f"{UNITS}/test_rapl.py::test_a_counter_that_was_reset_says_nothing_once",
    ),
    "a process has what all used": Bug(
        f"{RAPL}:Rapl.step",
        "used_j * own / busy",
        "used_j",
        f"{UNITS}/test_rapl.py::test_a_process_has_its_share_of_busy_processor_time",
    ),
    "each of two runs has all": Bug(
        f"{METER}:_settle",
        "each.cpu_s += used / among",
        "each.cpu_s += used",
        f"{UNITS}/test_run_meter.py::test_two_runs_at_once_share_and_the_sum_is_what_was_used",
    ),
    "a run stays active when it has ended": Bug(
        "kfm.engine.failure:with_failure_receipt",
        "                metering.end()\n",
        "                pass\n",
        f"{RUNS}::test_two_runs_at_once_share_what_the_process_used",
    ),
    "children are not counted": Bug(
        "kfm.clock:processor_seconds",
        "time.process_time() + user + system",
        "time.process_time()",
        f"{UNITS}/test_run_meter.py::test_a_child_that_a_run_started_counts",
    ),
    "nothing used is a number": Bug(
        f"{METER}:RunMeter.told",
        'elif self.kind != "rapl" and cpu_s > 0:',
        'elif self.kind != "rapl":',
        f"{UNITS}/test_run_meter.py::test_a_run_that_used_nothing_that_can_be_seen_is_unknown_and_not_zero",
    ),
    "a resumed run claims all attempts": Bug(
        "kfm.engine.telemetry_stage:_energy",
        "reached.claimed.run.attempt > 1",
        "reached.claimed.run.attempt > 9",
        f"{RUNS}::test_a_killed_and_resumed_run_says_that_it_knows_the_last_attempt_alone",
    ),
    "what a cluster used is left out": Bug(
        "kfm.engine.telemetry_stage:_energy",
        "if context.world.crew is not None and reached.planned is not None:",
        "if False:",
        f"{RUNS}::test_what_a_cluster_used_is_unknown",
    ),
    "the energy of a run that another process ended is 0": Bug(
        "kfm.engine.telemetry_stage:_telemetry",
        '"energy_kwh": None',
        '"energy_kwh": 0.0',
        "tests/engine/test_told_truly.py::test_a_run_that_another_one_ended",
    ),
    "a table with a mistake is used": Bug(
        "kfm.app.session.energy_meter:run_meter",
        "    if mistakes and not is_operation:\n",
        "    if False:\n",
        f"{RUNS}::test_a_table_with_a_mistake_is_refused_with_place_and_cure_and_nothing_changes",
    ),
    "a table with a mistake stops a freeze": Bug(
        "kfm.app.session.energy_meter:run_meter",
        "    if mistakes and not is_operation:\n",
        "    if mistakes:\n",
        f"{RUNS}::test_a_table_with_a_mistake_is_refused_with_place_and_cure_and_nothing_changes",
    ),
    "a source may hold what ends the text": Bug(
        f"{GRID}:_SOURCE",
        " .:/_&+-",
        " .:;()/_&+-",
        f"{UNITS}/test_grid_factors.py::test_a_bad_line_is_named_with_its_place_and_a_cure",
    ),
    "an hour has no factor of its own": Bug(
        f"{GRID}:GridTable.factor",
        "self._rows.get((region, str(hour))) or ",
        "",
        f"{UNITS}/test_grid_factors.py::test_the_row_of_an_hour_comes_before_that_of_all_hours",
    ),
    "an author writes measured": Bug(
        "kfm.model.reports.energy_method:reported",
        'return f"reported: {said}"',
        'return f"{said}"',
        "tests/app/provenance/test_overriding.py::test_the_example_does_what_it_says",
    ),
    "an author uses less than nothing": Bug(
        "kfm.engine.author_overrides:_is_reading",
        "0 <= value < MOST_REPORTED",
        "value < MOST_REPORTED",
        "tests/app/provenance/test_overriding.py::test_a_report_that_can_be_no_amount_is_left_out",
    ),
    "two methods are one sum": Bug(
        "kfm.projections.reports.energy_sums:EnergyCounts.add",
        "self._joules[method] = self._joules.get(method, 0.0)",
        'self._joules["estimated"] = self._joules.get("estimated", 0.0)',
        f"{RUNS}::test_counters_that_can_be_read_are_measured_and_sums_are_by_method",
    ),
    "older counts are believed to have energy": Bug(
        "kfm.app.objectives.ledger_counts:_is_of_form",
        "return known.form == fresh.form",
        "return True",
        "tests/app/objectives/test_ledger_counts.py::test_a_note_of_an_older_form_is_counted_again",
    ),
}

CLAIMS: dict[str, Bug] = {
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
}
