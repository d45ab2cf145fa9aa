"""The ports: what the engine asks of the world, at the height of intent.

Each has several implementations behind one contract suite; a dry run is the same engine
over ports that hold nothing writable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Protocol

from kfm.model.lineage_edges import Edge, Use
from kfm.model.outbox_messages import DeadLetter, Letter, Stopped
from kfm.model.records import (
    Checkpoint,
    DatasetVersion,
    Delivery,
    Difference,
    Effect,
    EndedTrigger,
    Fetched,
    FetchRequest,
    Governed,
    Lease,
    LedgerEntry,
    Receipt,
    RefEntry,
    RefMove,
    Run,
    RunTelemetry,
    Segment,
    Standing,
    Told,
    Trigger,
)
from kfm.model.schedules import Tick

INLINE_MAX = 64 * 1024  # objects up to this size live in the state and share its commit


class Tables(Protocol):
    """Sorted byte maps with one transaction: the little a backend must know.

    Everything that has a meaning (claims, fencing, write-once) is written once above it,
    in store/state.py, and is therefore the same over every backend.
    """

    def get(self, table: str, key: str) -> bytes | None: ...

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]: ...

    def reading(self) -> AbstractContextManager[object]:
        """Around several reads that belong together, and no transaction: a backend may answer all from one look."""

    def begin(self, durable: bool = True) -> None:
        """Take the write lock; Busy if another process keeps it.

        durable: after `commit` these writes and all earlier ones survive a power cut. Otherwise they
        are visible at once and become durable with the next durable commit.
        """

    def put(self, table: str, key: str, value: bytes) -> None: ...

    def add(self, table: str, key: str, value: bytes) -> bool:
        """Write a row unless there is one of this key; False if there is."""

    def put_many(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None: ...

    def delete(self, table: str, key: str) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def foreign(self) -> int:
        """Inside a transaction: a number that has changed if another process or connection has written."""

    def close(self) -> None: ...


class Lock(Protocol):
    """Taken by one holder at a time, among all processes; given back by the system when the holder dies."""

    def take(self) -> bool:
        """False if another keeps it: nobody waits here. OSError if the place does not let us."""

    def release(self) -> None: ...

    def close(self) -> None:
        """Gives it back, and forgets the file until it is taken again."""


class Refs(Protocol):
    """What is current, and the history of every move."""

    def at(self, name: str) -> str: ...

    def all(self, prefix: str = "") -> Iterator[tuple[str, str]]: ...

    def history(self, name: str, *, reverse: bool = False, limit: int = -1) -> Iterator[RefEntry]: ...

    def histories(self, prefix: str = "") -> Iterator[RefEntry]: ...


class RefsTx(Refs, Protocol):
    def move(self, move: RefMove, *, run_id: str, op: str, actor: str, reason: str, ts: str) -> None: ...


class Journal(Protocol):
    """The journals of runs and their plans."""

    def segments(self, run_id: str) -> Iterator[tuple[Segment, str]]:
        """In order, each with its digest; Corrupt where the chain does not hold."""

    def plan_chunks(self, plan_hash: str) -> Iterator[bytes]: ...

    def locked_plan(self, lock_key: str) -> str | None: ...


class JournalTx(Journal, Protocol):
    def append(self, run_id: str, segment: Segment) -> str: ...

    def plan_chunk(self, plan_hash: str, n: int, body: bytes) -> None: ...

    def lock_plan(self, lock_key: str, plan_hash: str) -> None: ...

    def unlock_plan(self, lock_key: str) -> None: ...


class Notary(Protocol):
    """Signs heads of the ledger, in the transaction that appends to it."""

    @property
    def every(self) -> int:
        """So many entries without a signed head above them make one due."""

    def sign(self, size: int, root: bytes) -> str:
        """A signed note. Raises where it may not or cannot be signed: then nothing is appended."""


class Ledger(Protocol):
    """A receipt for every run, chained; its telemetry; the versions it made."""

    def version(self, dataset: str, version: str) -> DatasetVersion | None: ...

    def receipt(self, run_id: str) -> Receipt | None: ...

    def receipt_body(self, run_id: str) -> bytes | None:
        """The receipt as it was stored, which its ledger entry vouches for: an older one has fewer fields."""

    def telemetry(self, run_id: str) -> RunTelemetry | None: ...

    def entries(self, *, after: int = 0, reverse: bool = False, limit: int = -1) -> Iterator[LedgerEntry]: ...

    def entry(self, index: int) -> LedgerEntry | None: ...

    def entries_of(self, dataset: str, *, before: int = 0) -> Iterator[LedgerEntry]:
        """Of the runs of one dataset, the last that ended first, or the last before an index; nothing of the others is
        read."""

    def links(self, *, after: int = 0) -> Iterator[tuple[LedgerEntry, str]]:
        """Each entry with the digest of its stored bytes, which the next one names."""

    def head(self) -> str: ...

    def leaves(self, *, after: int = 0) -> Iterator[bytes]:
        """The entries to the byte, as the tree over them has them."""

    def checkpoints(self, *, after: int = 0) -> Iterator[tuple[int, str]]:
        """The signed heads with their sizes, the smallest first."""

    def attestations(self, version: str) -> Iterator[tuple[str, bytes]]:
        """What was signed about a version, given as the dataset, @ and its digest: the keys and the envelopes."""


class LedgerTx(Ledger, Protocol):
    def keep_version(self, version: DatasetVersion) -> None: ...

    def append(self, receipt: Receipt, *, op: str, governed: Governed | None = None, key: Any = None) -> None:
        """`key` is the custodian's, for what `governed` withholds."""

    def next_index(self) -> int:
        """The index the next ledger entry of this transaction will have."""

    def keep_telemetry(self, telemetry: RunTelemetry) -> None: ...

    def keep_attestation(self, key: str, envelope: bytes) -> None: ...

    def checkpoint(self) -> int: ...


