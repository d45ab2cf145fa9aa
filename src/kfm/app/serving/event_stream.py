"""What has happened since a caller last asked: entries of the ledger, runs that began, freeze flags that changed.

A feed names only what its caller may learn. It is asked again and again, each time inside a read transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.app.serving.run_reader import entry_row, unfinished_rows
from kfm.model import refs
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session

MOST = 200  # entries that one look tells


class Event(Record, frozen=True):
    """One event. `entry`: the ledger has a new entry, so a run has ended. `begun`: a run began. `freeze`, `thaw`: a
    freeze flag was set or removed."""

    event: str
    dataset: str
    op: str
    outcome: str
    run_id: str
    index: int  # of the newest entry of the ledger that the feed has told


class EventFeed:
    """What one caller has been told."""

    def __init__(self, after: int) -> None:
        """`after` is the last ledger entry that the caller knows."""
        self._after = after
        self._running: frozenset[str] | None = None
        self._frozen: frozenset[str] | None = None

    @property
    def after(self) -> int:
        return self._after

    def news(self, session: Session, seen: Discretion, entries: int) -> list[Event]:
        """Return what has happened since the last call. `entries` is the newest entry of the ledger."""
        return [*self._begun(session, seen), *self._flags(session, seen), *self._ended(session, seen, entries)]

    def _ended(self, session: Session, seen: Discretion, entries: int) -> Iterator[Event]:
        for entry in session.state.ledger.entries(after=self._after, limit=MOST) if entries > self._after else ():
            self._after = entry.index
            row = entry_row(session, seen, entry) if seen.may_name(entry.dataset) else None
            if row is not None:
                yield Event(
                    event="entry", dataset=row.dataset, op=row.op, outcome=row.outcome, run_id=row.run_id,
                    index=entry.index,
                )  # fmt: skip

    def _begun(self, session: Session, seen: Discretion) -> Iterator[Event]:
        rows = {row.run_id: row for row in unfinished_rows(session, seen, "")}
        known, self._running = self._running, frozenset(rows)
        for run_id in sorted(rows.keys() - known) if known is not None else ():
            row = rows[run_id]
            yield Event(event="begun", dataset=row.dataset, op=row.op, outcome="", run_id=run_id, index=self._after)

    def _flags(self, session: Session, seen: Discretion) -> Iterator[Event]:
        flags = {
            ref
            for zone in (refs.SWITCH, refs.AMBER)
            for ref, at in session.state.refs.all(zone)
            if refs.is_frozen(at) and self._may_tell(seen, ref)
        }
        known, self._frozen = self._frozen, frozenset(flags)
        for ref in sorted(flags ^ known) if known is not None else ():
            said = "freeze" if ref in flags else "thaw"
            yield Event(event=said, dataset=_scope(ref), op="", outcome="", run_id="", index=self._after)

    def _may_tell(self, seen: Discretion, ref: str) -> bool:
        kind, _, name = refs.parse(ref).rest.partition("/")
        return (kind == "dataset" and seen.may_name(name)) or (kind == "global" and seen.is_staff)


def _scope(ref: str) -> str:
    kind, _, name = refs.parse(ref).rest.partition("/")
    return name if kind == "dataset" else kind
