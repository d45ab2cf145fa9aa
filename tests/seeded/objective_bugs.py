"""Bugs of metrics, objectives and alerts."""

from __future__ import annotations

from tests.seeded.planting import Bug

COUNTS, TESTS = "kfm.app.objectives.ledger_counts", "tests/app/objectives"

OBJECTIVE_BUGS: dict[str, Bug] = {
    "an entry is counted twice": Bug(
        f"{COUNTS}:LedgerFold._counted",
        "ledger.links(after=counts.index, limit=limit)",
        "ledger.links(after=max(counts.index - 1, 0), limit=limit)",
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
}
