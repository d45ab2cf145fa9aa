"""Promises 9 and 10, F08: a worker that was stopped and continues finds that it has been replaced."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kfm.store.sqlite
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import open_tables
from kfm.clock import FixedClock
from kfm.errors import Busy, Fenced
from kfm.model.records import Lease
from kfm.store.postgres.tables import PostgresTables
from kfm.store.process_identity import this_process
from kfm.store.state import StoredState
from tests.crash import counts
from tests.crash.harness import Voice, answer_of, begin, clean_run, end, load, perform, recover, session_in
from tests.crash.oracle import check, difference, files_of, rows_of
from tests.crash.points import Points, boundary, install, stop
from tests.crash.updaters import SMALLEST, STATIONS, T0, Script, lay_out, settle_in
from tests.sampling import sampled
from tests.servers import placement

STATES = ("sqlite", "jsonl")
LATER = FixedClock(T0 + 600_000)  # the lease of 60 s is long over


def impatient() -> None:
    """In a child: do not wait for a lock that a stopped process keeps."""
    kfm.store.sqlite.SqliteTables.__init__.__kwdefaults__["busy_ms"] = 50
    real = PostgresTables.__init__

    def make(self: PostgresTables, dsn: Any, schema: str, wait_s: float) -> None:
        real(self, dsn, schema, min(wait_s, 0.3))

    PostgresTables.__init__ = make  # type: ignore[assignment,method-assign]
    time.sleep = lambda _seconds: None  # type: ignore[assignment]


def first_worker(folder: str, script: Script, at: int, only: Callable[[str], bool]) -> Callable[[Voice], Any]:
    """Plays the script, stops at a place; continued, it ends with the command it is in."""

    def work(voice: Voice) -> str:
        stopped: list[str] = []

        def stop_here(label: str) -> None:
            stopped.append(label)
            stop(label)

        install(Points(at, stop_here, only=only))
        receipt = None
        try:
            for n, command in enumerate(script.commands):
                lay_out(folder, command, n)
                with session_in(folder) as session:
                    receipt = perform(session, command)
                    settle_session(session)
                if stopped:
                    break
        except Fenced:
            return "fenced"
        assert receipt is not None
        return receipt.outcome

    return work


def second_worker(folder: str, script: Script) -> Callable[[Voice], str]:
    def work(voice: Voice) -> str:
        impatient()
        try:
            recover(folder, script, voice, clock=LATER)
        except Busy:
            return "busy"
        return "done"

    return work


def all_of(folder: str) -> dict[str, str]:
    """Every byte, tokens and holders too."""

    def work(_voice: Voice) -> dict[str, str]:
        with session_in(folder, LATER) as session:
            check(session, folder, {})
            rows = {f"{t}/{k}": v.hex() for t, table in rows_of(session.tables).items() for k, v in table.items()}
            return rows | files_of(folder)

    return dict(answer_of(work))


def noop_only(before: dict[str, str], after: dict[str, str]) -> bool:
    """Was only the receipt of a run added that had nothing to do?"""
    changed = {place.partition("/")[0] for place in after if after[place] != before.get(place)}
    allowed = {"ledger", "ledger_tree", "ended_runs", "receipts", "telemetry", "meta", "checkpoints", ".kfm"}
    return before.keys() <= after.keys() and changed <= allowed


def began_later(before: dict[str, str], after: dict[str, str]) -> bool:
    """Was it stopped before it had begun? Then it is as anyone who comes later: it takes a lease of its own, and of
    what others have written down it changes nothing."""
    written = ("runs/", "receipts/", "segments/", "ledger/", "telemetry/", "history/")
    kept = all(after.get(place) == value for place, value in before.items() if place.startswith(written))
    made = [(value, after.get(place, "")) for place, value in before.items() if place.startswith("versions/")]
    kept = kept and all(but_for_who_looked(value) == but_for_who_looked(now) for value, now in made)
    return kept and last_token(after) > last_token(before)


def but_for_who_looked(version: str) -> dict[str, object]:
    """Whoever makes a version again has held it against its contract again, and is named for that."""
    row: dict[str, object] = json.loads(bytes.fromhex(version))
    return {**row, "validated_by": ""}


def but_for_locks(rows: dict[str, str]) -> dict[str, str]:
    """Without the locks that are leases in the state, and without the last token: whoever continues takes a lock, too,
    before it finds nothing to do."""
    if not any(place.startswith("leases/lock/") for place in rows):
        return rows
    counters = json.loads(bytes.fromhex(rows["meta/counters"]))
    kept = {place: value for place, value in rows.items() if not place.startswith("leases/lock/")}
    return {**kept, "meta/counters": json.dumps({**counters, "token": 0})}


def last_token(rows: dict[str, str]) -> int:
    return int(json.loads(bytes.fromhex(rows["meta/counters"]))["token"])


def stop_everywhere(
    scratch: str,
    state: str,
    script: Script,
    only: Callable[[str], bool],
    *,
    may_begin_later: bool = False,
    every: int = 1,
) -> Counter[str]:
    folder = os.path.join(scratch, "house")
    settle_in(folder, script, state)
    labels = clean_run(folder, script, only)
    seen: Counter[str] = Counter()
    for at, label in list(enumerate(labels, 1))[::every]:
        placement.drop(folder)
        shutil.rmtree(folder)
        settle_in(folder, script, state)
        pid, pipe = begin(first_worker(folder, script, at, only))
        _, status = os.waitpid(pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"the worker did not stop at {at} ({label})"
        story = f"{state} {script.name} stopped at {at} ({label})"
        other = answer_of(second_worker(folder, script))
        before = all_of(folder) if other == "done" else {}
        os.kill(pid, signal.SIGCONT)
        ended = end(pid, pipe)
        assert ended.code == 0 and not ended.killed, f"{story}: {ended.failure}"
        counts.add("stops")
        seen[f"{other}, then {ended.answer}"] += 1
        if other == "busy":  # the stopped one held a lock: the other waits, and nothing is taken over
            assert ended.answer != "fenced", story
            answer_of(second_worker(folder, script))
            all_of(folder)
            continue
        after = all_of(folder)
        told = difference(but_for_locks(before), but_for_locks(after))
        fine = not told or (ended.answer == "noop" and noop_only(but_for_locks(before), but_for_locks(after)))
        fine = fine or (may_begin_later and began_later(before, after))
        counts.add("differences", not fine)
        assert fine, f"{story}, {ended.answer}\n{told}"
    return seen


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("state", sampled(STATES[::-1]))
def test_a_worker_that_was_replaced_changes_nothing(scratch: str, state: str, every: int) -> None:
    seen = stop_everywhere(scratch, state, SMALLEST, boundary, every=every)
    # Each way it can go was taken: replaced in the middle, replaced before it began, not replaced as it
    # held a lock, and nothing left to be replaced in.
    assert seen["done, then fenced"] and seen["done, then noop"], seen
    assert seen["busy, then done"] and seen["done, then done"], seen


def publishing(label: str) -> bool:
    return label.startswith(("publisher.update_metadata", "publisher.emit_event", "files.replace before"))


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("state", sampled(STATES[::-1]))
def test_a_publisher_that_was_overtaken_moves_no_pointer_back(scratch: str, state: str, every: int) -> None:
    seen = stop_everywhere(scratch, state, STATIONS, publishing, every=every)
    assert seen["done, then done"], seen


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
def test_a_worker_of_operations_that_was_replaced_changes_nothing(scratch: str, state: str) -> None:
    seen = stop_everywhere(scratch, state, STATIONS, boundary, may_begin_later=True)
    assert seen["done, then fenced"] and seen["done, then held"], seen


@pytest.fixture(params=STATES)
def states(request: pytest.FixtureRequest, scratch: str) -> Iterator[Callable[[FixedClock], StoredState]]:
    """Opens the same state as often as wanted, each time as another process would."""
    settle_in(scratch, SMALLEST, request.param)
    opened: list[StoredState] = []

    def open_one(clock: FixedClock) -> StoredState:
        state = StoredState(open_tables(load(os.path.join(scratch, "kfm.yml"), {}), "write"), clock.now_ms)
        opened.append(state)
        return state

    yield open_one
    for state in opened:
        state.close()


Opener = Callable[[FixedClock], StoredState]


def test_each_token_is_greater_than_all_before_it(states: Opener) -> None:
    clock = FixedClock(T0)
    first, second = states(clock), states(clock)
    tokens = []
    for round_ in range(20):
        for state in (first, second):
            lease = state.leases.acquire(f"scope-{round_ % 3}", this_process(), 1000)
            tokens.append(lease.token)
            if round_ % 2:
                state.leases.release(lease)
            else:
                clock.advance(1001)
    assert tokens == sorted(set(tokens))


def test_only_its_owner_frees_a_lease(states: Opener) -> None:
    clock = FixedClock(T0)
    first, second = states(clock), states(clock)
    old = first.leases.acquire("scope", "elsewhere:1:1", 1000)
    clock.advance(1001)
    new = second.leases.acquire("scope", "elsewhere:2:2", 60_000)
    first.leases.release(old)
    forged = Lease(scope="scope", token=new.token + 1, holder=new.holder, expires_ms=new.expires_ms)
    first.leases.release(forged)
    with pytest.raises(Busy):
        states(clock).leases.acquire("scope", "elsewhere:3:3", 1000)
    with pytest.raises(Fenced), first.transaction(old) as tx:
        tx.leases.renew(old, 60_000)
    second.leases.release(new)
    assert states(clock).leases.acquire("scope", "elsewhere:3:3", 1000).token > new.token


def test_a_stale_lease_is_refused_also_if_it_was_checked_just_before(states: Opener) -> None:
    """The answer to "is it still ours?" may be remembered only until somebody else has written."""
    clock = FixedClock(T0)
    first, second = states(clock), states(clock)
    old = first.leases.acquire("scope", "elsewhere:1:1", 1000)
    for _ in range(3):
        with first.transaction(old) as tx:
            tx.touch()
    clock.advance(1001)
    second.leases.acquire("scope", "elsewhere:2:2", 60_000)
    with pytest.raises(Fenced), first.transaction(old) as tx:
        tx.touch()


def test_a_dead_holder_on_this_host_is_replaced_at_once_and_elsewhere_after_its_time(states: Opener) -> None:
    holder_of_the_dead = answer_of(lambda _voice: this_process())
    clock = FixedClock(T0)
    state = states(clock)
    state.leases.acquire("here", holder_of_the_dead, 60_000)
    state.leases.acquire("here", this_process(), 60_000)
    host, _, rest = holder_of_the_dead.partition(":")
    state.leases.acquire("there", f"not-{host}:{rest}", 60_000)
    clock.advance(59_999)
    with pytest.raises(Busy):
        state.leases.acquire("there", this_process(), 60_000)
    clock.advance(1)
    state.leases.acquire("there", this_process(), 60_000)


def test_a_holder_that_was_killed_and_not_yet_waited_for_is_dead(states: Opener) -> None:
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(write, this_process().encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    with open(read, "rb") as pipe:
        holder = pipe.read().decode()
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # until it is gone, and leaves it unwaited for
    state = states(FixedClock(T0))
    state.leases.acquire("scope", holder, 60_000)
    try:
        assert state.leases.acquire("scope", this_process(), 60_000).token
    finally:
        os.waitpid(pid, 0)


def test_a_live_holder_is_not_replaced_before_its_time(states: Opener) -> None:
    clock = FixedClock(T0)
    state = states(clock)
    state.leases.acquire("scope", this_process(), 60_000)
    with pytest.raises(Busy):
        state.leases.acquire("scope", "elsewhere:1:1", 60_000)
