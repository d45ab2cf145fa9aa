"""F30: KFM never guesses how to continue a run that other code planned."""

from __future__ import annotations

import os

import pytest

from kfm.app.runs.run_control import resume_runs
from kfm.app.runs.settlement import settle_session
from kfm.errors import PlanDrift
from tests.crash import counts
from tests.crash.harness import Voice, answer_of, perform, session_in
from tests.crash.oracle import check, difference, files_of, rows_of
from tests.crash.points import boundary
from tests.crash.trial import STATES, Trial
from tests.crash.updaters import SMALLEST, Command, lay_out, settle_in
from tests.sampling import sampled

RUN = SMALLEST.commands[0]
OTHERS = ("SmallestNext", "SmallestDrifted")


def rows_and_files(folder: str, *without: str) -> dict[str, str]:
    with session_in(folder) as session:
        rows = rows_of(session.tables)
        kept = {table: rows[table] for table in rows if table not in without}
        return {f"{t}/{key}": body.hex() for t in kept for key, body in kept[t].items()} | files_of(folder)


def cut_after_planning(trial: Trial, every: int) -> list[int]:
    """The places, or each n-th, at which a kill leaves a run that is planned and not ended."""

    def look(_voice: Voice) -> bool:
        with session_in(trial.folder) as session:
            return any(run.plan_hash for run in session.state.runs.unfinished())

    found = []
    for at in range(every, len(trial.labels) + 1, every):
        trial.empty()
        trial.cut(at)
        if answer_of(look):
            found.append(at)
    assert found, "no kill leaves a planned run"
    return found


@pytest.mark.parametrize("every", sampled([5, 1]))
@pytest.mark.parametrize("cls", OTHERS)
@pytest.mark.parametrize("state", STATES)
def test_other_code_stops_and_executes_nothing_and_the_old_code_can_still_finish(
    scratch: str, state: str, cls: str, every: int
) -> None:
    trial = Trial(scratch, state, SMALLEST, boundary)
    for at in cut_after_planning(trial, every):
        trial.empty()
        acks = trial.cut(at).acks

        def upgraded(_voice: Voice) -> tuple[list[str], str]:
            settle_in(trial.folder, SMALLEST, state, cls=cls)
            # The claim notes the attempt and the lease its token; no fact about the work may change.
            before = rows_and_files(trial.folder, "leases", "meta", "runs")
            problems = []
            with session_in(trial.folder) as session:
                for attempt in (lambda: list(resume_runs(session, today=True)), lambda: [perform(session, RUN)]):
                    try:
                        problems.append(str([receipt.outcome for receipt in attempt()]))
                    except PlanDrift as problem:
                        problems.append(problem.code)
                settle_session(session)
            return problems, difference(before, rows_and_files(trial.folder, "leases", "meta", "runs"))

        problems, told = answer_of(upgraded)
        story = f"{state} {cls} after a kill at {at} ({trial.labels[at - 1]})"
        assert problems == ["plan.drift", "plan.drift"], story
        assert not told, f"{story}\n{told}"
        settle_in(trial.folder, SMALLEST, state)
        trial.judge(f"{story}, and back", acks)
        counts.add("upgrades")


@pytest.mark.parametrize("every", sampled([5, 1]))
@pytest.mark.parametrize("state", STATES)
def test_abandoning_with_a_reason_ends_the_old_run_with_a_receipt(scratch: str, state: str, every: int) -> None:
    trial = Trial(scratch, state, SMALLEST, boundary)
    for at in cut_after_planning(trial, every):
        trial.empty()
        trial.cut(at)

        def abandoned_by(_voice: Voice) -> list[list[str]]:
            settle_in(trial.folder, SMALLEST, state, cls="SmallestNext")
            lay_out(trial.folder, RUN, 0)
            with session_in(trial.folder) as session:
                perform(session, Command("run", "smallest", abandon=True))
                settle_session(session)
                assert not list(session.state.runs.unfinished())
                check(session, trial.folder, {})
                receipts = [session.state.ledger.receipt(entry.run_id) for entry in session.state.ledger.entries()]
                return [
                    [r.updater_version, r.outcome, *(n.message for n in r.errors)] for r in receipts if r is not None
                ]

        abandoned = "abandoned with --abandon by operator: the crash is over"
        assert answer_of(abandoned_by) == [["1.0.0", "superseded", abandoned], ["1.1.0", "done"]]
        counts.add("upgrades")


def test_abandoning_under_the_same_version_ends_the_run_and_asks_for_a_new_version(scratch: str) -> None:
    """The plan is locked to the version: what was abandoned is over, but two plans never share a version."""
    trial = Trial(scratch, "sqlite", SMALLEST, boundary)
    place = cut_after_planning(trial, 5)[0]
    trial.empty()
    trial.cut(place)
    settle_in(trial.folder, SMALLEST, "sqlite", cls="SmallestDrifted")

    def abandoned_by(_voice: Voice) -> list[list[str]]:
        with session_in(trial.folder) as session:
            perform(session, Command("run", "smallest", abandon=True))
            settle_session(session)
            receipts = [session.state.ledger.receipt(entry.run_id) for entry in session.state.ledger.entries()]
            assert not session.state.refs.at("processed/smallest")
            return [[r.outcome, *(note.code for note in r.errors)] for r in receipts if r is not None]

    assert answer_of(abandoned_by) == [["superseded", "run.superseded"], ["failed", "plan.changed"]]


def test_a_drifted_run_strands_no_other(scratch: str) -> None:
    """Two unfinished runs; one cannot be resumed by this code. The other is, and the first is still told of."""
    config = SMALLEST.config + "  again:\n    updater: tests.crash.updaters:Smallest\n"
    both = SMALLEST._replace(config=config)
    folder = os.path.join(scratch, "house")
    settle_in(folder, both, "sqlite")
    lay_out(folder, RUN, 0)

    def leave_two(_voice: Voice) -> None:
        from kfm.engine import execute

        def unplugged(*_args: object, **_kwargs: object) -> None:
            raise KeyboardInterrupt

        execute.Crew.perform = unplugged  # type: ignore[method-assign, assignment]
        for name in ("smallest", "again"):
            with session_in(folder) as session:
                with pytest.raises(KeyboardInterrupt):
                    perform(session, Command("run", name))

    answer_of(leave_two)
    config = config.replace("{cls}", "SmallestNext")
    settle_in(folder, both._replace(config=config), "sqlite")

    def resume(_voice: Voice) -> tuple[list[str], str]:
        done = []
        with session_in(folder) as session:
            try:
                for receipt in resume_runs(session, today=True):
                    done.append(f"{receipt.dataset} {receipt.outcome}")
            except PlanDrift as problem:
                return done, problem.code
        return done, "nothing was told"

    assert answer_of(resume) == [["again done"], "plan.drift"]
