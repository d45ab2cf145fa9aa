"""The outbox: how far each sink has followed the ledger, and which datasets are pending for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kfm.model import outbox_messages, refs
from kfm.model.outbox_messages import DeadLetter, PendingRun, Stopped
from kfm.model.records import SinkPosition
from kfm.store.codec import Repository, exact


class Outbox(Repository):
    """Reads how far each sink has followed the ledger, its pending datasets, notes and dead letters."""

    def cursor(self, sink: str) -> int:
        return int(self._state.meta(f"cursor/{sink}") or 0)

    def due(self, sink: str) -> Iterator[str]:
        return (key.rpartition("/")[2] for key, _ in self._tables.scan("outbox", f"due/{sink}/"))

    def told(self, sink: str, dataset: str) -> SinkPosition | None:
        return self._one("outbox", f"told/{sink}/{dataset}", SinkPosition)

    def acknowledge(
        self,
        sink: str,
        told: Mapping[str, SinkPosition],
        also: Callable[[outbox_messages.OutboxTx], None] = lambda _outbox: None,
    ) -> None:
        with self._state.transaction(durable=False) as tx:
            for dataset, how_far in told.items():
                tx.outbox.keep_told(how_far, sink, dataset)
            also(tx.outbox)

    def stopped(self, sink: str) -> Stopped | None:
        return self._one("outbox", f"sink/{sink}", Stopped)

    def dead(self, sink: str) -> Iterator[DeadLetter]:
        return self._many("outbox", DeadLetter, f"dead/{sink}/")

    def note(self, sink: str, of: str) -> bytes | None:
        return self._tables.get("outbox", f"told/{sink}/{of}")

    def notes(self, sink: str) -> Iterator[tuple[str, bytes]]:
        return ((key.rpartition("/")[2], body) for key, body in self._tables.scan("outbox", f"told/{sink}/"))

    def waiting(self, sink: str) -> Iterator[int]:
        return (int(key.rpartition("/")[2]) for key, _ in self._tables.scan("outbox", f"wait/{sink}/"))

    def pending(self) -> Iterator[PendingRun]:
        return self._many("outbox", PendingRun, "pending/")

    def completed(self) -> Iterator[str]:
        return (key.rpartition("/")[2] for key, _ in self._tables.scan("outbox", "complete/"))

    def completion(self, run_id: str) -> bytes | None:
        return self._tables.get("outbox", f"complete/{run_id}")


class OutboxTx(Outbox):
    """Writes the cursors, pending datasets, notes and dead letters of sinks, inside an open transaction."""

    def advance(self, sink: str, index: int) -> None:
        if index > self.cursor(sink):
            self._tables.put("meta", f"cursor/{sink}", b"%d" % index)

    def owe(self, sink: str, dataset: str) -> None:
        self._tables.put("outbox", f"due/{sink}/{dataset}", b"{}")

    def keep_told(self, told: SinkPosition, sink: str, dataset: str) -> None:
        """Store how far the sink has reported this dataset; an older position never replaces a newer one. The dataset
        stays pending if it moved again after the report was built."""
        known = self.told(sink, dataset)
        if known is None or known.moves < told.moves or (known.moves == told.moves and known != told):
            self._tables.put("outbox", f"told/{sink}/{dataset}", exact(told))
        last = next(self._state.refs.history(refs.published(dataset), reverse=True, limit=1), None)
        if last is None or last.n <= told.moves:
            self._tables.delete("outbox", f"due/{sink}/{dataset}")

    def keep_note(self, sink: str, of: str, body: bytes) -> None:
        self._tables.put("outbox", f"told/{sink}/{of}", body)

    def forget_notes(self, sink: str) -> None:
        for key, _ in list(self._tables.scan("outbox", f"told/{sink}/")):
            self._tables.delete("outbox", key)

    def note_stopped(self, sink: str, stopped: Stopped | None) -> None:
        if stopped is not None:
            self._tables.put("outbox", f"sink/{sink}", exact(stopped))
        elif self._tables.get("outbox", f"sink/{sink}") is not None:
            self._tables.delete("outbox", f"sink/{sink}")

    def bury(self, sink: str, letter: DeadLetter) -> None:
        self._tables.put("outbox", f"dead/{sink}/{letter.index:012d}", exact(letter))

    def wait(self, sink: str, index: int) -> None:
        self._tables.put("outbox", f"wait/{sink}/{index:012d}", b"{}")

    def clear(self, sink: str, index: int) -> None:
        for what in ("dead", "wait"):
            if self._tables.get("outbox", key := f"{what}/{sink}/{index:012d}") is not None:
                self._tables.delete("outbox", key)

    def expect(self, run: PendingRun) -> None:
        self._tables.put("outbox", f"pending/{run.index:012d}", exact(run))

    def note_followed(self, run: PendingRun, followed: PendingRun) -> bool:
        if is_known := self._tables.get("outbox", key := f"pending/{run.index:012d}") == exact(run):
            self._tables.put("outbox", key, exact(followed))
        return is_known

    def complete(self, run: PendingRun, body: bytes) -> bool:
        if is_known := self._tables.get("outbox", key := f"pending/{run.index:012d}") == exact(run):
            self._tables.put("outbox", f"complete/{run.run_id}", body)
            self._tables.delete("outbox", key)
        return is_known
