"""Claims about when things run; see claims.py."""

from __future__ import annotations

from tests.seeded.connector_claims import CONNECTORS
from tests.seeded.planting import Bug
from tests.seeded.promotion_claims import PROMOTION
from tests.seeded.runner_claims import RUNNERS

SCHEDULING: dict[str, Bug] = {
    "O5": Bug(
        "kfm/house/backfilling.py",
        "    if wanted and not found.digest",
        "    if not wanted and not found.digest",
        "tests/backfills/test_backfills.py::test_a_plan_that_is_no_longer_so_is_not_started",
    ),
    **CONNECTORS,
    **RUNNERS,
    **PROMOTION,
    "O1": Bug(
        "kfm/orchestration/scheduling.py",
        "    last = state.ticks.last(schedule.id)",
        "    last = next(iter(list(state.ticks.of(schedule.id))[-1:]), None)",
        "tests/schedules/test_one_run_a_tick.py::test_every_tick_has_one_run_whoever_is_killed",
    ),
    "O7": Bug(
        "kfm/projections/signals.py",
        '    return "cancelled" if outcome == "cancelled" else',
        "    return",
        "tests/schedules/test_signals.py::test_how_it_ended_is_told",
    ),
    "O6": Bug(
        "kfm/house/freshness.py",
        "public and _made(entry, name)",
        "False",
        "tests/schedules/test_freshness.py::test_a_newer_version_waits_for_review",
    ),
}
