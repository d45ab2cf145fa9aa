"""Unfinished runs, and triggers that a freeze kept, are resumed once, whichever process comes first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs import execution
from kfm.app.runs.execution import resume_request
from kfm.app.runs.run_control import resume_runs, run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session
from kfm.errors import BadInput, Conflict, Frozen, PlanDrift, Unavailable
from kfm.model.records import Step
from kfm.model.updater import Output, Reader
from kfm.telemetry.log import NullLog
from tests.engine.crowds import STATES, Installation
from tests.engine.site_under_test import Lines, MemorySite


class Power(BaseException):
    """The process dies."""


class Dying(Lines):
    """Dies in its only step, the first time."""

    dies = True

    def perform(self, step: Step, read: Reader) -> Output:
        if self.dies:
            self.dies = False
            raise Power
        return super().perform(step, read)


class DyingBefore(Dying):
    """Dies while it plans, the first time: a claim is left, and no plan."""

    def plan(self, inputs: Any) -> Any:
        if self.dies:
            self.dies = False
            raise Power
        return super().plan(inputs)


class At(NullLog):
    """Does something when an event is logged, once."""

    def __init__(self, name: str, what: Callable[[], object]) -> None:
        self._name = name
        self._what: list[Callable[[], object]] = [what]

    def event(self, name: str, **fields: object) -> None:
        if name == self._name and self._what:
            self._what.pop()()

    def bind(self, **fields: object) -> At:
        return self


def take_up(site: MemorySite, updater: Lines) -> Any:
    from kfm.engine.run import run

    (unfinished,) = site.state.runs.unfinished()
    return run(site.context(unfinished.trigger, updater, unfinished))


# -- between a look and a claim


def test_a_freeze_that_comes_between_the_look_and_the_claim_keeps_the_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    site = MemorySite()
    claimed = site.state.runs.claimed
    frozen: list[str] = []

    def freeze_first(claim_key: str) -> Any:
        if not frozen:
            frozen.append(claim_key)
            site.operate("freeze", dataset="demo", scope="demo")
        return claimed(claim_key)

    monkeypatch.setattr(site.state.runs, "claimed", freeze_first)
    receipt = site.run(Lines())
    assert frozen and (receipt.status, receipt.outcome) == ("SKIPPED", "frozen")
    assert [trigger.dataset for trigger in site.state.inbox.waiting()] == ["demo"]
    assert not list(site.state.runs.unfinished())


@pytest.mark.parametrize("state", STATES)
def test_held_rows_are_not_filed_under_a_freeze_but_after_the_thaw(state: str, place: Path) -> None:
    site = Installation(place, state)
    text = (place / "kfm.yml").read_text()
    (place / "kfm.yml").write_text(text.replace("columns: ", "min_rows: 5, columns: "))
    with site.open() as other, site.open() as session:
        session.log = At("source.inspected", lambda: run_operation(other, "freeze", "demo", {"scope": "demo"}))
        with pytest.raises(Frozen):
            run_trigger(session, new_trigger(session, "demo"))
        assert session.state.refs.at("quarantine/demo") == ""
        freeze = next(iter(session.state.ledger.entries(reverse=True, limit=1)))
        assert freeze.op_type == "freeze"
        lease = session.state.leases.of("parts/demo")
        assert lease is not None and lease.expires_ms == 0, "the lease was not given back"
        run_operation(other, "thaw", "demo", {"scope": "demo"})
        (receipt,) = resume_runs(session)
        assert receipt.outcome == "held" and session.state.refs.at("quarantine/demo")
    site.sound()


# -- a run that is taken up again


def test_a_forced_run_is_resumed_and_not_started_again() -> None:
    site, updater = MemorySite(), Dying()
    with pytest.raises(Power):
        site.run(updater, force=True, reason="asked for")
    (unfinished,) = site.state.runs.unfinished()
    receipt = take_up(site, updater)
    assert (receipt.run_id, receipt.outcome) == (unfinished.run_id, "done")
    assert [entry.run_id for entry in site.state.ledger.entries()] == [unfinished.run_id]


def test_another_run_that_abandons_it_starts_again() -> None:
    site, updater = MemorySite(), Dying()
    with pytest.raises(Power):
        site.run(updater, force=True, reason="asked for")
    (unfinished,) = site.state.runs.unfinished()
    receipt = site.run(updater, abandon=True, reason="asked for again")
    assert receipt.outcome == "done" and receipt.run_id != unfinished.run_id
    assert [entry.outcome for entry in site.state.ledger.entries()] == ["superseded", "done"]


def test_resuming_a_forced_run_with_other_code_does_not_abandon_it() -> None:
    site, updater = MemorySite(), Dying()
    with pytest.raises(Power):
        site.run(updater, force=True, reason="asked for")
    updater.version = "2.0.0"
    with pytest.raises(PlanDrift):
        take_up(site, updater)
    assert len(list(site.state.runs.unfinished())) == 1


def test_a_run_that_cannot_be_taken_up_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    site, updater = MemorySite(), DyingBefore()
    with pytest.raises(Power):
        site.run(updater)
    down = [Unavailable("the source does not answer")]
    fetch = site.shelf.fetch

    def sometimes(*words: Any) -> Any:
        if down:
            raise down.pop()
        return fetch(*words)

    monkeypatch.setattr(site.shelf, "fetch", sometimes)
    with pytest.raises(Unavailable):
        take_up(site, updater)
    assert not down and not list(site.state.ledger.entries())
    assert take_up(site, updater).outcome == "done"
    assert not list(site.state.runs.unfinished())


@pytest.mark.parametrize("updater", [Dying, DyingBefore])
@pytest.mark.parametrize("resumed", [False, True])
def test_a_source_that_went_back_ends_the_unfinished_run_over_what_it_was(updater: type[Lines], resumed: bool) -> None:
    """Otherwise a later resume would publish what the source has not held for long."""
    site = MemorySite()
    site.run(Lines())
    site.shelf.body = b"for a moment"
    with pytest.raises(Power):
        site.run(updater())
    (unfinished,) = site.state.runs.unfinished()
    site.shelf.body = b"a,b\n1,2\n"
    if not resumed:
        assert site.run(Lines()).outcome == "noop"
    elif unfinished.plan_hash:
        assert take_up(site, Lines()).outcome == "done"  # what was planned is done, as nobody has looked since
        return
    else:
        assert take_up(site, Lines()).outcome == "noop"
    assert not list(site.state.runs.unfinished())
    ended = site.state.ledger.receipt(unfinished.run_id)
    assert ended is not None and ended.outcome == "superseded"
    assert site.content("processed/demo") == {"all": b"a,b\n1,2\n"}
    assert site.run(Lines()).outcome == "noop"


def test_looking_at_an_unfinished_run_under_a_freeze_keeps_no_second_trigger() -> None:
    site, updater = MemorySite(), Dying()
    with pytest.raises(Power):
        site.run(updater)
    site.operate("freeze", dataset="demo", scope="demo")
    for _ in range(3):
        assert take_up(site, updater).outcome == "frozen"
    assert not list(site.state.inbox.waiting())
    site.operate("thaw", dataset="demo", scope="demo")
    assert take_up(site, updater).outcome == "done"


# -- two who take up the same


def overtaken(session: Session, by: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let something happen just before `house` begins to claim what it took up."""
    happened: list[str] = []
    transaction = session.state.transaction

    def late(*words: Any, **named: Any) -> Any:
        if not happened:
            happened.append("yes")
            by()
        return transaction(*words, **named)

    monkeypatch.setattr(session.state, "transaction", late)
    return happened


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("undone", [False, True])
def test_a_trigger_that_another_worker_took_up_meanwhile_is_not_taken_up_again(
    state: str, undone: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, state)
    with site.open() as one, site.open() as two:
        for n in range(2):
            site.source(f"demo {n}")
            run_trigger(one, new_trigger(one, "demo"))
            if not n:
                run_operation(one, "promote", "demo")
        run_operation(one, "freeze", "demo", {"scope": "demo"})
        assert run_operation(one, "promote", "demo").outcome == "frozen"
        run_operation(one, "thaw", "demo", {"scope": "demo"})

        def by() -> None:
            assert [receipt.outcome for receipt in resume_runs(one)] == ["done"]
            if undone:
                run_operation(one, "rollback", "demo")

        happened = overtaken(two, by, monkeypatch)
        assert list(resume_runs(two)) == []
        assert happened and not list(two.state.inbox.waiting())
        ledger = [(entry.op_type, entry.outcome) for entry in one.state.ledger.entries()]
        assert ledger.count(("promote", "done")) == 2 and ("promote", "noop") not in ledger
        moves = [entry.op for entry in one.state.refs.history("published/demo")]
        assert moves == ["promote", "promote", *(["rollback"] if undone else [])]
    site.sound()