class Lineage(Protocol):
    """The embedded graph: the way back from things to the runs that read or made them."""

    def users(self, address: str, digest: str = "") -> Iterator[Use]:
        """Runs that read this; without a digest, whatever was there."""

    def makers(self, dataset: str, version: str) -> Iterator[str]:
        """Every run that made this version, the first one first."""


class LineageTx(Lineage, Protocol):
    def keep(self, run_id: str, edges: Iterable[Edge]) -> None:
        """What the run that this transaction ends has read, by address and digest."""


class Inbox(Protocol):
    """What arrives: triggers, deliveries, what is known of each source."""

    def waiting(self, dataset: str = "") -> Iterator[Trigger]:
        """In the order in which they came; of one dataset, nothing of the others is read."""

    def kept(self, trigger: Trigger) -> Trigger | None:
        """As it lies in the inbox; None once a run of it has ended."""

    def ended(self, trigger_id: str) -> EndedTrigger | None: ...

    def all_ended(self, *, reverse: bool = False, limit: int = -1) -> Iterator[EndedTrigger]: ...

    def delivery(self, source_id: str, delivery_id: str) -> Delivery | None: ...

    def deliveries(self) -> Iterator[Delivery]: ...

    def is_empty(self) -> bool: ...

    def pruned_at(self) -> int:
        """When rows that are old were looked for last."""

    def dropped_until(self) -> int:
        """Ids of messages that were sent before this may have been dropped; 0: none was."""

    def checkpoint(self, uri: str) -> Checkpoint | None: ...


class InboxTx(Inbox, Protocol):
    def keep_checkpoint(self, checkpoint: Checkpoint) -> None: ...

    def keep(self, trigger: Trigger) -> Trigger: ...

    def finish(self, trigger: Trigger, run_id: str) -> None: ...

    def take_delivery(self, delivery: Delivery) -> None: ...

    def forget_delivery(self, delivery: Delivery) -> None: ...

    def forget_ended(self, ended: EndedTrigger) -> None: ...

    def note_dropped(self, until_ms: int) -> None: ...

    def note_pruned(self, now_ms: int) -> None: ...


class Outbox(Protocol):
    """How far each sink has followed the ledger, and what it has to tell."""

    def cursor(self, sink: str) -> int:
        """The index of the last ledger entry that this sink has followed."""

    def due(self, sink: str) -> Iterator[str]:
        """The datasets of which it has something to tell, by name."""

    def told(self, sink: str, dataset: str) -> Told | None: ...

    def acknowledge(self, sink: str, told: Mapping[str, Told]) -> None:
        """So much was told of these datasets. One that has moved on meanwhile stays due."""

    def stopped(self, sink: str) -> Stopped | None:
        """Why it does not go on; None: it does."""

    def dead(self, sink: str) -> Iterator[DeadLetter]:
        """What it will not be told of, the oldest first."""

    def note(self, sink: str, of: str) -> bytes | None:
        """What a sink's follower keeps for itself."""

    def notes(self, sink: str) -> Iterator[tuple[str, bytes]]: ...

    def waiting(self, sink: str) -> Iterator[int]:
        """The entries of the ledger that wait for a thaw, by index."""


