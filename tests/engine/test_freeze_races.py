"""From the instant a freeze returns no ref moves, and after the thaw nothing is missing."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_control import resume_runs, run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session
from kfm.errors import Frozen, KfmError
from kfm.model.records import LedgerEntry, Receipt, Step
from kfm.model.updater import Output
from tests.engine.crowds import STATES, Crowd, Installation, Told, attempt, together, wait_until
from tests.sampling import sampled

SCOPES = ("demo", "global")


def freeze(session: Session, scope: str) -> Receipt:
    return run_operation(session, "freeze", scope, {"scope": scope})


def thaw(session: Session, scope: str) -> Receipt:
    return run_operation(session, "thaw", scope, {"scope": scope})


def refs(session: Session, scope: str) -> dict[str, str]:
    """The refs that a freeze holds still."""
    return {
        name: value
        for name, value in session.state.refs.all()
        if not name.startswith("switch/") and (scope == "global" or name.split("/")[1] == scope)
    }


def moved_while_frozen(ledger: list[LedgerEntry]) -> list[int]:
    """By the order of the ledger alone: entries that moved a ref while a switch over it was set."""
    frozen: set[str] = set()
    found = []
    for entry in ledger:
        for move in entry.moves:
            if move.ref.startswith("switch/"):
                scope = move.ref.rpartition("/")[2]
                (frozen.add if move.after == "frozen" else frozen.discard)(scope)
            elif frozen & {"global", entry.dataset}:
                found.append(entry.index)
    return found


# -- at every boundary


def ingest(session: Session) -> Receipt:
    return run_trigger(session, new_trigger(session, "demo", actor="a"))


def promote(session: Session) -> Receipt:
    return run_operation(session, "promote", "demo", actor="a")


def before_transaction(session: Session, number: int, what: Callable[[], object]) -> Callable[[], bool]:
    """Let something happen just before the session begins its transaction number so and so; was there one?"""
    begun = 0
    transaction = session.state.transaction

    def counted(*words: Any, **named: Any) -> Any:
        nonlocal begun
        begun += 1
        if begun == number:
            what()
        return transaction(*words, **named)

    session.state.transaction = counted  # type: ignore[method-assign]
    return lambda: begun >= number


@pytest.mark.parametrize("scope", sampled(SCOPES))
@pytest.mark.parametrize("command", [ingest, promote, "held"], ids=["ingest", "promote", "held"])
@pytest.mark.parametrize("state", STATES)
def test_a_freeze_before_any_of_its_transactions_stops_a_command_and_keeps_it(
    state: str, command: Any, scope: str, place: Path
) -> None:
    seen: Counter[str] = Counter()
    for number in range(1, 100):
        site = Installation(place / str(number), state)
        run = command
        if command == "held":
            run = ingest
            text = (site.folder / "kfm.yml").read_text()
            (site.folder / "kfm.yml").write_text(text.replace("columns: ", "min_rows: 5, columns: "))
        with site.open() as other, site.open() as session:
            if command is promote:
                ingest(other)
            held: dict[str, str] = {}

            def stop(session: Session = other, held: dict[str, str] = held) -> None:
                assert freeze(session, scope).outcome == "done"
                held.update(refs(session, scope))

            fired = before_transaction(session, number, stop)
            try:
                outcome = run(session).outcome
            except Frozen:
                outcome = "left open"
            del session.state.transaction
            if not fired():
                assert outcome in ("done", "held")
                break
            seen[outcome] += 1
            assert refs(session, scope) == held
            assert not moved_while_frozen(list(session.state.ledger.entries()))
            waiting = len(list(session.state.inbox.waiting())), len(list(session.state.runs.unfinished()))
            # `done` only if nothing was left to do but to give the lease back, or to say that it is over.
            assert waiting == {"frozen": (1, 0), "left open": (0, 1)}.get(outcome, (0, 0)), (number, outcome)
            for _ in range(2):  # whoever tries meanwhile changes nothing, and keeps nothing twice
                list(resume_runs(session))
            assert (len(list(session.state.inbox.waiting())), len(list(session.state.runs.unfinished()))) == waiting
            thaw(other, scope)
            expected = "held" if command == "held" else "done"
            assert [receipt.outcome for receipt in resume_runs(session)] == [expected] * sum(waiting)
            assert list(resume_runs(session)) == []
            assert session.state.refs.at("quarantine/demo" if command == "held" else "processed/demo")
        site.sound()
    assert seen["left open"] and seen["frozen"], seen


# -- with processes


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("state", STATES)
def test_a_run_in_another_process_that_was_in_the_middle_is_left_and_resumed(
    state: str, scope: str, place: Path
) -> None:
    site = Installation(place, state)
    reached, go = place / "reached", place / "go"

    def work() -> Told:
        def perform(step: Step, read: Any) -> Output:
            if step.params["n"] == 5:
                reached.touch()
                while not go.exists():
                    time.sleep(0.005)
            return Output.text(step.id)

        with site.open() as session:
            dataset_updater(session, "demo").perform = perform  # type: ignore[method-assign]
            return attempt(lambda: ingest(session))

    crowd = Crowd([work])
    crowd.begin()
    wait_until(reached.exists)
    with site.open() as session:
        assert freeze(session, scope).outcome == "done"
        go.touch()
        ((told,),) = [[Told(*ended.answer)] for ended in crowd.end()]
        assert (told.outcome, told.exit_code, told.run_id) == ("frozen", 5, "")
        assert refs(session, scope) == {}
        assert [entry.op_type for entry in session.state.ledger.entries()] == ["freeze"]
        (unfinished,) = session.state.runs.unfinished()
        thaw(session, scope)
        (receipt,) = resume_runs(session)
        assert (receipt.run_id, receipt.outcome) == (unfinished.run_id, "done")
        assert not moved_while_frozen(list(session.state.ledger.entries()))
    site.sound()


def somebody_ends(session: Session, outcome: str) -> None:
    """Wait until it has gone so for one of the others, from now on."""
    (last,) = session.state.ledger.entries(reverse=True, limit=1)
    wait_until(lambda: any(entry.outcome == outcome for entry in session.state.ledger.entries(after=last.index)))


def freezing_among_others(site: Installation, rng: random.Random, rounds: int, stop: Path) -> Counter[str]:
    """Freeze and thaw while others run, promote and roll back; then take up all that was kept, three at once."""

    def until_stopped(dataset: str, *commands: Callable[[Session], Receipt]) -> Callable[[], list[Told]]:
        def work() -> list[Told]:
            told: list[Told] = []
            while not stop.exists():
                site.source(f"{os.getpid()} {len(told)}", dataset)
                for command in commands:
                    with site.open() as session:
                        told.append(attempt(lambda: command(session)))  # noqa: B023 - called at once
            return told

        return work

    def operate(name: str, dataset: str = "demo") -> Callable[[Session], Receipt]:
        return lambda session: run_operation(session, name, dataset)

    with site.open() as session:
        ingest(session)
        promote(session)
    crowd = Crowd(
        [
            until_stopped("demo", ingest),
            until_stopped("demo", ingest, operate("promote")),
            until_stopped("other", lambda session: run_trigger(session, new_trigger(session, "other"))),
            until_stopped("demo", operate("rollback"), operate("promote")),
        ]
    )
    crowd.begin()
    try:
        for n in range(rounds):
            scope = SCOPES[n % 2]
            with site.open() as session:
                assert attempt(lambda: freeze(session, scope)).outcome == "done"  # noqa: B023
                held = refs(session, scope)
                somebody_ends(session, "frozen")
            time.sleep(rng.uniform(0, 0.08))
            with site.open() as session:
                assert refs(session, scope) == held, "a ref moved after the freeze returned"
                assert attempt(lambda: thaw(session, scope)).outcome == "done"  # noqa: B023
                somebody_ends(session, "done")
            time.sleep(rng.uniform(0, 0.05))
    finally:
        stop.touch()
    told = [Told(*each) for ended in crowd.end() for each in ended.answer]
    assert {each.exit_code for each in told} <= {0, 3, 5, 6, 69}, told
    with site.open() as session:
        ledger = list(session.state.ledger.entries())
        assert not moved_while_frozen(ledger)
        left = [run.run_id for run in session.state.runs.unfinished()]
        kept = [trigger.trigger_id for trigger in session.state.inbox.waiting()]
    site.sound()
    for _ in range(20):
        together([lambda: taken_up(site)] * 3)
        with site.open() as session:
            if not list(session.state.inbox.waiting()) and not list(session.state.runs.unfinished()):
                break
    with site.open() as session:
        after = {entry.run_id: entry.outcome for entry in session.state.ledger.entries() if entry.index > len(ledger)}
        answers = {ended.run_id for name in kept if (ended := session.state.inbox.ended(name)) is not None}
    assert len(answers) == len(kept) and answers | set(left) <= set(after), "something kept was not taken up"
    # A run that was left before it was planned is begun again if its source has changed, and says so itself.
    anew = [run_id for run_id in left if after[run_id] == "superseded"]
    assert len(after) <= len(kept) + len(left) + len(anew), "something kept was taken up twice"
    site.sound()
    return Counter(each.outcome for each in told) + Counter({"kept": len(kept), "left open": len(left)})


def taken_up(site: Installation) -> int:
    with site.open() as session:
        problems: list[KfmError] = []
        count = sum(1 for _ in resume_runs(session, tell=lambda _name, problem: problems.append(problem)))
    assert {problem.exit_code for problem in problems} <= {6, 69}, problems
    return count


@pytest.mark.parametrize("state", STATES)
def test_a_freeze_among_others_holds_and_what_it_kept_is_taken_up_once(state: str, place: Path) -> None:
    site = Installation(place / "site", state, ("demo", "other"))
    seen = freezing_among_others(site, random.Random(state), 8, place / "stop")
    assert seen["done"] > 5 and seen["frozen"] > 5 and seen["kept"], seen


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("state", STATES)
def test_a_freeze_among_others_always_holds(state: str, seed: int, place: Path) -> None:
    site = Installation(place / "site", state, ("demo", "other"))
    seen = freezing_among_others(site, random.Random(seed), 60, place / "stop")
    assert seen["left open"] + seen["kept"] > 20, seen
