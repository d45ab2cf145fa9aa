"""The ports: what the engine needs from storage, sources and publishers, in the engine's terms.

Each port has several implementations that pass one contract suite. The ports of a dry run cannot write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from kfm.model.lineage_edges import Edge, Use
from kfm.model.outbox_messages import Letter
from kfm.model.outbox_messages import Outbox as Outbox
from kfm.model.outbox_messages import OutboxTx as OutboxTx
from kfm.model.records import (
    Checkpoint,
    Classification,
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
    Trigger,
)

if TYPE_CHECKING:
    from kfm.model.jobs.job_ports import Bell as Bell
    from kfm.model.jobs.job_ports import Jobs as Jobs
    from kfm.model.jobs.job_ports import JobsTx as JobsTx
    from kfm.model.retries.retry_records import Breakers, BreakersTx, Budgets, BudgetsTx
    from kfm.model.schedules import Ticks, TicksTx

INLINE_MAX = 64 * 1024  # objects up to this size are stored in the state and commit with it


class Tables(Protocol):
    """Sorted tables of bytes with one transaction: all that a backend must implement.

    store/state.py builds claims, fencing and write-once rules on it once, so that they are the same over every backend.
    """

    def get(self, table: str, key: str) -> bytes | None: ...

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]: ...

    def reading(self) -> AbstractContextManager[object]:
        """A context for reads that belong together, perhaps of one snapshot. No transaction may begin inside."""

    def begin(self, durable: bool = True) -> None:
        """Take the write lock. Raise Busy if another process keeps it. After a durable `commit` these writes and all
        earlier ones survive a power cut. Others are visible at once, and durable with the next durable commit."""

    def put(self, table: str, key: str, value: bytes) -> None: ...

    def add(self, table: str, key: str, value: bytes) -> bool:
        """Write a row unless the key has one; return False if it has."""

    def put_many(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None: ...

    def delete(self, table: str, key: str) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def foreign(self) -> int:
        """Inside a transaction: return a number that changes whenever another process or connection writes."""

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock that one holder among all processes has at a time; the system releases it when the holder dies."""

    def take(self) -> bool:
        """Take the lock; return False at once if another holder has it. Raise OSError if the file cannot be opened."""

    def is_held(self, tx: Tx) -> bool:
        """Return whether the lock that was taken is still this holder's: a lease may have run out."""

    def release(self) -> None: ...

    def close(self) -> None:
        """Release the lock, and close the file until it is taken again."""


class Refs(Protocol):
    """The current value of every ref, and the history of its moves."""

    def at(self, name: str) -> str: ...

    def all(self, prefix: str = "") -> Iterator[tuple[str, str]]: ...

    def history(self, name: str, *, reverse: bool = False, limit: int = -1) -> Iterator[RefEntry]: ...

    def histories(self, prefix: str = "") -> Iterator[RefEntry]: ...


class RefsTx(Refs, Protocol):
    def move(self, move: RefMove, *, run_id: str, op: str, actor: str, reason: str, ts: str) -> None: ...


class Journal(Protocol):
    """The journals of runs, and their plans."""

    def segments(self, run_id: str) -> Iterator[tuple[Segment, str]]:
        """Yield the segments in order, each with its digest. Raise Corrupt if the chain is broken."""

    def plan_chunks(self, plan_hash: str) -> Iterator[bytes]: ...

    def locked_plan(self, lock_key: str) -> str | None: ...


class JournalTx(Journal, Protocol):
    def append(self, run_id: str, segment: Segment) -> str: ...

    def plan_chunk(self, plan_hash: str, n: int, body: bytes) -> None: ...

    def lock_plan(self, lock_key: str, plan_hash: str) -> None: ...

    def unlock_plan(self, lock_key: str) -> None: ...


class Notary(Protocol):
    """Signs heads of the ledger in the transaction that appends to it."""

    @property
    def every(self) -> int:
        """The number of entries after which the ledger needs a new signed head."""

    def sign(self, size: int, root: bytes) -> str:
        """Return a signed note about the ledger's head. Raise if it cannot be signed: then nothing is appended."""


