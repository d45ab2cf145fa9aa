"""The trace of the sinks that follow the ledger: an effect for each message that was applied, or would be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kfm.delivery.followers import Follower
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.outbox_messages import Letter
from kfm.model.ports import Sink, Tx
from kfm.model.records import Effect
from kfm.sinks.catalog_files import CatalogFiles
from kfm.sinks.receipt_files import ReceiptFiles


def traced(follower: Follower, effects: list[Effect], *, dry_run: bool) -> Follower:
    """Return the follower with a sink that appends its effects to this list. In a dry run it sends nothing and takes no
    lock."""
    sink = _TracedSink(follower.sink, effects, dry_run)
    return follower._replace(sink=sink, lock=_NoLock if dry_run else follower.lock)


class _TracedSink:
    def __init__(self, sink: Sink, effects: list[Effect], dry_run: bool) -> None:
        self.name = sink.name
        self._sink = sink
        self._effects = effects
        self._dry_run = dry_run

    def send(self, letters: Sequence[Letter]) -> None:
        """Apply the messages unless this is a dry run, then note them: what was not applied is not noted."""
        noted = [change for letter in letters for change in _changes(self._sink, letter)]
        if not self._dry_run:
            self._sink.send(letters)
        for method, target, key, body in noted:
            self._effects.append(
                Effect(
                    seq=len(self._effects) + 1,
                    method=method,
                    target=target,
                    digest=digest(body) if body else "",
                    size=len(body),
                    key=key,
                    dry_run=self._dry_run,
                )
            )


def _changes(sink: Sink, letter: Letter) -> Iterator[tuple[Any, str, str, bytes]]:
    """Yield method, target, key and body of each effect of a message: files of a folder, or an event.

    A message about a whole folder says which files stay. The folder says which others are there, and will be removed.
    """
    key, body = f"{sink.name}/{letter.run_id}", letter.body
    if isinstance(sink, ReceiptFiles):
        yield "write_file", sink.target(letter.key), key, body
    elif not isinstance(sink, CatalogFiles):
        yield "emit_event", sink.name, key, canonical(body)
    elif sink.leaves_foreign and sink.is_foreign(letter.key):
        return
    elif isinstance(body, bytes):
        yield "write_file", sink.target(letter.key), key, body
    elif body is None:
        yield "remove_file", sink.target(letter.key), key, b""
    else:
        for path in sink.foreign(letter.key, body):
            yield "remove_file", sink.target(path), key, b""


class _NoLock:
    """Stands for the lock of a sink in a dry run, which notifies no sink."""

    def take(self) -> bool:
        return True

    def is_held(self, tx: Tx) -> bool:  # noqa: ARG002
        return True

    def release(self) -> None: ...

    def close(self) -> None: ...
