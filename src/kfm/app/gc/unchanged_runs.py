"""Runs that changed nothing: after their retention, their receipts are kept in a short form.

The ledger entry and the digest of the receipt stay as they are, and the receipt reads as it was written, byte for byte.
Its exported file is removed; `kfm runs receipt RUN` writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kfm.clock import rfc3339
from kfm.projections.file_paths import receipt_path

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.store.state import StoredState

_BATCH = 200


class UnchangedRun(NamedTuple):
    """A run that changed nothing, and the earlier run that made what was there."""

    run_id: str
    like: str
    size: int  # bytes of its receipt


def unchanged_runs(state: StoredState, before_ms: int) -> Iterator[UnchangedRun]:
    """Yield the runs that ended before this time without a change and whose receipts are whole."""
    makers: dict[str, str] = {}  # the last run of each dataset that changed it: its receipt is always whole
    before = rfc3339(max(before_ms, 0))
    for entry in state.ledger.entries():
        if entry.outcome == "noop" and entry.dataset in makers and entry.ts < before:
            body = state.tables.get("receipts", entry.run_id)
            if body is not None and body.startswith(b"{"):
                yield UnchangedRun(entry.run_id, makers[entry.dataset], len(body))
        elif entry.outcome == "done":
            makers[entry.dataset] = entry.run_id


def shorten(session: Session, runs: Sequence[UnchangedRun], check: Callable[[], None]) -> int:
    """Put the receipts of these runs into their short form, and remove their exported files; return the bytes that
    this saves in the state."""
    saved = 0
    for start in range(0, len(runs), _BATCH):
        check()
        batch = runs[start : start + _BATCH]
        receipts = [session.state.ledger.receipt(run.run_id) for run in batch]
        with session.state.transaction() as tx:
            saved += sum(tx.ledger.shorten(run.run_id, run.like) for run in batch)
        for receipt in receipts:
            if receipt is not None and session.state.ledger.is_short(receipt.run_id):
                session.publisher.remove_file(receipt_path(receipt), f"gc/{receipt.run_id}", lambda: None)
    return saved