class Ledger(Protocol):
    """The receipts of all runs as a hash chain, with their telemetry and the versions they made."""

    def version(self, dataset: str, version: str) -> DatasetVersion | None: ...

    def receipt(self, run_id: str) -> Receipt | None: ...

    def receipt_body(self, run_id: str) -> bytes | None:
        """Return the receipt as stored; the ledger entry holds its digest. An older receipt has fewer fields."""

    def telemetry(self, run_id: str) -> RunTelemetry | None: ...

    def entries(self, *, after: int = 0, reverse: bool = False, limit: int = -1) -> Iterator[LedgerEntry]: ...

    def entry(self, index: int) -> LedgerEntry | None: ...

    def entries_of(self, dataset: str, *, before: int = 0) -> Iterator[LedgerEntry]:
        """Yield the entries of one dataset's runs, newest first, or those before an index; others are not read."""

    def links(self, *, after: int = 0) -> Iterator[tuple[LedgerEntry, str]]:
        """Yield each entry with the digest of its stored bytes, which the next entry names."""

    def head(self) -> str: ...

    def leaves(self, *, after: int = 0) -> Iterator[bytes]:
        """Yield the stored bytes of each entry, which are the leaves of the Merkle tree."""

    def checkpoints(self, *, after: int = 0) -> Iterator[tuple[int, str]]:
        """Yield the signed heads with their sizes, the smallest first."""

    def attestations(self, version: str) -> Iterator[tuple[str, bytes]]:
        """Yield the key and envelope of each attestation of a version, which is named by dataset, @ and digest."""

    def signed_lists(self, version: str, *, before: int = 0) -> Iterator[tuple[str, bytes]]: ...


class LedgerTx(Ledger, Protocol):
    def keep_version(self, version: DatasetVersion) -> None: ...

    def append(self, receipt: Receipt, *, op: str, governed: Governed | None = None, key: Any = None) -> None:
        """Append a receipt. `key` is the custodian's key; it encrypts the fields that `governed` withholds."""

    def next_index(self) -> int:
        """Return the index that the next ledger entry of this transaction will have."""

    def keep_telemetry(self, telemetry: RunTelemetry) -> None: ...

    def keep_attestation(self, key: str, envelope: bytes) -> None: ...

    def checkpoint(self) -> int: ...


class Lineage(Protocol):
    """The embedded graph: from data back to the runs that read or made it."""

    def users(self, address: str, digest: str = "") -> Iterator[Use]:
        """Yield the runs that read this address; with a digest, only those that read these bytes."""

    def makers(self, dataset: str, version: str) -> Iterator[str]:
        """Yield every run that made this version, the first one first."""


class LineageTx(Lineage, Protocol):
    def keep(self, run_id: str, edges: Iterable[Edge]) -> None:
        """Store the inputs of the run that this transaction ends, by address and digest."""


class Inbox(Protocol):
    """Incoming triggers and deliveries, and the last fetch of each source."""

    def waiting(self, dataset: str = "") -> Iterator[Trigger]:
        """Yield the waiting triggers in order of arrival; for one dataset, the others are not read."""

    def kept(self, trigger: Trigger) -> Trigger | None:
        """Return the trigger as stored in the inbox; None once a run of it has ended."""

    def ended(self, trigger_id: str) -> EndedTrigger | None: ...

    def all_ended(self, *, reverse: bool = False, limit: int = -1) -> Iterator[EndedTrigger]: ...

    def delivery(self, source_id: str, delivery_id: str) -> Delivery | None: ...

    def deliveries(self) -> Iterator[Delivery]: ...

    def is_empty(self) -> bool: ...

    def pruned_at(self) -> int:
        """Return when old triggers and deliveries were last removed."""

    def dropped_until(self) -> int:
        """Return the time before which ids of deliveries may have been dropped; 0: none was dropped."""

    def checkpoint(self, uri: str) -> Checkpoint | None: ...


class InboxTx(Inbox, Protocol):
    def keep_checkpoint(self, checkpoint: Checkpoint) -> None: ...

    def keep(self, trigger: Trigger) -> Trigger: ...

    def finish(self, trigger: Trigger, run_id: str) -> None: ...

    def withdraw(self, trigger: Trigger) -> None: ...

    def take_delivery(self, delivery: Delivery) -> None: ...

    def forget_delivery(self, delivery: Delivery) -> None: ...

    def forget_ended(self, ended: EndedTrigger) -> None: ...

    def note_dropped(self, until_ms: int) -> None: ...

    def note_pruned(self, now_ms: int) -> None: ...


