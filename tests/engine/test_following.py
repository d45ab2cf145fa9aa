"""Sinks follow the ledger: each receives everything at least once, whatever it answers, and delays no run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kfm.app.metadata import ledger_sinks
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.backends import sink_lock
from kfm.app.session.session import Session
from kfm.clock import FixedClock
from kfm.delivery.followers import LATEST_MS, Follower, follow, progress
from kfm.errors import BadInput, Corrupt, KfmError, StorageFailed, Unavailable
from kfm.model.outbox_messages import Letter
from kfm.model.records import LedgerEntry
from kfm.telemetry.log import NullLog
from tests.engine.crowds import STATES, Installation


class Graph:
    """Keeps of everything what has the highest index, as a real sink does. `says` may raise, a call at a time."""

    name = "graph"

    def __init__(self, says: Callable[[Sequence[Letter]], None] = lambda _letters: None) -> None:
        self.says = says
        self.known: dict[str, tuple[int, Any]] = {}
        self.calls = 0

    def send(self, letters: Sequence[Letter]) -> None:
        self.calls += 1
        self.says(letters)
        for letter in letters:
            if letter.index >= self.known.get(letter.key, (0, None))[0]:
                self.known[letter.key] = (letter.index, letter.body)


def outcomes(entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
    for entry in entries:
        run = entry.run_id
        yield Letter(index=entry.index, run_id=run, dataset=entry.dataset, key=run, body=entry.outcome)


def following(session: Session, sink: Any, letters: Any = outcomes) -> Follower:
    return Follower(sink, letters, sink_lock(session.resolved, session.state, sink.name))


def tell(
    session: Session, sink: Any, clock: Any = None, letters: Any = outcomes, *, again: bool = False
) -> KfmError | None:
    return follow(session.state, following(session, sink, letters), clock or session.clock, NullLog(), again=again)


def expected(session: Session) -> dict[str, tuple[int, str]]:
    return {entry.run_id: (entry.index, entry.outcome) for entry in session.state.ledger.entries()}


@pytest.fixture
def site(place: Path) -> Installation:
    return Installation(place / "site", "sqlite", ("demo", "other"))


def some_runs(site: Installation, session: Session, count: int = 3) -> None:
    for n in range(count):
        site.source(f"demo {n}")
        run_trigger(session, new_trigger(session, "demo"))
    settle_session(session)


@pytest.mark.parametrize("state", STATES)
def test_a_sink_hears_of_every_run_once_and_then_of_nothing(state: str, place: Path) -> None:
    site, sink = Installation(place, state), Graph()
    with site.open() as session:
        some_runs(site, session)
        assert tell(session, sink) is None
        assert sink.known == expected(session)
        assert progress(session.state, "graph").lag == 0
        calls = sink.calls
        assert tell(session, sink) is None
        assert sink.calls == calls == 1
    with site.open() as session:  # the cursor is in the state
        some_runs(site, session, 1)
        tell(session, sink)
        assert sink.calls == 2 and sink.known == expected(session)
    site.sound()


def test_a_sink_that_is_down_fails_no_run_and_gets_all_of_it_later(
    site: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(_letters: Sequence[Letter]) -> None:
        raise Unavailable("nobody answers", hint="wait")

    sink, up = Graph(down), Graph()
    monkeypatch.setattr(ledger_sinks, "followers", lambda session, _passed: [following(session, sink)])
    with site.open() as session:
        some_runs(site, session)
        assert sink.calls == 1, "asked once, and then left alone for a while"
        assert [problem.message for problem in session.sink_problems] == ["graph: nobody answers"]
        assert session.undelivered == [] and all(entry.outcome == "done" for entry in session.state.ledger.entries())
        receipts = {
            entry.run_id: session.state.ledger.receipt_body(entry.run_id) for entry in session.state.ledger.entries()
        }
        settle_session(session)
        assert sink.calls == 1 and "nobody answers" in session.sink_problems[0].message
        sink.says = up.says
        settle_session(session, again=True)
        assert session.sink_problems == [] and sink.known == expected(session)
        assert receipts == {run_id: session.state.ledger.receipt_body(run_id) for run_id in receipts}
        assert session.state.outbox.stopped("graph") is None


def test_a_sink_that_stays_down_is_asked_less_and_less_and_never_given_up(site: Installation) -> None:
    def down(_letters: Sequence[Letter]) -> None:
        raise StorageFailed("full", hint="make room")

    sink, clock = Graph(down), FixedClock()
    waits = []
    with site.open() as session:
        some_runs(site, session, 1)
        for _ in range(16):
            assert isinstance(tell(session, sink, clock), StorageFailed)
            stopped = session.state.outbox.stopped("graph")
            assert stopped is not None
            waits.append(stopped.not_before - clock.now_ms())
            calls = sink.calls
            assert isinstance(tell(session, sink, clock), Unavailable) and sink.calls == calls
            clock.advance(waits[-1])
        assert waits == sorted(waits) and waits[:3] == [1000, 2000, 4000] and waits[-1] == waits[-2] == LATEST_MS


def test_what_a_sink_refuses_is_set_aside_alone_and_can_be_tried_again(site: Installation) -> None:
    bad: set[int] = {2, 5}

    def picky(letters: Sequence[Letter]) -> None:
        if bad & {letter.index for letter in letters}:
            raise BadInput("no such property", hint="-")

    sink = Graph(picky)
    with site.open() as session:
        some_runs(site, session, 6)
        assert tell(session, sink) is None
        how = progress(session.state, "graph")
        assert [letter.index for letter in how.dead] == [2, 5] and how.lag == 0
        assert (how.dead[0].code, how.dead[0].message, how.dead[0].tries) == ("input.bad", "no such property", 1)
        assert {index for index, _ in sink.known.values()} == {1, 3, 4, 6}
        bad.discard(5)
        assert tell(session, sink, again=True) is None
        assert [(letter.index, letter.tries) for letter in session.state.outbox.dead("graph")] == [(2, 2)]
        bad.clear()
        tell(session, sink, again=True)
        assert not list(session.state.outbox.dead("graph")) and sink.known == expected(session)


def test_a_run_whose_facts_are_damaged_holds_up_no_other(site: Installation) -> None:
    def damaged(entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
        for entry in entries:
            if entry.index == 2:
                raise Corrupt("a stored object is not what was stored", hint="restore it")
            yield from outcomes([entry])

    sink = Graph()
    with site.open() as session:
        some_runs(site, session, 4)
        assert tell(session, sink, letters=damaged) is None
        assert [letter.code for letter in session.state.outbox.dead("graph")] == ["corrupt"]
        assert {index for index, _ in sink.known.values()} == {1, 3, 4}
        assert tell(session, sink, again=True) is None and sink.known == expected(session)


def test_a_library_that_fails_in_its_own_words_is_an_outage_and_its_words_are_not_kept(site: Installation) -> None:
    def rude(_letters: Sequence[Letter]) -> None:
        raise RuntimeError("the value 4711 is bad")

    with site.open() as session:
        some_runs(site, session, 1)
        problem = tell(session, Graph(rude))
        assert isinstance(problem, Unavailable) and "RuntimeError" in problem.message
        stopped = session.state.outbox.stopped("graph")
        assert stopped is not None and "4711" not in str(problem) + stopped.message


def test_what_is_frozen_waits_for_the_thaw_and_a_withdrawal_does_not(site: Installation) -> None:
    sink = Graph()
    with site.open() as session:
        some_runs(site, session, 1)
        run_trigger(session, new_trigger(session, "other"))
        run_operation(session, "promote", "demo")
        withdrawal = run_operation(session, "rollback", "demo", {"to": "nothing", "ref": "published/demo"})
        assert withdrawal.outcome == "done"
        run_operation(session, "freeze", "demo")
        settle_session(session)
        tell(session, sink)
        told = set(sink.known)
        assert withdrawal.run_id in told
        by_dataset = {entry.run_id: entry.dataset for entry in session.state.ledger.entries()}
        assert {by_dataset[run_id] for run_id in told - {withdrawal.run_id}} == {"other"}
        assert progress(session.state, "graph").lag == len(by_dataset) - len(told) > 0
        calls = sink.calls
        tell(session, sink)
        assert sink.calls == calls, "nothing that waits was told"
        run_operation(session, "thaw", "demo")
        tell(session, sink)
        assert sink.known == expected(session) and progress(session.state, "graph").lag == 0


def test_a_freeze_in_the_middle_stops_what_was_not_handed_over(site: Installation) -> None:
    sink = Graph()
    with site.open() as session:
        some_runs(site, session, 2)

        def freezing(entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
            if session.state.refs.at("switch/dataset/demo") != "frozen":
                run_operation(session, "freeze", "demo")
            yield from outcomes(entries)

        tell(session, sink, letters=freezing)
        assert sink.known == {} and progress(session.state, "graph").waiting == 3


class Power(BaseException):
    """The process dies."""


@pytest.mark.parametrize("state", STATES)
def test_a_follower_killed_between_delivery_and_cursor_delivers_again(state: str, place: Path) -> None:
    site, sink = Installation(place, state), Graph()
    with site.open() as session:
        some_runs(site, session)

        class Dies(Graph):
            def send(self, letters: Sequence[Letter]) -> None:
                sink.send(letters)
                raise Power

        with pytest.raises(Power):
            tell(session, Dies())
        assert session.state.outbox.cursor("graph") == 0 and sink.known == expected(session)
    with site.open() as session:
        assert tell(session, sink) is None
        assert sink.calls == 2 and sink.known == expected(session)


def test_two_followers_at_once_deliver_everything(site: Installation) -> None:
    with site.open() as session:
        some_runs(site, session, 4)
    sink, inside, most = Graph(), [0], [0]
    entered = threading.Lock()

    def counting(_letters: Sequence[Letter]) -> None:
        with entered:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        with entered:
            inside[0] -= 1

    sink.says = counting
    problems: list[KfmError | None] = []

    def work() -> None:
        with site.open() as session:
            problems.append(tell(session, sink))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with site.open() as session:
        assert problems == [None] * 3 and most == [1] and sink.known == expected(session)


def test_nothing_is_opened_where_no_sink_is_configured(site: Installation) -> None:
    with site.open() as session:
        some_runs(site, session, 1)
        assert ledger_sinks.sink_progress(session) == [] and session.sink_problems == []
        assert not list(session.tables.scan("outbox", "sink/"))
        with pytest.raises(BadInput):
            ledger_sinks.retry(session, "graph")