@pytest.mark.parametrize("state", STATES)
def test_a_run_that_another_worker_ended_meanwhile_is_not_done_again(
    state: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, state)
    with site.open() as one, site.open() as two:
        run_trigger(one, new_trigger(one, "demo"))
        site.source("demo 1")

        def die() -> None:
            raise Power

        one.log = At("run.started", die)
        with pytest.raises(Power):
            run_trigger(one, new_trigger(one, "demo"))
        one.log = NullLog()

        def by() -> None:
            assert [receipt.outcome for receipt in resume_runs(one)] == ["done"]
            run_operation(one, "rollback", "demo", {"ref": "processed/demo"})

        happened = overtaken(two, by, monkeypatch)
        assert list(resume_runs(two)) == []
        assert happened
        assert [entry.op for entry in one.state.refs.history("processed/demo")] == ["ingest", "ingest", "rollback"]
        assert [entry.outcome for entry in one.state.ledger.entries()] == ["done", "done", "done"]
    site.sound()


@pytest.mark.parametrize("how", ["skip", "fail"])
@pytest.mark.parametrize("state", STATES)
def test_a_trigger_is_not_ended_by_one_while_another_is_at_it(
    state: str, how: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, state)
    begun, over = threading.Event(), threading.Event()
    with site.open() as one, site.open() as two:
        run_trigger(one, new_trigger(one, "demo"))
        site.source("demo 1")
        freeze(one)
        assert run_trigger(one, new_trigger(one, "demo")).outcome == "frozen"
        thaw(one)
        outcomes: list[str] = []

        def first() -> None:
            outcomes.extend(receipt.outcome for receipt in resume_runs(one))

        def hold() -> None:
            begun.set()
            over.wait(30)

        one.log = At("run.started", hold)
        thread = threading.Thread(target=first)

        def begin() -> None:
            """The first begins when the second has seen no other at it."""
            if not begun.is_set():
                thread.start()
                assert begun.wait(30)

        if how == "skip":
            claimed = two.state.runs.claimed

            def late(claim_key: str) -> Any:
                site.source("demo 1")
                begin()
                return claimed(claim_key)

            monkeypatch.setattr(two.state.runs, "claimed", late)
            site.source("demo 0")  # back to what is live: for the second there is nothing to do
        else:
            inputs = dataset_updater(two, "demo").inputs

            def gone(trigger: Any, sources: Any) -> Any:
                begin()
                (site.folder / "demo.csv").unlink()
                return inputs(trigger, sources)

            monkeypatch.setattr(dataset_updater(two, "demo"), "inputs", gone)
        problems: list[str] = []
        assert list(resume_runs(two, tell=lambda _name, problem: problems.append(problem.code))) == []
        assert begun.is_set() and problems == ["conflict"]
        over.set()
        thread.join(30)
        assert outcomes == ["done"]
        assert [entry.outcome for entry in one.state.ledger.entries() if entry.op_type == "ingest"] == [
            "done",
            "frozen",
            "done",
        ]
        assert not list(one.state.inbox.waiting())
    site.sound()