class Orders(Protocol):
    """The change requests, each with its current approvals: actions that one person alone may not take."""

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Yield the digest of each request, and the stored change request."""


class OrdersTx(Orders, Protocol):
    def keep(self, request: str, body: bytes) -> None: ...


class Leases(Protocol):
    """Which worker works on which scope."""

    def acquire(self, scope: str, holder: str, ttl_ms: int) -> Lease: ...

    def release(self, lease: Lease) -> None: ...

    def of(self, scope: str) -> Lease | None: ...

    def below(self, scope: str) -> Iterator[Lease]:
        """Yield the leases of all scopes below this one, released or not."""


class LeasesTx(Leases, Protocol):
    def acquire(self, scope: str, holder: str, ttl_ms: int) -> Lease: ...

    def renew(self, lease: Lease, ttl_ms: int) -> None: ...

    def release(self, lease: Lease) -> None: ...

    def forget(self, lease: Lease) -> None:
        """Delete the lease: a worker that still believes it has it is fenced off."""

    def check(self, lease: Lease) -> None:
        """Raise Fenced if another worker took over the lease."""


class Runs(Protocol):
    """The runs: claimed, unfinished and ended."""

    def get(self, run_id: str) -> Run | None: ...

    def unfinished(self, dataset: str = "") -> Iterator[Run]:
        """Yield the runs that were claimed and have not ended; for one dataset, the others are not read."""

    def claimed(self, claim_key: str) -> Run | None: ...

    def ids(self, beginning: str) -> Iterator[str]:
        """Yield the ids with this beginning, of all runs that were claimed or have a receipt; some occur twice."""


class RunsTx(Runs, Protocol):
    def claim(self, run: Run) -> None: ...

    def save(self, run: Run) -> None: ...


class Protected(Protocol):
    """What is known of protected data; it stays in force whatever the label file says later."""

    def is_empty(self) -> bool: ...

    def standing(self, of: str) -> Classification | None: ...

    def keys_of_bytes(self) -> list[str]: ...

    def sources(self) -> list[str]: ...

    def first_cells(self, key_id: str) -> dict[str, str]: ...

    def fingerprints(self) -> Iterator[tuple[str, bytes]]: ...


class ProtectedTx(Protected, Protocol):
    def keep_standing(self, of: str, standing: Classification) -> None: ...

    def keep_first_cells(self, key_id: str, cells: Mapping[str, str]) -> None: ...

    def keep_fingerprints(self, key_id: str, source: str, body: bytes) -> None: ...

    def lower(self, of: str, known: Classification, stands: Classification | None) -> None: ...

    def forget_fingerprints(self, key_id: str, source: str) -> None: ...

    def forget_unjudged(self, digest: str, under: str) -> None: ...


class Tx(Protocol):
    """The writes of one transaction: all or nothing, and refused as a whole if the lease is stale."""

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

    @property
    def breakers(self) -> BreakersTx: ...

    @property
    def budgets(self) -> BudgetsTx: ...

    @property
    def jobs(self) -> JobsTx: ...

    def objects(self, rows: Iterable[tuple[str, bytes]]) -> None: ...

    def touch(self) -> None:
        """Write a row, so that a transaction without other writes is durable too."""


class State(Protocol):
    """The durable state: one port with one transaction."""

    def now_ms(self) -> int:
        """Return the time by which leases end: that of the server if the state is on one, else this machine's."""

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

    @property
    def breakers(self) -> Breakers: ...

    @property
    def budgets(self) -> Budgets: ...

    @property
    def jobs(self) -> Jobs: ...

    def has_jobs(self) -> bool: ...

    def transaction(
        self, lease: Lease | None = None, *, durable: bool = True, switches: Sequence[str] = ()
    ) -> AbstractContextManager[Tx]:
        """Begin a transaction: all or nothing. Raise Fenced if the lease was taken over, and Frozen if one of the
        freeze flags `switches` is set."""

    def reading(self) -> AbstractContextManager[object]:
        """A context in which several reads cost less than one by one. No transaction may begin inside."""

    def sync(self) -> None:
        """Make all commits so far durable."""

    def check_home(self) -> None: ...  # Refused if objects or published files were moved since the session was opened

    def inline_object(self, name: str) -> bytes | None: ...

    def inline_objects(self) -> Iterator[tuple[str, bytes]]: ...

    def close(self) -> None: ...


