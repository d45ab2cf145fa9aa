"""The suites of crashes, fencing, freezes, pools and dry runs again, with every run in one of four jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.parallel_jobs import Report, Task, in_parallel
from kfm.app.runs.parallel_runs import job_session
from kfm.app.runs.run_control import run_trigger
from kfm.app.session.session import Session
from kfm.app.session.work_slots import WorkSlots
from kfm.model.records import Receipt
from tests.crash import harness as crashes
from tests.crash import test_kills as kills
from tests.crash.conftest import scratch as scratch
from tests.crash.conftest import warm as warm
from tests.crash.updaters import SCRIPTS
from tests.engine import test_concurrency as fencing
from tests.engine import test_dry_run as dry_runs
from tests.engine import test_freeze_races as freezes
from tests.engine.conftest import place as place
from tests.engine.test_dry_run import server as server
from tests.scheduling import test_pool_kills as pool_kills
from tests.scheduling import test_pools as pools
from tests.scheduling.test_pools import site as site

JOBS = ("--jobs", "4")


def in_a_job(session: Session, *arguments: Any, **named: Any) -> Receipt:
    """Run a trigger in one of four jobs; the other three look at the state meanwhile."""
    slots = WorkSlots(2)

    def run(report: Report) -> None:
        report(run_trigger(job_session(session, slots, report), *arguments, **named))

    def look(_report: Report) -> None:
        for _ in range(3):
            with session.state.reading():
                list(session.state.refs.all())

    tasks = [Task(frozenset(), each) for each in (run, look, look, look)]
    found = [each for _, each in in_parallel(tasks, 4, slots) if isinstance(each, Receipt)]
    assert len(found) == 1
    return found[0]


def with_jobs(words: tuple[str, ...]) -> tuple[str, ...]:
    return (*words, *JOBS) if words[:1] in (("run",), ("up",)) else words


@pytest.fixture(autouse=True)
def jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (crashes, fencing, freezes, pool_kills):
        monkeypatch.setattr(module, "run_trigger", in_a_job)
    for name in ("kfm", "begun"):
        real: Callable[..., Any] = getattr(pools, name)
        monkeypatch.setattr(pools, name, lambda site, *words, real=real: real(site, *with_jobs(words)))
    monkeypatch.setattr(dry_runs, "DRY", tuple(with_jobs(words) for words in dry_runs.DRY))


def again(test: Callable[..., None]) -> Callable[..., None]:
    """The same test, here, in `make test-long`."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        test(*arguments, **named)

    run.pytestmark = [*getattr(test, "pytestmark", []), pytest.mark.long]  # type: ignore[attr-defined]
    return run


test_a_kill_at_any_place_changes_nothing_in_the_end = again(kills.test_a_kill_at_any_place_changes_nothing_in_the_end)
test_of_eight_with_the_same_work_one_commits_and_the_others_stand_back = again(
    fencing.test_of_eight_with_the_same_work_one_commits_and_the_others_stand_back
)
test_other_datasets_run_side_by_side_and_no_run_waits_for_ever = again(
    fencing.test_other_datasets_run_side_by_side_and_no_run_waits_for_ever
)
test_an_ingest_whose_ref_went_elsewhere_stays_open_and_is_resumed = again(
    fencing.test_an_ingest_whose_ref_went_elsewhere_stays_open_and_is_resumed
)
test_a_freeze_before_any_of_its_transactions_stops_a_command_and_keeps_it = again(
    freezes.test_a_freeze_before_any_of_its_transactions_stops_a_command_and_keeps_it
)
test_a_freeze_among_others_holds_and_what_it_kept_is_taken_up_once = again(
    freezes.test_a_freeze_among_others_holds_and_what_it_kept_is_taken_up_once
)
test_a_run_by_hand_waits_for_a_slot = again(pools.test_a_run_by_hand_waits_for_a_slot)
test_who_is_stopped_past_its_lease_and_goes_on_commits_nothing = again(
    pools.test_who_is_stopped_past_its_lease_and_goes_on_commits_nothing
)
test_a_run_that_waits_for_a_slot_can_be_cancelled = again(pools.test_a_run_that_waits_for_a_slot_can_be_cancelled)
test_up_once_waits_for_a_slot_too = again(pools.test_up_once_waits_for_a_slot_too)
test_a_slot_is_free_within_one_lease_wherever_its_holder_is_killed = again(
    pool_kills.test_a_slot_is_free_within_one_lease_wherever_its_holder_is_killed
)
test_no_call_to_the_system_changes_anything = again(dry_runs.test_no_call_to_the_system_changes_anything)
test_on_a_read_only_tree_every_command_answers_the_same = again(
    dry_runs.test_on_a_read_only_tree_every_command_answers_the_same
)


# -- the sample of `make test`


def test_the_suites_run_in_jobs(site: Path) -> None:
    code, said, err = pools.kfm(site, "run", "one")
    assert (code, said["receipts"][0]["outcome"]) == (0, "done"), err
    assert any("--jobs" in words for words in dry_runs.DRY)
    assert crashes.run_trigger is in_a_job


def test_a_kill_of_a_job_changes_nothing_in_the_end(scratch: str) -> None:
    kills.singles(scratch, "sqlite", SCRIPTS["smallest"], 0, None)


def test_a_freeze_stops_a_job_and_keeps_its_trigger(place: Path) -> None:
    freezes.test_a_freeze_before_any_of_its_transactions_stops_a_command_and_keeps_it(
        "sqlite", freezes.ingest, "demo", place
    )


def test_of_eight_jobs_with_the_same_work_one_commits(place: Path) -> None:
    fencing.test_of_eight_with_the_same_work_one_commits_and_the_others_stand_back("sqlite", 1, place)
