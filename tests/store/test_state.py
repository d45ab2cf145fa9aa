"""The promises of the state over every backend: claims, fences, freeze flags, refs, receipts, ledger, inbox and
outbox.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from kfm.clock import FixedClock
from kfm.errors import Busy, Conflict, Corrupt, Fenced, Frozen, Moved
from kfm.model.canonical import canonical
from kfm.model.keys import GENESIS, digest
from kfm.model.records import Delivery, RefMove, SinkPosition
from kfm.store.process_identity import holder_is_dead, this_process
from kfm.store.state import StoredState, StoredTx
from tests.engine.system_calls import need_strace
from tests.store.backends import ALL, FILES, Backend
from tests.store.records import TS, checkpoint, receipt, run, segment, telemetry, trigger, version

A, B, C = (f"sha256:{letter * 64}" for letter in "abc")


@pytest.fixture(params=ALL)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend(request.param, tmp_path)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def state(backend: Backend, clock: FixedClock) -> Iterator[StoredState]:
    opened = StoredState(backend.open(), clock.now_ms)
    yield opened
    opened.close()


def again(backend: Backend, state: StoredState) -> StoredState:
    """The same state, opened again where that means something."""
    return StoredState(backend.reopen(state.tables), state.now_ms)


def move(tx: StoredTx, ref: str, before: str, after: str, **fields: str) -> None:
    known = {"run_id": "run-0", "op": "ingest", "actor": "a", "reason": "", "ts": TS, **fields}
    tx.refs.move(RefMove(ref=ref, before=before, after=after), **known)


# -- claims


def test_the_same_work_is_claimed_once(state: StoredState) -> None:
    with state.transaction() as tx:
        tx.runs.claim(run())
    for contender in (run(run_id="run-x"), run(run_id="run-1", n=1), run(run_id="run-2", n=2)):
        with pytest.raises(Conflict), state.transaction() as tx:
            tx.runs.claim(contender)
    found = state.runs.claimed("claim")
    assert found is not None and found.run_id == "run-0"
    assert [r.run_id for r in state.runs.unfinished()] == ["run-0"]
    assert state.runs.get("run-x") is None


def test_an_ended_run_may_be_followed_by_the_next_and_by_no_other(backend: Backend, state: StoredState) -> None:
    with state.transaction() as tx:
        tx.runs.claim(run())
    with state.transaction() as tx:
        tx.runs.save(run(status="FAILED"))
    assert list(state.runs.unfinished()) == []
    for contender in (run(run_id="run-0b", n=0), run(run_id="run-2", n=2)):
        with pytest.raises(Conflict), state.transaction() as tx:
            tx.runs.claim(contender)
    with state.transaction() as tx:
        tx.runs.claim(run(run_id="run-1", n=1))
    state = again(backend, state)
    found = state.runs.claimed("claim")
    assert found is not None and (found.run_id, found.n) == ("run-1", 1)
    assert [r.run_id for r in state.runs.unfinished()] == ["run-1"]
    first = state.runs.get("run-0")
    assert first is not None and first.status == "FAILED"


def test_a_claim_in_a_transaction_that_fails_was_never_made(state: StoredState) -> None:
    with pytest.raises(ZeroDivisionError), state.transaction() as tx:
        tx.runs.claim(run())
        tx.journal.lock_plan("claim", A)
        raise ZeroDivisionError
    assert state.runs.claimed("claim") is None
    assert state.journal.locked_plan("claim") is None
    assert list(state.runs.unfinished()) == []
    with state.transaction() as tx:
        tx.runs.claim(run())


# -- leases


def test_a_lease_is_held_by_one_until_it_expires(state: StoredState, clock: FixedClock) -> None:
    first = state.leases.acquire("scope", "other-host:1:1", 1000)
    with pytest.raises(Busy, match="ends in 1 s"):
        state.leases.acquire("scope", "me", 1000)
    clock.advance(999)
    with pytest.raises(Busy):
        state.leases.acquire("scope", "me", 1000)
    other = state.leases.acquire("elsewhere", "me", 1000)
    clock.advance(1)
    second = state.leases.acquire("scope", "me", 1000)
    assert first.token < other.token < second.token


def test_every_token_is_greater_than_all_before_it(backend: Backend, state: StoredState) -> None:
    tokens = []
    for n in range(30):
        lease = state.leases.acquire(f"scope-{n % 3}", "h", 10)
        tokens.append(lease.token)
        state.leases.release(lease)
        if n % 10 == 9:
            state = again(backend, state)
    assert tokens == sorted(set(tokens))


def test_a_stale_token_writes_nothing_renews_nothing_and_frees_nothing(
    backend: Backend, state: StoredState, clock: FixedClock
) -> None:
    stale = state.leases.acquire("scope", "old", 10)
    with state.transaction(stale) as tx:
        move(tx, "processed/d", "", A)
    clock.advance(10)
    current = state.leases.acquire("scope", "new", 1000)
    before = dict(state.refs.all())
    for durable in (True, False):
        with pytest.raises(Fenced), state.transaction(stale, durable=durable) as tx:
            move(tx, "processed/d", A, B)
            tx.leases.renew(stale, 1000)
            pytest.fail("the transaction of a stale lease was entered")
    state.leases.release(stale)
    assert state.leases.of("scope") == current
    assert dict(state.refs.all()) == before
    with state.transaction(current) as tx:
        tx.leases.renew(current, 5000)
        move(tx, "processed/d", A, C)
    renewed = again(backend, state).leases.of("scope")
    assert renewed is not None and renewed.token == current.token and renewed.expires_ms == clock.now_ms() + 5000


def test_a_lease_taken_over_through_another_view_of_the_same_tables_fences_too(
    state: StoredState, clock: FixedClock
) -> None:
    """What was checked once is not believed for ever: two workers of one process stand on the same tables."""
    other = StoredState(state.tables, clock.now_ms)
    stale = state.leases.acquire("scope", "old", 10)
    with state.transaction(stale, switches=("switch/global",)) as tx:
        tx.inbox.keep_checkpoint(checkpoint())
    clock.advance(10)
    other.leases.acquire("scope", "new", 1000)
    with pytest.raises(Fenced), state.transaction(stale, switches=("switch/global",)) as tx:
        tx.inbox.keep_checkpoint(checkpoint())


def test_a_switch_thrown_through_another_view_of_the_same_tables_stops_us_too(
    state: StoredState, clock: FixedClock
) -> None:
    other = StoredState(state.tables, clock.now_ms)
    lease = state.leases.acquire("scope", "me", 1000)
    with state.transaction(lease, switches=("switch/global",)) as tx:
        tx.inbox.keep_checkpoint(checkpoint())
    with other.transaction() as tx:
        move(tx, "switch/global", "", "frozen")
    with pytest.raises(Frozen), state.transaction(lease, switches=("switch/global",)) as tx:
        tx.inbox.keep_checkpoint(checkpoint())


def test_a_lease_whose_taking_was_undone_was_never_held(state: StoredState) -> None:
    with pytest.raises(ZeroDivisionError), state.transaction() as tx:
        ghost = tx.leases.acquire("scope", "me", 1000)
        raise ZeroDivisionError
    assert state.leases.of("scope") is None
    with pytest.raises(Fenced), state.transaction(ghost):
        pytest.fail("entered with a lease that does not exist")
    lease = state.leases.acquire("scope", "me", 1000)
    with state.transaction(lease) as tx:
        move(tx, "processed/d", "", A)


def test_a_released_lease_is_free_at_once(state: StoredState) -> None:
    lease = state.leases.acquire("scope", "one", 1_000_000)
    with state.transaction(lease) as tx:
        tx.leases.release(lease)
    assert state.leases.acquire("scope", "two", 10).token > lease.token


def test_the_lease_of_a_process_that_is_gone_is_free(state: StoredState) -> None:
    gone = subprocess.run(
        [sys.executable, "-c", "from kfm.store.process_identity import this_process; print(this_process(), end='')"],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "src"},
    ).stdout  # fmt: skip
    assert holder_is_dead(gone) and not holder_is_dead(this_process())
    first = state.leases.acquire("scope", gone, 1_000_000)
    second = state.leases.acquire("scope", this_process(), 1_000_000)
    assert second.token > first.token
    with pytest.raises(Busy):
        state.leases.acquire("scope", "other-host:1:1", 10)


# -- switches


@pytest.mark.parametrize("value", ["frozen", "FROZEN", "?", "Open", " open", "0", "false"])
def test_whatever_is_not_plainly_open_is_frozen(state: StoredState, value: str) -> None:
    switches = ("switch/global", "switch/dataset/d")
    with state.transaction(switches=switches) as tx:
        move(tx, "switch/dataset/d", "", value)
    with pytest.raises(Frozen), state.transaction(switches=switches):
        pytest.fail("entered while frozen")
    with state.transaction(switches=("switch/global", "switch/dataset/e")) as tx:
        move(tx, "processed/e", "", A)
    with state.transaction() as tx:
        move(tx, "switch/dataset/d", value, "open")
    with state.transaction(switches=switches) as tx:
        move(tx, "processed/d", "", A)


def test_a_frozen_transaction_keeps_nothing_and_leaves_the_store_usable(state: StoredState) -> None:
    with state.transaction() as tx:
        move(tx, "switch/global", "", "frozen")
    for _ in range(3):
        with pytest.raises(Frozen), state.transaction(switches=("switch/global",)):
            pytest.fail("entered while frozen")
    with state.transaction() as tx:
        move(tx, "switch/global", "frozen", "")
    assert state.refs.at("switch/global") == ""


# -- refs


def test_a_ref_moves_only_from_where_it_is(backend: Backend, state: StoredState) -> None:
    with state.transaction() as tx:
        move(tx, "processed/d", "", A)
    for before in ("", B, A.upper()):
        with pytest.raises(Moved), state.transaction() as tx:
            move(tx, "raw/d/0", "", B)
            move(tx, "processed/d", before, C)
    state = again(backend, state)
    assert dict(state.refs.all()) == {"processed/d": A}
    assert [entry.after for entry in state.refs.history("processed/d")] == [A]


def test_a_ref_moved_twice_in_one_transaction_keeps_both_moves(state: StoredState) -> None:
    with state.transaction() as tx:
        move(tx, "processed/d", "", A)
        move(tx, "processed/d", A, B)
        move(tx, "processed/d", B, "")
    assert state.refs.at("processed/d") == ""
    assert [(e.n, e.before, e.after) for e in state.refs.history("processed/d")] == [(1, "", A), (2, A, B), (3, B, "")]


def test_history_is_complete_in_order_and_of_this_ref_only(backend: Backend, state: StoredState) -> None:
    names = ["processed/d", "processed/d-e", "processed/d/e", "processed/dd"]
    at = dict.fromkeys(names, "")
    for n in range(25):
        with state.transaction(durable=n % 5 == 0) as tx:
            for name in names:
                target = f"{name}#{n}"
                move(tx, name, at[name], target, reason=str(n))
                at[name] = target
    state = again(backend, state)
    for name in names:
        entries = list(state.refs.history(name))
        assert [entry.n for entry in entries] == list(range(1, 26))
        assert {entry.ref for entry in entries} == {name}
        assert all(one.after == two.before for one, two in pairwise(entries))
        assert state.refs.at(name) == entries[-1].after
    assert dict(state.refs.all("processed/d/")) == {"processed/d/e": "processed/d/e#24"}


# -- versions, receipts, ledger


def test_a_version_keeps_its_first_maker(state: StoredState) -> None:
    with state.transaction() as tx:
        tx.ledger.keep_version(version(run_id="first"))
        tx.ledger.keep_version(version(run_id="second"))
    with state.transaction() as tx:
        tx.ledger.keep_version(version(run_id="third"))
    found = state.ledger.version("d", version().digest)
    assert found is not None and found.run_id == "first"
    assert state.ledger.version("d", B) is None


def test_a_receipt_is_written_once(backend: Backend, state: StoredState) -> None:
    with state.transaction() as tx:
        tx.ledger.append(receipt(), op="ingest")
        tx.ledger.append(receipt(), op="ingest")
    with state.transaction() as tx:
        tx.ledger.append(receipt(), op="ingest")
    with pytest.raises(Corrupt, match="already has another receipt"), state.transaction() as tx:
        move(tx, "processed/d", "", A)
        tx.ledger.append(receipt(outcome="failed"), op="ingest")
    state = again(backend, state)
    assert state.ledger.receipt("run-0") == receipt()
    assert [entry.index for entry in state.ledger.entries()] == [1]
    assert state.refs.at("processed/d") == ""


def test_the_ledger_is_one_unbroken_chain_over_the_receipts(backend: Backend, state: StoredState) -> None:
    for n in range(40):
        with state.transaction(durable=n % 3 == 0) as tx:
            assert tx.ledger.next_index() == n * 2 + 1
            tx.ledger.append(receipt(run_id=f"run-{n}"), op="ingest")
            assert tx.ledger.next_index() == n * 2 + 2
            tx.ledger.append(receipt(run_id=f"skip-{n}", outcome="noop", plan_hash=""), op="ingest")
        with pytest.raises(ZeroDivisionError), state.transaction() as tx:
            tx.ledger.append(receipt(run_id=f"never-{n}"), op="ingest")
            raise ZeroDivisionError
        if n % 13 == 0:
            state = again(backend, state)
    entries = list(state.ledger.entries())
    previous = GENESIS
    for n, entry in enumerate(entries, 1):
        assert (entry.index, entry.prev) == (n, previous)
        previous = digest(canonical(entry))
        written = state.ledger.receipt(entry.run_id)
        assert written is not None and digest(canonical(written)) == entry.receipt_digest
    assert state.ledger.head() == previous
    assert len(entries) == 80
    assert [e.index for e in state.ledger.entries(after=77)] == [78, 79, 80]
    assert [e.index for e in state.ledger.entries(reverse=True, limit=2)] == [80, 79]
    assert [e.index for e in state.ledger.entries(after=3, reverse=True)] == [2, 1]


def test_telemetry_and_checkpoints_are_the_latest_written(backend: Backend, state: StoredState) -> None:
    with state.transaction() as tx:
        tx.ledger.keep_telemetry(telemetry())
        tx.inbox.keep_checkpoint(checkpoint())
        tx.inbox.keep_checkpoint(checkpoint(uri="https://example.org/ä?b#c", etag='W/"1"'))
    with state.transaction(durable=False) as tx:
        tx.ledger.keep_telemetry(telemetry(energy_kwh=0.25))
        tx.inbox.keep_checkpoint(checkpoint(size=2))
    state = again(backend, state)
    assert state.ledger.telemetry("run-0") == telemetry(energy_kwh=0.25)
    assert state.inbox.checkpoint("file:a") == checkpoint(size=2)
    uri = "https://example.org/ä?b#c"
    assert state.inbox.checkpoint(uri) == checkpoint(uri=uri, etag='W/"1"')
    assert state.inbox.checkpoint("file:b") is None


# -- outbox, inbox


def publish(state: StoredState, before: str, after: str) -> None:
    with state.transaction() as tx:
        tx.refs.move(
            RefMove(ref="published/d", before=before, after=after), run_id="r", op="o", actor="", reason="", ts=""
        )


def test_a_dataset_stays_pending_until_the_sink_received_it(backend: Backend, state: StoredState) -> None:
    publish(state, "", "one")
    with state.transaction() as tx:
        for sink, dataset in (("publish", "d"), ("publish", "e"), ("publish", "d"), ("graph", "d")):
            tx.outbox.owe(sink, dataset)
    state = again(backend, state)
    assert list(state.outbox.due("publish")) == ["d", "e"] and list(state.outbox.due("graph")) == ["d"]
    state.outbox.acknowledge("publish", {"d": SinkPosition(moves=1, keep=-1)})
    state = again(backend, state)
    assert list(state.outbox.due("publish")) == ["e"] and list(state.outbox.due("graph")) == ["d"]
    assert (
        state.outbox.told("publish", "d") == SinkPosition(moves=1, keep=-1) and state.outbox.told("graph", "d") is None
    )


def test_a_dataset_that_moved_during_a_report_stays_pending(state: StoredState) -> None:
    publish(state, "", "one")
    with state.transaction() as tx:
        tx.outbox.owe("publish", "d")
    publish(state, "one", "two")
    state.outbox.acknowledge("publish", {"d": SinkPosition(moves=1, keep=-1)})
    assert list(state.outbox.due("publish")) == ["d"]
    state.outbox.acknowledge("publish", {"d": SinkPosition(moves=2, keep=0)})
    state.outbox.acknowledge("publish", {"d": SinkPosition(moves=1, keep=-1)})  # one that was slow
    assert list(state.outbox.due("publish")) == [] and state.outbox.told("publish", "d") == SinkPosition(
        moves=2, keep=0
    )


def test_a_cursor_never_goes_back(backend: Backend, state: StoredState) -> None:
    for index in (3, 7, 5):
        with state.transaction() as tx:
            tx.outbox.advance("publish", index)
    state = again(backend, state)
    assert (state.outbox.cursor("publish"), state.outbox.cursor("receipts")) == (7, 0)


def test_a_kept_trigger_stays_until_a_run_of_it_ends(backend: Backend, state: StoredState) -> None:
    with state.transaction() as tx:
        one = tx.inbox.keep(trigger(reason="first"))
        two = tx.inbox.keep(trigger(trigger_id="hook-7"))
        assert tx.inbox.keep(one) == one
    assert one.trigger_id and two.trigger_id == "hook-7"
    state = again(backend, state)
    assert {t.trigger_id for t in state.inbox.waiting()} == {one.trigger_id, "hook-7"}
    with state.transaction() as tx:
        tx.inbox.finish(one, "a-run")
        tx.inbox.finish(trigger(), "a-run")
        tx.inbox.finish(trigger(trigger_id="unknown"), "a-run")
    assert list(state.inbox.waiting()) == [two]
    ended = state.inbox.ended(one.trigger_id)
    assert ended is not None and (ended.trigger, ended.run_id) == (one, "a-run")
    assert list(state.inbox.all_ended(reverse=True)) == [ended]
    assert state.inbox.ended("unknown") is None


def test_a_delivery_is_known_once_it_was_taken(backend: Backend, state: StoredState) -> None:
    taken = Delivery(source_id="hook", delivery_id="ab", trigger_ids=("1",), received_ms=1, expires_ms=0)
    with state.transaction() as tx:
        assert state.inbox.delivery("hook", "ab") is None
        tx.inbox.take_delivery(taken)
    state = again(backend, state)
    assert state.inbox.delivery("hook", "ab") == taken
    assert state.inbox.delivery("hook", "a") is None and state.inbox.delivery("other", "ab") is None
    assert list(state.inbox.deliveries()) == [taken]
    with state.transaction() as tx:
        tx.inbox.forget_delivery(taken)
    assert state.inbox.delivery("hook", "ab") is None


# -- journals, plans, objects


def test_a_segment_is_written_once_and_other_bytes_under_its_number_are_corruption(
    backend: Backend, state: StoredState
) -> None:
    first = segment(0, GENESIS, done=[(0, A, 1, "text/plain")])
    with state.transaction() as tx:
        name = tx.journal.append("run-0", first)
    state = again(backend, state)
    with state.transaction() as tx:
        assert tx.journal.append("run-0", first) == name, "the same bytes again are a harmless duplicate"
    other = segment(0, GENESIS, done=[(0, B, 1, "text/plain")])
    with pytest.raises(Corrupt, match="record 0 of the journal of run run-0 is already stored with other bytes"):
        with state.transaction() as tx:
            move(tx, "processed/x", "", A)
            tx.journal.append("run-0", other)
    assert state.refs.at("processed/x") == "", "nothing of that transaction was written"
    state.archive = lambda _run: [("run-0/00000000", canonical(other))]
    with pytest.raises(Corrupt, match="record 0 "):
        list(state.journal.segments("run-0"))
    state.archive = lambda _run: [("run-0/00000000", canonical(first))]
    assert [found for found, _ in state.journal.segments("run-0")] == [first]


def test_the_journal_of_a_run_is_read_in_order_and_a_gap_is_refused(backend: Backend, state: StoredState) -> None:
    previous = GENESIS
    for n in range(5):
        with state.transaction(durable=n != 2) as tx:
            previous = tx.journal.append("run-0", segment(n, previous, done=[(n, A, 1, "text/plain")]))
            tx.journal.append("run-0-other", segment(0, GENESIS))
    state = again(backend, state)
    read = list(state.journal.segments("run-0"))
    assert [found.n for found, _ in read] == [0, 1, 2, 3, 4]
    assert read[-1][1] == previous
    for n in range(4):  # an end that is cut off needs the run's row or the note to be noticed
        body = state.tables.get("segments", f"run-0/{n:08d}")
        assert body is not None
        state.tables.begin()
        state.tables.delete("segments", f"run-0/{n:08d}")
        state.tables.commit()
        with pytest.raises(Corrupt, match=f"record {n} "):
            list(state.journal.segments("run-0"))
        state.tables.begin()
        state.tables.put("segments", f"run-0/{n:08d}", body.replace(b"text/plain", b"text/plein"))
        state.tables.commit()
        with pytest.raises(Corrupt, match=f"record {n + 1} "):
            list(state.journal.segments("run-0"))
        state.tables.begin()
        state.tables.put("segments", f"run-0/{n:08d}", body)
        state.tables.commit()
    assert len(list(state.journal.segments("run-0"))) == 5
    assert len(list(state.journal.segments("run-0-other"))) == 1
    assert list(state.journal.segments("run")) == []


def test_plans_are_kept_in_chunks_and_locked_by_claim(backend: Backend, state: StoredState) -> None:
    with state.transaction() as tx:
        for n in range(12):
            tx.journal.plan_chunk(A, n, b"%d\n" % n)
        tx.journal.plan_chunk(B, 0, b"other")
        tx.journal.lock_plan("claim", A)
    state = again(backend, state)
    assert b"".join(state.journal.plan_chunks(A)) == b"".join(b"%d\n" % n for n in range(12))
    assert state.journal.locked_plan("claim") == A
    assert state.journal.locked_plan("unknown") is None


def test_small_objects_live_in_the_state(backend: Backend, state: StoredState) -> None:
    bodies = [b"", b"\xff", b"\x00\xff" * 100, "ä".encode(), os.urandom(65536)]
    rows = [("sha256:" + hashlib.sha256(body).hexdigest(), body) for body in bodies]
    with state.transaction() as tx:
        tx.objects(rows[:1])
        tx.objects(rows)
        tx.objects([])
    state = again(backend, state)
    for name, body in rows:
        assert state.inline_object(name) == body


def test_a_record_that_cannot_be_read_as_what_it_is_is_refused(state: StoredState) -> None:
    state.tables.begin()
    for table, key in (("runs", "x"), ("receipts", "x"), ("leases", "x"), ("checkpoints", "x")):
        state.tables.put(table, key, b'{"unknown":1}')
    state.tables.commit()
    for read in (state.runs.get, state.ledger.receipt, state.leases.of, state.inbox.checkpoint):
        with pytest.raises(Corrupt, match="cannot be read"):
            read("x")


@pytest.mark.parametrize("kind", FILES)
def test_a_sync_makes_what_was_said_before_durable(kind: str, tmp_path: Path, clock: FixedClock) -> None:
    """Asked of the operating system, not of us: every sync() reaches the disk, however often it is called."""
    script = (
        "import sys; from kfm.store.state import StoredState; from tests.store.backends import open_stored\n"
        "state = StoredState(open_stored(sys.argv[1], sys.argv[2]), lambda: 1)\n"
        "for _ in range(5):\n"
        "    state.leases.acquire('s', 'h', 0); print('SYNC', flush=True); state.sync(); print('DONE', flush=True)\n"
    )
    trace = tmp_path / "trace"
    need_strace()
    done = subprocess.run(
        ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=fsync,fdatasync,write",
         sys.executable, "-c", script, kind, str(tmp_path / "state")],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "src:."}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    inside, syncs, rounds = False, 0, 0
    for line in trace.read_text().splitlines():
        if "SYNC" in line:
            inside, syncs = True, 0
        elif "DONE" in line:
            assert syncs >= 1, f"sync() number {rounds + 1} reached no disk"
            inside, rounds = False, rounds + 1
        elif inside and "sync(" in line and "state" in line:
            syncs += 1
    assert rounds == 5
