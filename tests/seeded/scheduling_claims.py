"""Claims about when things run; see claims.py."""

from __future__ import annotations

from tests.seeded.connector_claims import CONNECTORS
from tests.seeded.job_claims import JOB_CLAIMS
from tests.seeded.planting import Bug
from tests.seeded.promotion_claims import PROMOTION
from tests.seeded.runner_claims import RUNNERS
from tests.seeded.worker_claims import WORKER_CLAIMS

SCHEDULING: dict[str, Bug] = {
    "O2 events of an object store": Bug(
        "kfm.scheduling.webhook_requests:_from_kfm",
        'elif "Records" in said:',
        'elif "records" in said:',
        "tests/api/test_verify.py::test_every_vector_is_answered",
    ),
    "O5": Bug(
        "kfm.app.backfills.backfill_control:start",
        "    if wanted and not found.digest",
        "    if not wanted and not found.digest",
        "tests/app/backfills/test_backfills.py::test_a_plan_that_is_no_longer_so_is_not_started",
    ),
    **CONNECTORS,
    **JOB_CLAIMS,
    **WORKER_CLAIMS,
    **RUNNERS,
    **PROMOTION,
    "O1": Bug(
        "kfm.scheduling.tick_claims:wanted_ticks",
        "    last = state.ticks.last(schedule.id)",
        "    last = next(iter(list(state.ticks.of(schedule.id))[-1:]), None)",
        "tests/scheduling/test_one_run_a_tick.py::test_every_tick_has_one_run_whichever_process_is_killed",
    ),
    "O2 once for each set of versions": Bug(
        "kfm.scheduling.dependent_triggers:is_triggered",
        '"@")[0] == digest(canonical(versions))',
        '"@")[0] == digest(canonical(versions)) + "x"',
        "tests/app/dependencies/test_once_per_set.py::test_a_diamond_is_made_once_for_each_version_of_its_top",
    ),
    "O2 what is under way above is waited for": Bug(
        "kfm.scheduling.dependent_triggers:DependencyGraph.is_under_way",
        "return any(self._comes(state, name, now_ms)",
        "return False and any(self._comes(state, name, now_ms)",
        "tests/app/dependencies/test_once_per_set.py::test_a_long_side_and_a_short_one_come_together",
    ),
    "W2 an instant is a run": Bug(
        "kfm.scheduling.tick_claims:keep",
        "tx.inbox.keep(tick_trigger(asked, schedule, wanted)).trigger_id",
        'tick_trigger(asked, schedule, wanted).trigger_id or "0"',
        "tests/scheduling/test_strangers.py::test_an_updater_that_cannot_be_loaded_stops_no_other_schedule",
    ),
    "W2 manifests": Bug(
        "kfm.projections.runners.runner_files:_cron_job",
        '"schedule": cron,\n            "timeZone"',
        '"schedule": "0 0 * * *",\n            "timeZone"',
        "tests/app/runners/test_written.py::test_each_wakes_the_same_command_at_the_instants_of_the_schedules",
    ),
    "O7": Bug(
        "kfm.projections.signals:final_state",
        '    return "cancelled" if outcome == "cancelled" else',
        "    return",
        "tests/scheduling/test_signals.py::test_the_end_of_a_run_is_reported",
    ),
    "O6 blame": Bug(
        "kfm.app.runs.freshness:_spells",
        '_made(entry, name) if public else ""',
        '""',
        "tests/scheduling/test_freshness.py::test_a_newer_version_waits_for_review",
    ),
    "O6 minutes of a pool": Bug(
        "kfm.app.runs.freshness:_of",
        " *pooled,",
        "",
        "tests/scheduling/test_slots.py::test_minutes_in_which_a_run_waits_for_a_slot_count_for_the_pool",
    ),
    "O6 as many as there are": Bug(
        "kfm.scheduling.pool_slots:pool_status",
        "if not is_held(lease, now_ms):",
        "if not is_held(lease, now_ms) or claim.low:",
        "tests/scheduling/test_pool_model.py::test_no_history_takes_more_than_the_pool_has_or_loses_any_of_it",
    ),
    "O6 all of it comes back": Bug(
        "kfm.scheduling.pool_slots:pool_status",
        "if not is_held(lease, now_ms):",
        "if not lease.expires_ms:",
        "tests/scheduling/test_pool_kills.py::test_a_slot_is_free_within_one_lease_wherever_its_holder_is_killed",
    ),
    "O6 fenced off": Bug(
        "kfm.engine.run_context:RunContext.check_slot",
        "if self.guards.slot is not None:",
        "if self.guards.slot == 0:",
        "tests/scheduling/test_pools.py::test_who_is_stopped_past_its_lease_and_goes_on_commits_nothing",
    ),
    "O6 a backfill comes last": Bug(
        "kfm.app.session.pools:_slot_request",
        "low=trigger.low,",
        "low=False,",
        "tests/scheduling/test_slots.py::test_a_backfill_lets_everybody_else_go_first",
    ),
}