class OutboxTx(Outbox, Protocol):
    def advance(self, sink: str, index: int) -> None:
        """The sink has followed the ledger up to here. Only ever forward: a slow process undoes nothing."""

    def owe(self, sink: str, dataset: str) -> None:
        """The sink has something to tell of this dataset."""

    def keep_told(self, told: Told, sink: str, dataset: str) -> None:
        """Only ever forward."""

    def keep_note(self, sink: str, of: str, body: bytes) -> None: ...

    def forget_notes(self, sink: str) -> None: ...

    def note_stopped(self, sink: str, stopped: Stopped | None) -> None: ...

    def bury(self, sink: str, letter: DeadLetter) -> None: ...

    def wait(self, sink: str, index: int) -> None: ...

    def clear(self, sink: str, index: int) -> None:
        """This entry neither waits nor is dead any more: it was told."""


class Orders(Protocol):
    """What one person alone may not do, each as it stands now."""

    def all(self) -> Iterator[tuple[str, bytes]]:
        """The digest of each request, and the order."""


class OrdersTx(Orders, Protocol):
    def keep(self, request: str, body: bytes) -> None: ...


class Ticks(Protocol):
    """The instants of schedules that were claimed."""

    def last(self, schedule_id: str) -> Tick | None: ...

    def of(self, schedule_id: str, *, limit: int = -1) -> Iterator[Tick]:
        """Newest first."""

    def newest(self) -> Tick | None:
        """Claimed last, of all there are."""


class TicksTx(Ticks, Protocol):
    def keep(self, tick: Tick, *, forget_before_ms: int) -> None: ...


class Leases(Protocol):
    """Who is at work on what."""

    def acquire(self, scope: str, holder: str, ttl_ms: int) -> Lease: ...

    def release(self, lease: Lease) -> None: ...

    def of(self, scope: str) -> Lease | None: ...

    def below(self, scope: str) -> Iterator[Lease]:
        """Of everything whose name begins with it and a slash, given back or not."""


class LeasesTx(Leases, Protocol):
    def acquire(self, scope: str, holder: str, ttl_ms: int) -> Lease: ...

    def renew(self, lease: Lease, ttl_ms: int) -> None: ...

    def release(self, lease: Lease) -> None: ...

    def forget(self, lease: Lease) -> None:
        """As if it had never been: whoever believes to hold it is fenced off."""

    def check(self, lease: Lease) -> None:
        """Fenced if it was taken over."""


class Runs(Protocol):
    """Runs: claimed, unfinished, ended."""

    def get(self, run_id: str) -> Run | None: ...

    def unfinished(self, dataset: str = "") -> Iterator[Run]:
        """Claimed and not ended; of one dataset, nothing of the others is read."""

    def claimed(self, claim_key: str) -> Run | None: ...

    def ids(self, beginning: str) -> Iterator[str]:
        """Of all runs that were claimed or have a receipt, those that begin so; of some, twice."""


class RunsTx(Runs, Protocol):
    def claim(self, run: Run) -> None: ...

    def save(self, run: Run) -> None: ...


class Protected(Protocol):
    """What is known of protected data, whatever a file of labels says later."""

    def is_empty(self) -> bool: ...

    def standing(self, of: str) -> Standing | None: ...

    def keys_of_bytes(self) -> list[str]: ...

    def first_cells(self, key_id: str) -> dict[str, str]: ...

    def fingerprints(self) -> Iterator[tuple[str, bytes]]: ...


class ProtectedTx(Protected, Protocol):
    def keep_standing(self, of: str, standing: Standing) -> None: ...

    def keep_first_cells(self, key_id: str, cells: Mapping[str, str]) -> None: ...

    def keep_fingerprints(self, key_id: str, source: str, body: bytes) -> None: ...

    def lower(self, of: str, known: Standing, stands: Standing | None) -> None: ...

    def forget_fingerprints(self, key_id: str, source: str) -> None: ...


