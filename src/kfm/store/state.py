"""The state, at the height of intent: claims, leases, refs, receipts, over any Tables.

Every rule that must hold in the same transaction as its effect is here, once: fencing, freezing,
compare-and-swap of refs, write-once receipts, the chain of the ledger. A backend only keeps bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from kfm.contract.canonical import canonical, is_plain
from kfm.contract.keys import GENESIS, digest
from kfm.contract.ports import Tables
from kfm.contract.records import (
    Checkpoint,
    DatasetVersion,
    Delivery,
    EndedTrigger,
    Lease,
    LedgerEntry,
    Receipt,
    RefEntry,
    RefMove,
    Run,
    RunTelemetry,
    Segment,
    Told,
    Trigger,
)
from kfm.errors import Busy, Conflict, Corrupt, Fenced, Frozen, Moved
from kfm.store.holders import holder_is_dead as holder_is_dead
from kfm.store.holders import is_held as is_held
from kfm.store.holders import this_process as this_process

T = TypeVar("T")
_encode = msgspec.json.Encoder(order="sorted").encode
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
# How often leases and refs were written through these tables, by whichever StoredState stands on them.
_writes: WeakKeyDictionary[Tables, dict[str, int]] = WeakKeyDictionary()


def _decode(body: bytes, kind: type[T], where: str) -> T:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(body)  # type: ignore[no-any-return]
    except msgspec.MsgspecError as problem:
        raise Corrupt(f"record {where} cannot be read: {problem}", hint="restore the state from a copy") from problem


def _other_bytes(run_id: str, n: int) -> Corrupt:
    what = f"record {n} of the journal of run {run_id} is there with other bytes"
    return Corrupt(what, hint="restore the state from a copy; nothing was written", record=n)


def _exact(record: msgspec.Struct) -> bytes:
    """The canonical form of a record, whichever language writes it. Of one that holds no float the sorted
    encoder gives it, unless a text is not ASCII."""
    may_hold_anything = _ANYTHING_IN.get(type(record))
    if may_hold_anything is not None and (not (held := may_hold_anything(record)) or is_plain(held)):
        body = _encode(record)
        if body.isascii():
            return body
    return canonical(record)


def _nothing(_record: Any) -> None:
    """All fields of the record are texts, truths and small integers, or records of these."""


# Where a float may lie in a record; of one that is not named here, anywhere.
_ANYTHING_IN: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((Checkpoint, Delivery, EndedTrigger, Lease, LedgerEntry, RefEntry, Told, Trigger), _nothing),
    **dict.fromkeys((DatasetVersion, Run), attrgetter("metadata")),
    Segment: attrgetter("payload"),
    Receipt: attrgetter("provenance"),
    RunTelemetry: attrgetter("energy_kwh", "co2e_g", "error_budget_burn"),
}


class StoredState:
    """Implements the State port over any Tables."""

    def __init__(self, tables: Tables, now_ms: Callable[[], int]) -> None:
        self.tables = tables
        self.now_ms = now_ms
        self._fenced: tuple[Lease, int, int] | None = None  # the last lease found to be ours, and when
        self._open: tuple[Sequence[str], int, int] | None = None  # the last switches found open, and when
        self._writes = _writes.setdefault(tables, {"leases": 0, "refs": 0})
        self.archive: Callable[[str], Iterable[tuple[str, bytes]]] | None = None  # journals that were compacted

    # -- one transaction

    def transaction(
        self, lease: Lease | None = None, *, durable: bool = True, switches: Sequence[str] = ()
    ) -> Transaction:
        return Transaction(self, lease, durable, switches)

    def check(self, lease: Lease | None, switches: Sequence[str]) -> None:
        """Inside a transaction: is the lease still ours, and is nothing frozen?

        Asked again only if another process wrote since, or we wrote to leases or refs ourselves.
        """
        foreign = self.tables.foreign()
        if lease is not None and (fenced := (lease, foreign, self._writes["leases"])) != self._fenced:
            self._check_fence(lease)
            self._fenced = fenced
        if switches and (open_ := (switches, foreign, self._writes["refs"])) != self._open:
            self._check_open(switches)
            self._open = open_

    def recheck(self, *tables: Literal["leases", "refs"]) -> None:
        """These are being written: what anyone checked in them before no longer counts."""
        for table in tables:
            self._writes[table] += 1

    def _check_open(self, switches: Sequence[str]) -> None:
        for switch in switches:
            value = self.ref(switch)
            if value not in ("", "open"):  # whatever is not plainly open is frozen
                name = switch.removeprefix("switch/").removeprefix("dataset/")
                thaw = "kfm thaw" if switch == "switch/global" else f"kfm thaw {name}"
                raise Frozen(f"{name} is frozen", hint=f"see `kfm refs history {switch}`; `{thaw}` opens it")

    def _check_fence(self, lease: Lease) -> None:
        current = self.lease(lease.scope)
        # The holder as well: a token handed out in a transaction that was rolled back is handed out again.
        if current is None or (current.token, current.holder) != (lease.token, lease.holder):
            what = f"the lease on {lease.scope} was taken over by another worker"
            raise Fenced(what, hint="nothing was written; the other worker carries on", token=lease.token)

    def sync(self) -> None:
        """Make every commit so far durable."""
        with self.transaction() as tx:
            tx.touch()

    # -- leases

    def lease(self, scope: str) -> Lease | None:
        return self._one("leases", scope, Lease)

    def acquire(self, scope: str, holder: str, ttl_ms: int) -> Lease:
        with self.transaction(durable=False) as tx:
            return tx.acquire(scope, holder, ttl_ms)

    def release(self, lease: Lease) -> None:
        """Only the owner can: a stale token frees nothing."""
        with self.transaction(durable=False) as tx:
            tx.release(lease)

    # -- reading

    def _one(self, table: str, key: str, kind: type[T]) -> T | None:
        body = self.tables.get(table, key)
        return None if body is None else _decode(body, kind, f"{table}/{key}")

    def _many(
        self, table: str, kind: type[T], prefix: str = "", *, reverse: bool = False, limit: int = -1
    ) -> Iterator[T]:
        for key, body in self.tables.scan(table, prefix, reverse=reverse, limit=limit):
            yield _decode(body, kind, f"{table}/{key}")

    def meta(self, key: str) -> str:
        return (self.tables.get("meta", key) or b"").decode()

    def counters(self) -> dict[str, int]:
        body = self.tables.get("meta", "counters")
        return {} if body is None else _decode(body, dict[str, int], "meta/counters")

    def run(self, run_id: str) -> Run | None:
        return self._one("runs", run_id, Run)

    def open_runs(self) -> Iterator[Run]:
        """Runs that were claimed and have not ended."""
        for run_id, _ in list(self.tables.scan("open_runs")):
            run = self.run(run_id)
            if run is not None:
                yield run

    def claimed(self, claim_key: str) -> Run | None:
        """The latest run of a claim."""
        run_id = self.tables.get("claims", claim_key)
        return None if run_id is None else self.run(run_id.decode())

    def segments(self, run_id: str) -> Iterator[tuple[Segment, str]]:
        """In order, each with its digest, and checked against the one before it."""
        previous = GENESIS
        for expected, (key, body) in enumerate(self._journal(run_id)):
            segment = _decode(body, Segment, f"segments/{key}")
            if segment.n != expected or segment.prev != previous:
                raise Corrupt(
                    f"record {expected} of the journal of run {run_id} is missing or altered",
                    hint="restore the state from a copy; nothing was replayed",
                    record=expected,
                )
            previous = digest(body)
            yield segment, previous

    def _journal(self, run_id: str) -> Iterator[tuple[str, bytes]]:
        """Its rows, and then those that were compacted, before we came or while we read."""
        seen: dict[str, bytes] = {}
        for row in self.tables.scan("segments", run_id + "/"):
            seen[row[0]] = sha256(row[1]).digest()
            yield row
        if self.archive is not None:
            for key, body in self.archive(run_id):
                if key not in seen:
                    yield key, body
                elif seen[key] != sha256(body).digest():
                    raise _other_bytes(run_id, int(key.rpartition("/")[2]))

    def plan_chunks(self, plan_hash: str) -> Iterator[bytes]:
        for _, body in self.tables.scan("plans", plan_hash + "/"):
            yield body

    def locked_plan(self, lock_key: str) -> str | None:
        body = self.tables.get("plan_locks", lock_key)
        return None if body is None else body.decode()

    def ref(self, name: str) -> str:
        return (self.tables.get("refs", name) or b"").decode()

    def refs(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        for key, body in self.tables.scan("refs", prefix):
            yield key, body.decode()

    def history(self, name: str, *, reverse: bool = False, limit: int = -1) -> Iterator[RefEntry]:
        return self._many("history", RefEntry, name + "@", reverse=reverse, limit=limit)

    def histories(self) -> Iterator[RefEntry]:
        """Every move of every ref, also of those that are gone."""
        return self._many("history", RefEntry)

    def dataset_version(self, dataset: str, version: str) -> DatasetVersion | None:
        return self._one("versions", f"{dataset}@{version}", DatasetVersion)

    def receipt(self, run_id: str) -> Receipt | None:
        return self._one("receipts", run_id, Receipt)

    def receipt_body(self, run_id: str) -> bytes | None:
        return self.tables.get("receipts", run_id)

    def telemetry(self, run_id: str) -> RunTelemetry | None:
        return self._one("telemetry", run_id, RunTelemetry)

    def ledger(self, *, after: int = 0, reverse: bool = False, limit: int = -1) -> Iterator[LedgerEntry]:
        return (entry for entry, _ in self.ledger_links(after=after, reverse=reverse, limit=limit))

    def ledger_links(self, *, after: int = 0, **how: Any) -> Iterator[tuple[LedgerEntry, str]]:
        start = f"{after:012d}" if after else ""
        for key, body in self.tables.scan("ledger", after=start, **how):
            yield _decode(body, LedgerEntry, f"ledger/{key}"), digest(body)

    def ledger_head(self) -> str:
        """The digest of the last entry."""
        return self.meta("ledger_head")

    def cursor(self, sink: str) -> int:
        return int(self.meta(f"cursor/{sink}") or 0)

    def due(self, sink: str) -> Iterator[str]:
        return (key.rpartition("/")[2] for key, _ in self.tables.scan("outbox", f"due/{sink}/"))

    def told(self, sink: str, dataset: str) -> Told | None:
        return self._one("outbox", f"told/{sink}/{dataset}", Told)

    def acknowledge(self, sink: str, told: Mapping[str, Told]) -> None:
        with self.transaction(durable=False) as tx:
            for dataset, how_far in told.items():
                tx.told(how_far, sink, dataset)

    def inbox(self) -> Iterator[Trigger]:
        return self._many("inbox", Trigger)

    def kept_trigger(self, trigger_id: str) -> Trigger | None:
        """A trigger of the inbox; None once a run of it has ended."""
        return self._one("inbox", trigger_id, Trigger)

    def ended_trigger(self, trigger_id: str) -> EndedTrigger | None:
        return self._one("triggers", trigger_id, EndedTrigger)

    def ended_triggers(self, *, reverse: bool = False, limit: int = -1) -> Iterator[EndedTrigger]:
        return self._many("triggers", EndedTrigger, reverse=reverse, limit=limit)

    def delivery(self, source_id: str, delivery_id: str) -> Delivery | None:
        return self._one("deliveries", f"{source_id}/{delivery_id}", Delivery)

    def deliveries(self) -> Iterator[Delivery]:
        return self._many("deliveries", Delivery)

    def checkpoint(self, uri: str) -> Checkpoint | None:
        return self._one("checkpoints", uri, Checkpoint)

    def inline_object(self, name: str) -> bytes | None:
        return self.tables.get("objects", name)

    def inline_objects(self) -> Iterator[tuple[str, bytes]]:
        return self.tables.scan("objects")

    def close(self) -> None:
        self.tables.close()


class Transaction:
    """Begins, checks the guards, and ends as one: all of the writes, or none."""

    __slots__ = ("_durable", "_lease", "_state", "_switches", "_tx")

    def __init__(self, state: StoredState, lease: Lease | None, durable: bool, switches: Sequence[str]) -> None:
        self._state = state
        self._lease = lease
        self._durable = durable
        self._switches = switches

    def __enter__(self) -> StoredTx:
        state = self._state
        state.tables.begin(self._durable)
        try:
            if self._lease is not None or self._switches:
                state.check(self._lease, self._switches)
        except BaseException:
            state.tables.rollback()
            raise
        self._tx = StoredTx(state, state.now_ms)
        return self._tx

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: object) -> None:
        state = self._state
        if problem is None:
            try:
                self._tx.flush()
            except BaseException:
                self._undo()
                raise
            state.tables.commit()
        else:
            self._undo()

    def _undo(self) -> None:
        self._state.recheck("leases", "refs")
        self._state.tables.rollback()


class StoredTx:
    """The writes of one transaction."""

    def __init__(self, state: StoredState, now_ms: Callable[[], int]) -> None:
        self._state = state
        self._tables = state.tables
        self._put = state.tables.put
        self._now_ms = now_ms
        self._counters: dict[str, int] | None = None

    def _next(self, counter: str) -> int:
        counters = self._counters
        if counters is None:
            counters = self._counters = self._state.counters()
        counters[counter] = value = counters.get(counter, 0) + 1
        return value

    def flush(self) -> None:
        if self._counters is not None:
            self._put("meta", "counters", _encode(self._counters))

    def touch(self) -> None:
        self._put("meta", "synced", b"")

    # -- runs

    def claim(self, run: Run) -> None:
        """Compare-and-swap: this run becomes the latest of its claim, or Conflict if another did."""
        latest = self._state.claimed(run.claim_key)
        expected = run.n - 1
        if (latest.n if latest else -1) != expected or (latest is not None and latest.status == "RUNNING"):
            raise Conflict("another worker claimed the same work", hint="look again", run_id=run.run_id)
        self._put("claims", run.claim_key, run.run_id.encode())
        self._put("open_runs", run.run_id, b"{}")
        self.save_run(run)

    def save_run(self, run: Run) -> None:
        if run.status != "RUNNING":
            self._tables.delete("open_runs", run.run_id)
        self._put("runs", run.run_id, _exact(run))

    def segment(self, run_id: str, segment: Segment) -> str:
        """Append to a run's journal; returns the digest the next segment must name. Write once: the same bytes
        again are the same segment, and other bytes under its number are corruption."""
        body, key = _exact(segment), f"{run_id}/{segment.n:08d}"
        before = self._tables.get("segments", key)
        if before is None:
            self._put("segments", key, body)
        elif before != body:
            raise _other_bytes(run_id, segment.n)
        return digest(body)

    def archive(self, run_id: str, place: bytes, keys: Iterable[str]) -> None:
        """The journal of an ended run lies elsewhere now; its rows go."""
        self._put("archived", run_id, place)
        for key in keys:
            self._tables.delete("segments", key)

    def plan_chunk(self, plan_hash: str, n: int, body: bytes) -> None:
        self._put("plans", f"{plan_hash}/{n:08d}", body)

    def lock_plan(self, lock_key: str, plan_hash: str) -> None:
        self._put("plan_locks", lock_key, plan_hash.encode())

    def unlock_plan(self, lock_key: str) -> None:
        self._tables.delete("plan_locks", lock_key)

    def objects(self, rows: Iterable[tuple[str, bytes]]) -> None:
        rows = sorted(rows)  # in the order of the table: neighbours share pages
        if len(rows) == 1:
            self._put("objects", *rows[0])
        else:
            self._tables.put_many("objects", rows)

    # -- leases

    def acquire(self, scope: str, holder: str, ttl_ms: int) -> Lease:
        now = self._now_ms()
        current = self._state.lease(scope)
        if current is not None and is_held(current, now):
            left = current.expires_ms - now
            seconds = (min(left, current.ttl_ms or left) + 999) // 1000
            updater, _, dataset = scope.partition("/")
            work = dataset if updater == dataset else scope  # most updaters are named for their dataset
            raise Busy(
                f"another worker is at work on {work} (its lease runs {seconds} s more)",
                hint="wait for it, or stop it and try again",
            )
        self._state.recheck("leases")
        lease = Lease(scope=scope, token=self._next("token"), holder=holder, expires_ms=now + ttl_ms, ttl_ms=ttl_ms)
        self._put("leases", scope, _exact(lease))
        return lease

    def renew(self, lease: Lease, ttl_ms: int) -> None:
        """Inside a fenced transaction only, so the token is known to be current. What was given back stays so."""
        current = self._state.lease(lease.scope)
        if current is not None and current.expires_ms:
            renewed = msgspec.structs.replace(current, expires_ms=self._now_ms() + ttl_ms, ttl_ms=ttl_ms)
            self._put("leases", lease.scope, _exact(renewed))

    def release(self, lease: Lease) -> None:
        self._state.recheck("leases")
        current = self._state.lease(lease.scope)
        if current is not None and current.token == lease.token:
            self._put("leases", lease.scope, _exact(msgspec.structs.replace(current, expires_ms=0)))

    # -- the commit

    def move(self, move: RefMove, *, run_id: str, op: str, actor: str, reason: str, ts: str) -> None:
        """Compare-and-swap of a ref, with its history."""
        self._state.recheck("refs")
        current = self._state.ref(move.ref)
        if current != move.before:
            raise Moved(
                f"{move.ref} is at {current or 'nothing'}, not at {move.before or 'nothing'} as planned",
                hint="someone else moved it: run the command again",
            )
        if move.after:
            self._put("refs", move.ref, move.after.encode())
        else:
            self._tables.delete("refs", move.ref)
        last = next(self._tables.scan("history", move.ref + "@", reverse=True, limit=1), None)
        n = int(last[0].rpartition("@")[2]) + 1 if last else 1
        entry = RefEntry(
            ref=move.ref,
            n=n,
            before=move.before,
            after=move.after,
            run_id=run_id,
            op=op,
            actor=actor,
            reason=reason,
            ts=ts,
        )
        self._put("history", f"{move.ref}@{n:010d}", _exact(entry))

    def version(self, version: DatasetVersion) -> None:
        """The first maker of a version stays its maker; a later one brings what it was held against up to date."""
        if (first := self._state.dataset_version(version.dataset, version.digest)) is not None:
            version = msgspec.structs.replace(first, validation=version.validation, validated_by=version.run_id)
        self._put("versions", f"{version.dataset}@{version.digest}", _exact(version))

    def receipt(self, receipt: Receipt, *, op: str) -> None:
        """Write once, together with its ledger entry. The same bytes again are the same receipt."""
        body = _exact(receipt)
        before = self._tables.get("receipts", receipt.run_id)
        if before is not None:
            if before == body:
                return
            what = f"run {receipt.run_id} already has another receipt"
            raise Corrupt(what, hint="receipts are never rewritten; report this")
        self._put("receipts", receipt.run_id, body)
        index = self._next("ledger")
        entry = LedgerEntry(
            index=index,
            prev=self._state.meta("ledger_head") or GENESIS,
            op_type=op,
            run_id=receipt.run_id,
            wal_ids=[receipt.run_id] if receipt.plan_hash else [],
            dataset=receipt.dataset,
            outcome=receipt.outcome,
            reason=receipt.reason,
            operator=receipt.actor,
            receipt_digest=digest(body),
            moves=receipt.moves,
            ts=receipt.finished_at,
            overrides=receipt.overrides,
        )
        link = _exact(entry)
        self._put("ledger", f"{index:012d}", link)
        self._put("meta", "ledger_head", digest(link).encode())

    def next_index(self) -> int:
        if self._counters is None:
            self._counters = self._state.counters()
        return self._counters.get("ledger", 0) + 1

    def telemetry(self, telemetry: RunTelemetry) -> None:
        self._put("telemetry", telemetry.run_id, _exact(telemetry))

    # -- outbox, inbox, checkpoints

    def advance(self, sink: str, index: int) -> None:
        if index > self._state.cursor(sink):
            self._put("meta", f"cursor/{sink}", b"%d" % index)

    def owe(self, sink: str, dataset: str) -> None:
        self._put("outbox", f"due/{sink}/{dataset}", b"{}")

    def told(self, told: Told, sink: str, dataset: str) -> None:
        """Only ever forward. Due stays what has moved on, or was told by one who knew less."""
        known = self._state.told(sink, dataset)
        if known is None or known.moves < told.moves or (known.moves == told.moves and known != told):
            self._put("outbox", f"told/{sink}/{dataset}", _exact(told))
        last = next(self._state.history(f"published/{dataset}", reverse=True, limit=1), None)
        if last is None or last.n <= told.moves:
            self._tables.delete("outbox", f"due/{sink}/{dataset}")

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self._put("checkpoints", checkpoint.uri, _exact(checkpoint))

    def keep_trigger(self, trigger: Trigger) -> Trigger:
        """Into the inbox, with an id if it has none; kept until a run of it ends."""
        if not trigger.trigger_id:
            trigger = msgspec.structs.replace(trigger, trigger_id=f"{self._next('trigger'):012d}")
        self._put("inbox", trigger.trigger_id, _exact(trigger))
        return trigger

    def finish_trigger(self, trigger_id: str, run_id: str) -> None:
        """Out of the inbox: this run answered it."""
        trigger = self._state.kept_trigger(trigger_id) if trigger_id else None
        if trigger is not None:
            self._tables.delete("inbox", trigger_id)
            self._put("triggers", trigger_id, _exact(EndedTrigger(trigger=trigger, run_id=run_id)))

    def take_delivery(self, delivery: Delivery) -> None:
        self._put("deliveries", f"{delivery.source_id}/{delivery.delivery_id}", _exact(delivery))

    def forget_delivery(self, delivery: Delivery) -> None:
        self._tables.delete("deliveries", f"{delivery.source_id}/{delivery.delivery_id}")
