"""Many processes at one installation: one of them does the work, no work is lost, and every reader sees whole
versions.
"""

from __future__ import annotations

import mmap
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kfm.engine.upsert as engine
from kfm.app.runs.run_control import resume_runs, run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.engine.verify import verify
from kfm.errors import Moved, Unavailable
from kfm.model.records import Receipt
from tests.engine.crowds import STATES, Crowd, Installation, Looks, Told, attempt, disturbed, mortal, together
from tests.sampling import sampled

CROWD = 8
Work = Callable[[], Any]


def typed(site: Installation, command: Callable[[Session], Receipt]) -> Told:
    """One command, as typed: a session of its own, and what was said is settled."""

    def one() -> Receipt:
        with site.open() as session:
            receipt = command(session)
            settle_session(session)
            return receipt

    return attempt(one)


def ingest(dataset: str = "demo") -> Callable[[Session], Receipt]:
    return lambda session: run_trigger(session, new_trigger(session, dataset))


def operate(name: str, dataset: str = "demo", **params: str) -> Callable[[Session], Receipt]:
    return lambda session: run_operation(session, name, dataset, params)


def running(site: Installation) -> Work:
    return lambda: typed(site, ingest())


# -- the same work


@pytest.mark.parametrize("rounds", sampled([1, 8]))
@pytest.mark.parametrize("state", STATES)
def test_of_eight_with_the_same_work_one_commits_and_the_others_stand_back(
    state: str, rounds: int, place: Path
) -> None:
    site = Installation(place, state)
    for n in range(rounds):
        site.source(f"demo {n}")
        told = [Told(*answer) for answer in together([running(site)] * CROWD)]
        outcomes = Counter(each.outcome for each in told)
        assert outcomes.pop("done") == 1, told
        assert outcomes.keys() <= {"noop", "lease.busy"}, told
        for each in told:
            assert each.exit_code == (6 if each.outcome == "lease.busy" else 0)
            assert each.outcome != "lease.busy" or "; " in each.message, "it does not say what to do"
        site.sound()
        with site.open() as session:
            history = list(session.state.refs.history("processed/demo"))
            assert len(history) == n + 1 and history[-1].after == session.state.refs.at("processed/demo")
            assert Counter(entry.outcome for entry in session.state.ledger.entries())["done"] == n + 1
            assert not list(session.state.runs.unfinished())
            listed = {entry.run_id for entry in session.state.ledger.entries()}
            assert {each.run_id for each in told if each.run_id} <= listed


def not_busy(work: Work) -> Work:
    """Typed again and again while another is at it."""

    def again() -> Told:
        while (told := work()).outcome == "lease.busy":
            time.sleep(0.002)
        return told

    return again


def places_of(state: str, place: Path) -> int:
    """How many places to die there are when one does the work alone."""
    counted = place / "counted"
    (told,) = together([mortal(running(Installation(place, state)), counted)])
    assert Told(*told).outcome == "done"
    return counted.stat().st_size