class Tx(Protocol):
    """Writes of one transaction. All or nothing; refused as a whole when the lease is stale."""

    @property
    def refs(self) -> RefsTx: ...

    @property
    def journal(self) -> JournalTx: ...

    @property
    def ledger(self) -> LedgerTx: ...

    @property
    def lineage(self) -> LineageTx: ...

    @property
    def inbox(self) -> InboxTx: ...

    @property
    def orders(self) -> OrdersTx: ...

    @property
    def outbox(self) -> OutboxTx: ...

    @property
    def leases(self) -> LeasesTx: ...

    @property
    def runs(self) -> RunsTx: ...

    @property
    def protected(self) -> ProtectedTx: ...

    @property
    def ticks(self) -> TicksTx: ...

    def objects(self, rows: Iterable[tuple[str, bytes]]) -> None: ...

    def touch(self) -> None:
        """Write something, so that the commit is one."""


class State(Protocol):
    """What must not be lost: one port, one transaction."""

    @property
    def refs(self) -> Refs: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def lineage(self) -> Lineage: ...

    @property
    def inbox(self) -> Inbox: ...

    @property
    def orders(self) -> Orders: ...

    @property
    def outbox(self) -> Outbox: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def runs(self) -> Runs: ...

    @property
    def protected(self) -> Protected: ...

    @property
    def ticks(self) -> Ticks: ...

    def transaction(
        self, lease: Lease | None = None, *, durable: bool = True, switches: Sequence[str] = ()
    ) -> AbstractContextManager[Tx]:
        """All or nothing. With a lease: refused (Fenced) if it was taken over. With switches: Frozen if one is set."""

    def reading(self) -> AbstractContextManager[object]:
        """Around reads that belong together: cheaper, and no transaction may begin inside."""

    def sync(self) -> None:
        """Make every commit so far durable."""

    def inline_object(self, name: str) -> bytes | None: ...

    def inline_objects(self) -> Iterator[tuple[str, bytes]]: ...

    def close(self) -> None: ...


class Objects(Protocol):
    """Immutable bytes by digest. Small ones live in the state, large ones in files."""

    def put(self, body: bytes) -> str:
        """Store durably and return `sha256:<hex>`."""

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        """Store durably without holding it in memory; returns digest and size."""

    def stage(self) -> Staging: ...

    def read(self, digest: str) -> bytes:
        """All bytes, checked against the digest; Corrupt if they differ."""

    def open(self, digest: str) -> BinaryIO: ...

    def size(self, digest: str) -> int: ...

    def has(self, digest: str) -> bool: ...


class Staging(Protocol):
    """A stream on its way into the store: harmless until `commit`, gone after `abort`."""

    def write(self, chunk: bytes) -> None: ...

    def commit(self) -> tuple[str, int]: ...

    def abort(self) -> None: ...


class Source(Protocol):
    """Reads one kind of outside (http, file) into the object store, within limits."""

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched: ...


class Outside(Protocol):
    """What was published, to be looked at."""

    def datasets(self) -> list[str]:
        """Of which anything is there, as far as that can be told."""

    def differences(self, dataset: str, expected: Mapping[str, str], gone: Sequence[str]) -> list[Difference]:
        """What is not as expected, by path and digest; `gone` are folders that should not be there."""


class Publisher(Outside, Protocol):
    """The only way anything outside changes. A noop publisher keeps the same trace."""

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        """`body` is read only if there is something to write, in the turn in which it is written."""

    def remove_file(self, path: str, key: str, check: Callable[[], None]) -> None:
        """One that is gone already is no error. `check` is asked in the turn in which it is removed."""

    def remove_rest(self, folder: str, check: Callable[[], None]) -> None:
        """Whatever still lies in the folder of a version whose files were removed, and the folder itself."""

    def emit_event(self, event: dict[str, Any], key: str) -> None: ...

    def update_metadata(self, target: str, value: dict[str, Any], key: str) -> None: ...

    def publish_release(self, name: str, files: list[str], key: str) -> None: ...

    def noop_guard(self) -> bool:
        """True if this publisher changes nothing."""

    @property
    def trace(self) -> list[Effect]: ...


class Sink(Protocol):
    """A place that is told of runs: a catalog, a graph, somebody who takes events. It knows nothing of the ledger."""

    @property
    def name(self) -> str: ...

    def send(self, letters: Sequence[Letter]) -> None:
        """Make all of it so, or raise: then any part may have been, and all of it comes again.

        Refused: it will never take one of these. Anything else: it may take them later.
        """


class Log(Protocol):
    """One line per fact. What is bound once is on every line after."""

    def event(self, name: str, **fields: object) -> None: ...

    def bind(self, **fields: object) -> Log: ...