@pytest.mark.parametrize("state", STATES)
def test_a_kept_trigger_whose_run_was_left_is_one_piece_of_work(state: str, place: Path) -> None:
    site = Installation(place, state)
    with site.open() as session:
        freeze(session)
        assert run_trigger(session, new_trigger(session, "demo")).outcome == "frozen"
        thaw(session)

        def die() -> None:
            raise Power

        session.log = At("run.started", die)
        with pytest.raises(Power):
            list(resume_runs(session))
        session.log = NullLog()
        assert len(list(session.state.runs.unfinished())) == len(list(session.state.inbox.waiting())) == 1
        freeze(session)
        assert [receipt.outcome for receipt in resume_runs(session)] == ["frozen"]
        thaw(session)
        (place / "demo.csv").rename(place / "away.csv")
        problems: list[str] = []
        assert list(resume_runs(session, tell=lambda _name, problem: problems.append(problem.code))) == []
        assert problems == ["refused"]
        (place / "away.csv").rename(place / "demo.csv")
        assert [receipt.outcome for receipt in resume_runs(session)] == ["done"]
        assert not list(session.state.runs.unfinished()) and not list(session.state.inbox.waiting())
    site.sound()


def freeze(session: Session) -> None:
    run_operation(session, "freeze", "demo", {"scope": "demo"})


def thaw(session: Session) -> None:
    run_operation(session, "thaw", "demo", {"scope": "demo"})


def test_one_kept_trigger_that_cannot_be_taken_up_strands_no_other(place: Path) -> None:
    site = Installation(place, "sqlite", ("a", "b", "c"))
    with site.open() as session:
        run_operation(session, "freeze", "global", {"scope": "global"})
        for name in ("a", "b", "c"):
            assert run_trigger(session, new_trigger(session, name)).outcome == "frozen"
        run_operation(session, "thaw", "global", {"scope": "global"})
    text = (place / "kfm.yml").read_text()
    (place / "kfm.yml").write_text(text.replace("  a:\n", "  gone:\n"))
    with site.open() as session:
        resumed = resume_runs(session)
        assert [next(resumed).dataset, next(resumed).dataset] == ["b", "c"]
        with pytest.raises(BadInput, match="no dataset is called a"):
            next(resumed)
        assert [trigger.dataset for trigger in session.state.inbox.waiting()] == ["a"]
        told: list[str] = []
        assert list(resume_runs(session, tell=lambda name, problem: told.append(f"{name} {problem.code}"))) == []
        assert told == ["a input.bad"]


def test_a_run_that_ended_before_its_turn_is_a_conflict_and_no_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "resume_runs", lambda _session, _run_id, today: iter(()))
    with pytest.raises(Conflict, match="another worker has ended run x"):
        list(resume_request("x").do(None, lambda _about, _problem: None))  # type: ignore[arg-type]