def killed_at_random(folder: Path, state: str, rng: random.Random, rounds: int) -> None:
    """Eight at the same work. Some die where they leave a trace, some whenever; then someone finishes it."""
    places = places_of(state, folder / "alone")
    site = Installation(folder / "site", state)
    for n in range(rounds):
        site.source(f"demo {n}")
        # Who is left finishes what a dead one began: so at least as many places are come to as one alone comes to,
        # or half of that, should the next find most of it done. Where nobody tries again, this is sure of one only.
        patient = n % 2 == 0
        deaths = rng.sample(range(1, places // 2), 3)
        work = mortal(not_busy(running(site)) if patient else running(site), folder / f"counted {n}", deaths)
        ended = disturbed([work] * CROWD, rng, longest=0.25, kills=3)
        assert sum(each.killed for each in ended) >= (3 if patient else 1), (n, deaths)
        told = [Told(*each.answer) for each in ended if not each.killed]
        assert {each.outcome for each in told} <= {"done", "noop", *([] if patient else ["lease.busy"])}, told
        site.sound()
        site.finish()
        outcome = typed(site, ingest()).outcome
        assert outcome == "noop" or (outcome == "done" and not patient), outcome  # done: all died before the claim
        site.sound()
        with site.open() as session:
            history = list(session.state.refs.history("processed/demo"))
            assert len(history) == n + 1, "a version was made twice, or not at all"
            assert not list(session.state.runs.unfinished())
            committed = [run_id for run_id, _ in session.tables.scan("runs")]
            assert len(committed) == n + 1, "the work was begun under two names"


@pytest.mark.parametrize("state", STATES)
def test_whoever_is_killed_the_work_is_done_once(state: str, place: Path) -> None:
    killed_at_random(place, state, random.Random(state), rounds=2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("state", STATES)
def test_whoever_is_killed_however_often_the_work_is_done_once(state: str, seed: int, place: Path) -> None:
    killed_at_random(place, state, random.Random(seed), rounds=40)


# -- other work


@pytest.mark.parametrize("state", STATES)
def test_other_datasets_run_side_by_side_and_no_run_waits_for_ever(state: str, place: Path) -> None:
    names = [f"d{n}" for n in range(6)]
    site = Installation(place, state, names)
    rounds = mmap.mmap(-1, len(names))  # shared with the children: how far each has come
    enough = 6

    def worker(number: int) -> Work:
        def work() -> list[Told]:
            """Goes on until the slowest has done enough: a starved one would keep all of them here for ever."""
            told = []
            while min(rounds[:]) < enough and rounds[number] < 250:
                site.source(f"round {rounds[number]}", names[number])
                told.append(typed(site, ingest(names[number])))
                rounds[number] += told[-1].outcome == "done"
            return told

        return work

    answers = together([worker(number) for number in range(len(names))])
    told = [Told(*each) for answer in answers for each in answer]
    assert {each.outcome for each in told} == {"done"}, [each for each in told if each.outcome != "done"]
    site.sound()
    with site.open() as session:
        for number, name in enumerate(names):
            assert len(list(session.state.refs.history(f"processed/{name}"))) == rounds[number] >= enough
        assert sum(1 for _ in session.state.ledger.entries()) == len(told)


@pytest.mark.parametrize("rounds", sampled([5, 10]))
@pytest.mark.parametrize("state", STATES)
def test_a_state_that_several_make_at_once_turns_none_of_them_away(state: str, rounds: int, place: Path) -> None:
    for n in range(rounds):
        site = Installation(place / str(n), state)

        def work(site: Installation = site) -> int:
            with site.open() as session:
                return sum(1 for _ in session.state.runs.unfinished())

        assert together([work] * 6) == [0] * 6


@pytest.mark.parametrize("state", STATES)
def test_houses_in_threads_of_one_process_keep_apart(state: str, place: Path) -> None:
    names = ["a", "b", "a", "b"]
    site = Installation(place, state, ("a", "b"))
    told: list[tuple[str, Told]] = []
    start = threading.Barrier(len(names))

    def work(name: str) -> None:
        with site.open() as session:
            start.wait(30)
            for _ in range(6):
                told.append((name, attempt(lambda: run_trigger(session, new_trigger(session, name)))))

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(told) == 24
    for name in ("a", "b"):
        outcomes = Counter(each.outcome for whose, each in told if whose == name)
        assert outcomes.pop("done") == 1 and outcomes.keys() <= {"noop", "lease.busy"}, outcomes
    site.sound()


# -- moves


@pytest.mark.parametrize("state", STATES)
def test_moves_that_race_follow_each_other_and_the_loser_gets_an_error(state: str, place: Path) -> None:
    site = Installation(place, state)
    for n in range(3):
        site.source(f"first {n}")
        assert typed(site, ingest()).outcome == "done"
        assert typed(site, operate("promote")).outcome == "done"

    def again(times: int, *commands: Callable[[Session], Receipt], change: str = "") -> Work:
        def work() -> list[Told]:
            told = []
            for n in range(times):
                if change:
                    site.source(f"{change} {n}")
                told += [not_busy(partial(typed, site, command))() for command in commands]
            return told

        return work

    back = operate("rollback", ref="processed/demo")
    answers = together(
        [
            again(5, ingest(), change="x"),
            again(5, ingest(), operate("promote"), change="y"),
            again(8, operate("promote")),
            again(8, operate("rollback")),
            again(8, operate("rollback"), operate("promote")),
            again(8, back),
        ]
    )
    told = [Told(*each) for answer in answers for each in answer]
    outcomes = Counter(each.outcome for each in told)
    assert outcomes.keys() <= {"done", "noop", "unchanged", "failed", "ref.moved", "superseded"}, told
    assert outcomes["done"] > 5
    lost = [
        each
        for each in told
        if each.outcome in ("failed", "ref.moved")
        and "while it was read" not in each.message
        and "was rolled back already" not in each.message
        and "was withdrawn by" not in each.message
    ]
    for each in lost:
        assert each.exit_code == 6 and "not at" in each.message and "run the command again" in each.message, each
    site.sound()  # among the rest: every move starts where the one before it ended
    with site.open() as session:
        for each in told:
            if each.outcome == "failed":
                receipt = session.state.ledger.receipt(each.run_id)
                assert receipt is not None and (receipt.status, receipt.moves) == ("FAILED", [])
        # An ingest that lost stays open; an operation never does: its plan says where the ref was.
        assert {run.updater_id for run in session.state.runs.unfinished()} <= {"parts"}
    site.finish()
    with site.open() as session:
        assert not list(session.state.runs.unfinished())
    site.sound()


def test_an_operation_whose_ref_went_elsewhere_has_failed_and_can_be_typed_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, "sqlite")
    with site.open() as session, site.open() as other:
        for n in range(3):
            site.source(f"demo {n}")
            run_trigger(session, new_trigger(session, "demo"))
            if n < 2:
                run_operation(session, "promote", "demo")
        after_assembling(monkeypatch, lambda: run_operation(other, "rollback", "demo"))
        receipt = run_operation(session, "promote", "demo")
        assert (receipt.status, receipt.errors[0].code, receipt.moves) == ("FAILED", "ref.moved", [])
        assert not list(session.state.runs.unfinished())
        assert run_operation(session, "promote", "demo").outcome == "done"
        assert [entry.op for entry in session.state.refs.history("published/demo")][2:] == ["rollback", "promote"]
    site.sound()


def test_an_ingest_whose_ref_went_elsewhere_stays_open_and_is_resumed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, "sqlite")
    with site.open() as session, site.open() as other:
        for n in range(3):
            site.source(f"demo {n}")
            if n == 2:
                after_assembling(
                    monkeypatch, lambda: run_operation(other, "rollback", "demo", {"ref": "processed/demo"})
                )
                with pytest.raises(Moved, match="run the command again"):
                    run_trigger(session, new_trigger(session, "demo"))
            else:
                run_trigger(session, new_trigger(session, "demo"))
        (unfinished,) = session.state.runs.unfinished()
        lease = session.state.leases.of("parts/demo")
        assert lease is not None and lease.expires_ms == 0
        (receipt,) = resume_runs(other)
        assert (receipt.run_id, receipt.outcome) == (unfinished.run_id, "done")
        ops = [entry.op for entry in session.state.refs.history("processed/demo")]
        assert ops[1:] == ["ingest", "rollback", "ingest"]
    site.sound()


def after_assembling(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Once, when the next run knows where the refs are and before it moves them."""
    assemble = engine.assemble

    def then(*given: Any) -> Any:
        made = assemble(*given)
        monkeypatch.undo()
        what()
        return made

    monkeypatch.setattr(engine, "assemble", then)


# -- those who only look


def looking(site: Installation, over: mmap.mmap, looks: Looks, number: int) -> Work:
    """Looks again and again until the others are done, each time at one moment of the state."""

    def work() -> list[int]:
        lengths = []
        while not over[0] or not lengths:
            try:
                with site.open("read") as session:
                    lengths.append(verify(session.state, session.objects).entries)
                    for name, value in session.state.refs.all():
                        *_, last = session.state.refs.history(name)
                        assert last.after == value
                    for run in session.state.runs.unfinished():
                        assert session.state.ledger.receipt(run.run_id) is None
                    for entry in session.state.ledger.entries():
                        assert not entry.wal_ids or list(session.state.journal.segments(entry.run_id))
                looks.looked(number)
            except Unavailable:
                time.sleep(0.01)  # rewritten too fast; it says so
        return lengths

    return work


@pytest.mark.parametrize("state", STATES)
def test_who_only_looks_sees_a_whole_state_while_others_run_promote_compact_and_freeze(state: str, place: Path) -> None:
    site = Installation(place, state, ("demo", "other"))
    assert typed(site, ingest()).outcome == "done"
    over, looks = mmap.mmap(-1, 1), Looks(2)

    def writer(*commands: Callable[[Session], Receipt], dataset: str) -> Work:
        def work() -> list[Told]:
            told = []
            for n in range(8):
                site.source(f"change {n}", dataset)
                told += [typed(site, command) for command in commands]
                if n % 2:
                    looks.wait()
            return told

        return work

    def compacting() -> int:
        moved = 0
        while not over[0]:
            with site.open() as session:
                moved += session.archive.compact()
        with site.open() as session:
            return moved + session.archive.compact()

    writers = [
        writer(ingest(), operate("promote"), dataset="demo"),
        writer(ingest("other"), operate("freeze", scope="other"), operate("thaw", scope="other"), dataset="other"),
    ]
    crowd = Crowd([*writers, compacting, *(looking(site, over, looks, number) for number in range(2))])
    crowd.begin()
    wrote = [Told(*each) for ended in crowd.end(2) for each in ended.answer]
    over[0] = 1
    compacted, *looked = [ended.answer for ended in crowd.end()]
    assert {each.outcome for each in wrote} == {"done"}, [each for each in wrote if each.outcome != "done"]
    for lengths in looked:
        assert lengths == sorted(lengths) and len(set(lengths)) >= 4, "between two waits the ledger grew"
    site.sound()
    with site.open() as session:
        journals = [entry.run_id for entry in session.state.ledger.entries() if entry.wal_ids]
        assert compacted == len(journals)
        assert all(list(session.state.journal.segments(run_id)) for run_id in journals)
