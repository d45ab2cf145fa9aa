"""The outbox of the state as a port: how far each sink has followed the ledger, and which runs it has not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from kfm.model.outbox_messages import DeadLetter, PendingRun, Stopped
from kfm.model.records import SinkPosition


class Outbox(Protocol):
    """How far each sink has followed the ledger, and which datasets are pending for it."""

    def cursor(self, sink: str) -> int:
        """Return the index of the last ledger entry that this sink has processed."""

    def due(self, sink: str) -> Iterator[str]:
        """Yield the datasets that are pending for this sink, by name."""

    def told(self, sink: str, dataset: str) -> SinkPosition | None: ...

    def acknowledge(self, sink: str, told: Mapping[str, SinkPosition]) -> None:
        """Record that the sink was notified of these datasets. A dataset that moved meanwhile stays pending."""

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