class Objects(Protocol):
    """Immutable bytes by digest. Small objects are in the state, large ones in files."""

    def put(self, body: bytes) -> str:
        """Store the bytes durably and return `sha256:<hex>`."""

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        """Store a stream durably without loading it into memory; return digest and size."""

    def stage(self) -> Staging: ...

    def read(self, digest: str) -> bytes:
        """Return all bytes of an object. Raise Corrupt if they do not match the digest."""

    def open(self, digest: str) -> BinaryIO: ...

    def size(self, digest: str) -> int: ...

    def has(self, digest: str) -> bool: ...

    def is_damaged(self, digest: str, since_ms: int) -> bool:
        """Return whether an object is missing or has other bytes. A file that is older than `since_ms` is not read."""


class Staging(Protocol):
    """A stream on its way into the store: it has no effect before `commit` and is removed by `abort`."""

    def write(self, chunk: bytes) -> None: ...

    def commit(self) -> tuple[str, int]: ...

    def abort(self) -> None: ...


class Source(Protocol):
    """Fetches one kind of source (http, file) into the object store, within limits."""

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched: ...


class Outside(Protocol):
    """Reads the published files, to compare them with the refs."""

    def datasets(self) -> list[str]:
        """Return the datasets with published files, as far as they can be recognised."""

    def digest_of_file(self, path: str) -> str | None:
        """Return the digest of a receipt, checkpoint or other exported file; empty if unreadable, None if absent."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the exported files in a folder."""

    def differences(self, dataset: str, expected: Mapping[str, str], gone: Sequence[str]) -> list[Difference]:
        """Return the differences from the expected paths and digests; the folders in `gone` must not exist."""


class PublicFile(NamedTuple):
    """A file to publish. `body` is read only if the file must be written."""

    path: str
    digest: str
    size: int
    key: str
    body: Iterable[bytes]


class Publisher(Outside, Protocol):
    """The only way to change anything outside. A noop publisher records the same trace."""

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        """Write a file. `body` is read, under the publisher's lock, only if the file must be written."""

    def write_files(self, folder: str, files: Iterable[PublicFile], check: Callable[[], None]) -> None:
        """Write files; all are durable when this returns. Unfinished ones are below `folder`. `check` is called under
        the publisher's lock before files get their names."""

    def remove_file(self, path: str, key: str, check: Callable[[], None]) -> None:
        """Remove a file; a missing file is no error. `check` is called before, under the publisher's lock."""

    def remove_rest(self, folder: str, check: Callable[[], None]) -> None:
        """Remove everything left in the folder of a version whose files were removed, and the folder itself."""

    def has_file(self, path: str, digest: str) -> bool:
        """Return whether a file with these bytes is there."""

    def sync_removed(self, check: Callable[[], None]) -> None:
        """Make removals outside the folders of versions durable, with what an interrupted write left next to them."""

    @property
    def shares_files(self) -> bool:
        """Return whether versions can share files here. If not, each version has all its files."""

    def emit_event(self, event: dict[str, Any], key: str) -> None: ...

    def update_metadata(self, target: str, value: dict[str, Any], key: str) -> None: ...

    def publish_release(self, name: str, files: list[str], key: str) -> None: ...

    def noop_guard(self) -> bool:
        """Return True if this publisher changes nothing."""

    @property
    def trace(self) -> list[Effect]: ...


class Sink(Protocol):
    """A receiver of messages about runs: a catalog, a graph, an event endpoint. It knows nothing of the ledger."""

    @property
    def name(self) -> str: ...

    def send(self, letters: Sequence[Letter]) -> None:
        """Apply all messages, or raise: then some may have been applied, and all of them are sent again.

        Refused: the sink will never accept one of them. Any other error: it may accept them later.
        """


class Log(Protocol):
    """Writes one line per fact. Bound fields are on every later line."""

    def event(self, name: str, **fields: object) -> None: ...

    def bind(self, **fields: object) -> Log: ...
