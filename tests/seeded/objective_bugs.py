"""Bugs of metrics, objectives and alerts."""

from __future__ import annotations

from tests.seeded.planting import Bug

COUNTS, TESTS = "kfm.app.objectives.ledger_counts", "tests/app/objectives"
BUDGETS = f"{TESTS}/test_error_budgets.py"

OBJECTIVE_BUGS: dict[str, Bug] = {
    "an entry is counted twice": Bug(
        f"{COUNTS}:LedgerFold._counted",
        "ledger.links(after=before, limit=most)",
        "ledger.links(after=max(before - 1, 0), limit=most)",
        f"{TESTS}/test_ledger_counts.py::test_after_any_history_the_counts_are_those_of_the_whole_ledger",
    ),
    "counts of another ledger are believed": Bug(
        f"{COUNTS}:_holds",
        "return found is not None and (found[0].index, found[1]) == (counts.index, counts.link)",
        "return True",
        f"{TESTS}/test_ledger_counts.py::test_a_note_of_another_ledger_is_not_believed",
    ),
    "a reader keeps counts": Bug(
        f"{COUNTS}:LedgerFold.keep",
        'if session.mode != "write":',
        'if session.mode == "read":',
        f"{TESTS}/test_ledger_counts.py::test_a_reader_and_a_dry_run_write_no_note",
    ),
    "a burnt budget closes nothing": Bug(
        "kfm.engine.preflight:preflight",
        "        guards.check_budget(updater, trigger)",
        "        pass",
        f"{BUDGETS}::test_a_burnt_budget_closes_risky_operations_until_it_recovers",
    ),
    "a burnt budget publishes by itself": Bug(
        "kfm.app.runs.auto_promotion:promote",
        "        check_open(session, dataset)\n",
        "",
        f"{BUDGETS}::test_a_burnt_budget_closes_risky_operations_until_it_recovers",
    ),
    "a backfill under way goes on over a burnt budget": Bug(
        "kfm.app.backfills.backfill_worker:Worker.one",
        "if (closed := self._closed()) is not None:",
        "if (closed := None) is not None:",
        f"{TESTS}/test_closed_backfill.py::test_a_backfill_stops_when_the_budget_is_spent_and_goes_on_under_an_override",
    ),
    "an override has no end": Bug(
        "kfm.app.objectives.error_budgets:override_of",
        "found.objective == name and now_ms < until_ms",
        "found.objective == name",
        f"{BUDGETS}::test_an_override_opens_until_its_end_and_no_longer",
    ),
    "objectives that cannot be read open everything": Bug(
        "kfm.app.objectives.error_budgets:closed_by_objectives",
        'return f"{operation} of {dataset} is closed, because {UNREADABLE}: {problem.message}"',
        "return None if problem else None",
        f"{BUDGETS}::test_objectives_that_cannot_be_read_close_what_is_risky_and_nothing_else",
    ),
    "a bad event counts for ever": Bug(
        "kfm.projections.budget_counts:Events.between",
        "if first < minute <= last:",
        "if minute <= last:",
        f"{BUDGETS}::test_a_burnt_budget_closes_risky_operations_until_it_recovers",
    ),
    "anyone may override": Bug(
        "kfm.operations.objective_operations:Overriding",
        "    needs_labels = False\n",
        '    needs_labels = False\n    approval = "none"\n',
        "tests/app/governance/test_override_signed.py::test_under_a_key_list_a_steward_signs_an_override",
    ),
    "unknown energy is none": Bug(
        "kfm.projections.operation_counts:OperationCounts",
        "energy_wh: float | None = None",
        "energy_wh: float | None = 0.0",
        f"{TESTS}/test_metrics_door.py::test_what_is_unknown_is_absent",
    ),
    "metrics are where webhooks come in": Bug(
        "kfm.cli.schedule.up:up",
        "options.metrics or not resolved.config.webhooks",
        "True",
        f"{TESTS}/test_metrics_door.py::test_where_webhooks_come_in_metrics_take_a_word_of_their_own",
    ),
    "what an author wrote is a label": Bug(
        "kfm.projections.operation_counts:operation_metrics",
        "name if name in operations else OTHER",
        "name",
        f"{TESTS}/test_metrics_door.py::test_no_label_holds_what_people_write",
    ),
}
