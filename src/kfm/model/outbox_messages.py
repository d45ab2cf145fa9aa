"""The messages to a sink, what the state stores about a sink that follows the ledger, and the port for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from kfm.model import refs
from kfm.model.records import LedgerEntry, Record, RefMove, SinkPosition

PUBLIC = "publish"  # the sink that writes the public files
COUNTS = "counts"  # the name under which the outbox keeps counts of the ledger
NOTIFY = "notify."  # the start of the names of the receivers of notices
STATES = "states"  # the name under which the outbox keeps the states that notices are about
COUNTED_EVERY = 500  # entries of the ledger after which they are kept again


class Letter(Record, frozen=True):
    """One message to a sink. It may arrive twice or late: `index` decides which message is newer."""

    index: int  # of its ledger entry: an older message never overwrites a newer one; below 0: about no entry
    run_id: str
    dataset: str
    key: str  # the subject, the same in every repetition: a path or the id of a run
    body: Any  # the document in the sink's format; None: it was removed


class Stopped(Record, frozen=True):
    """Why a sink is stopped, and when it is tried again. A sink that works has no such record."""

    tries: int  # consecutive failures
    since: str  # when the first of them happened
    not_before: int  # ms since 1970
    code: str
    message: str


class DeadLetter(Record, frozen=True):
    """A run that a sink will not receive, because it refused the message or the message cannot be built. The content is
    not stored here; it is built again from the ledger."""

    index: int
    run_id: str
    dataset: str
    code: str
    message: str
    since: str
    tries: int


class Followed(Record, frozen=True):
    """A sink that has followed a run."""

    sink: str
    at: str  # when KFM recorded it


class PendingRun(Record, frozen=True):
    """A committed run that some sinks have not followed yet. The commit stores it, before any sink is
    notified."""

    index: int  # of its ledger entry
    run_id: str
    dataset: str
    receipt: str  # the digest of its receipt
    sinks: list[str]  # every sink that must follow it
    since: str  # when it was committed
    followed: list[Followed] = []  # the sinks that have, in the order of their records

    def left(self) -> list[str]:
        """Return the sinks that are not recorded as having followed."""
        done = {each.sink for each in self.followed}
        return [sink for sink in self.sinks if sink not in done]


class Completion(Record, frozen=True):
    """The second record of a run: every sink has followed it. It names the receipt by its digest."""

    run_id: str
    dataset: str
    index: int  # of its ledger entry
    receipt: str  # the digest of its receipt
    since: str  # when the run was committed
    followed: list[Followed]  # the sinks that have followed
    removed: list[str]  # sinks that were removed from kfm.yml before they had followed
    completed_at: str


_ABOUT_SINKS = (refs.maintenance("catalog"), refs.maintenance("sinks"))


def expected_sinks(configured: Iterable[str], moves: Iterable[RefMove]) -> list[str]:
    """Return the sinks that must follow a run with these moves: the public files if a published ref moved, and every
    configured sink. No sink follows a record about the sinks themselves."""
    moves = list(moves)
    if any(move.ref in _ABOUT_SINKS for move in moves):
        return []
    is_public = any(move.ref.startswith(refs.PUBLISHED) for move in moves)
    return [*([PUBLIC] if is_public else []), *configured]


class Outbox(Protocol):
    """How far each sink has followed the ledger, and which datasets are pending for it."""

    def cursor(self, sink: str) -> int:
        """Return the index of the last ledger entry that this sink has processed."""

    def due(self, sink: str) -> Iterator[str]:
        """Yield the datasets that are pending for this sink, by name."""

    def told(self, sink: str, dataset: str) -> SinkPosition | None: ...

    def acknowledge(
        self, sink: str, told: Mapping[str, SinkPosition], also: Callable[[OutboxTx], None] = lambda _outbox: None
    ) -> None:
        """Record that the sink was notified of these datasets, and do `also` in the same transaction. A dataset that
        moved meanwhile stays pending."""

    def stopped(self, sink: str) -> Stopped | None:
        """Return why the sink is stopped; None if it is not."""

    def dead(self, sink: str) -> Iterator[DeadLetter]:
        """Yield the dead letters of this sink, the oldest first."""

    def note(self, sink: str, of: str) -> bytes | None:
        """Return a note that the follower of this sink stored under the name `of`."""

    def notes(self, sink: str) -> Iterator[tuple[str, bytes]]: ...

    def waiting(self, sink: str) -> Iterator[int]:
        """Yield the indexes of the ledger entries that wait for a thaw."""

    def pending(self) -> Iterator[PendingRun]:
        """Yield the runs that some sinks have not followed, the oldest first."""

    def completed(self) -> Iterator[str]:
        """Yield the ids of the runs that have a completion."""

    def completion(self, run_id: str) -> bytes | None:
        """Return the completion of a run: a signed envelope, or the record itself if the installation signs nothing."""


class OutboxTx(Outbox, Protocol):
    def advance(self, sink: str, index: int) -> None:
        """Move the sink's cursor to this index. It never goes back, so a slow process undoes nothing."""

    def owe(self, sink: str, dataset: str) -> None:
        """Mark this dataset as pending for the sink."""

    def keep_told(self, told: SinkPosition, sink: str, dataset: str) -> None:
        """Store how far the sink has reported this dataset. It never goes back."""

    def keep_note(self, sink: str, of: str, body: bytes) -> None: ...

    def forget_notes(self, sink: str) -> None: ...

    def note_stopped(self, sink: str, stopped: Stopped | None) -> None: ...

    def bury(self, sink: str, letter: DeadLetter) -> None: ...

    def wait(self, sink: str, index: int) -> None: ...

    def clear(self, sink: str, index: int) -> None:
        """Remove this ledger entry from the waiting and the dead ones: the sink has received it."""

    def expect(self, run: PendingRun) -> None:
        """Store a run that sinks must follow."""

    def note_followed(self, run: PendingRun, followed: PendingRun) -> bool:
        """Replace the stored record of a pending run. Return whether it was as the caller knew it: if another process
        has changed it, nothing is stored."""

    def complete(self, run: PendingRun, body: bytes) -> bool:
        """Store the completion of a pending run in place of its record. Return whether that was as the caller knew it:
        if another process has changed it, nothing is stored."""


def is_followed(entry: LedgerEntry) -> bool:
    """Return whether sinks are notified of an entry. An entry about the sinks themselves would make them pending again
    without end."""
    return entry.op_type not in ("catalog", "sinks")


def concerned(entry: LedgerEntry) -> set[str]:
    """Return the datasets that an entry concerns, also those of an operation that found nothing to do: the public files
    are compared then too."""
    found = {refs.parse(move.ref).dataset for move in entry.moves if move.ref.startswith(refs.PUBLISHED)}
    if entry.op_type in ("promote", "rollback") and entry.outcome in ("noop", "unchanged"):
        found.add(entry.dataset)
    return found


def described(entry: LedgerEntry) -> set[str]:
    """Return the datasets whose catalog and pages an entry concerns: also those whose metadata it corrects."""
    corrected = {refs.parse(move.ref).dataset for move in entry.moves if move.ref.startswith(refs.HOTFIX)}
    return concerned(entry) | corrected
