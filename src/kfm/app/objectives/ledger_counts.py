"""Counts that are folded from the ledger and kept up to an entry, so that nothing reads the whole ledger again.

The counts of a session are in memory, and now and then a session that may write keeps them as a note in the state. A
note is derived: it names the entry that it goes up to, and where the ledger has another entry there, all is counted
again. A reader and a dry run write none.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from kfm.errors import KfmError
from kfm.model.outbox_messages import COUNTED_EVERY, COUNTS
from kfm.projections.operation_counts import LedgerCounts

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry, RunTelemetry

BEHIND = COUNTED_EVERY
AT_ONCE = 2000  # entries that one settlement counts


class Counted(Protocol):
    """Counts up to an entry of the ledger."""

    index: int
    link: str  # the digest of that entry, as stored

    def add(self, entry: LedgerEntry, telemetry: RunTelemetry | None) -> None: ...


C = TypeVar("C", bound=Counted)


class LedgerFold(Generic[C]):
    """Keeps counts of one kind for each session."""

    def __init__(self, of: str, new: type[C]) -> None:
        self.of, self._new = of, new
        self._known: WeakKeyDictionary[Session, C] = WeakKeyDictionary()
        self._lock = threading.RLock()

    def now(self, session: Session) -> C:
        """Return the counts up to the last entry of the ledger."""
        with self._lock:
            return self._counted(session, -1)

    def keep(self, session: Session) -> bool:
        """Write the note if it is far behind. An installation with a long ledger is counted in parts. Return whether a
        note was written."""
        if session.mode != "write":
            return False
        newest = next(iter(session.state.ledger.entries(reverse=True, limit=1)), None)
        if newest is None or newest.index - session.state.outbox.cursor(self._name) < BEHIND:
            return False
        with self._lock:
            counts = self._counted(session, AT_ONCE)
            with session.state.transaction(durable=False) as tx:
                tx.outbox.keep_note(COUNTS, self.of, msgspec.json.encode(counts))
                tx.outbox.advance(self._name, counts.index)
        return True

    @property
    def _name(self) -> str:
        return f"{COUNTS}/{self.of}"

    def _counted(self, session: Session, limit: int) -> C:
        ledger = session.state.ledger
        counts = self._known.get(session)
        if counts is None or not _holds(session, counts):
            counts = self._read(session)
        for entry, link in ledger.links(after=counts.index, limit=limit):
            counts.add(entry, ledger.telemetry(entry.run_id))
            counts.index, counts.link = entry.index, link
        self._known[session] = counts
        return counts

    def _read(self, session: Session) -> C:
        """Return the counts of the note; none if there is no note, or if it is of another ledger or another release."""
        body = session.state.outbox.note(COUNTS, self.of)
        if body is not None:
            try:
                counts = msgspec.json.decode(body, type=self._new)
            except msgspec.MsgspecError:
                return self._new()
            if _holds(session, counts):
                return counts
        return self._new()


def _holds(session: Session, counts: Counted) -> bool:
    """Return whether the ledger still has the entry that these counts go up to."""
    if not counts.index:
        return True
    found = next(iter(session.state.ledger.links(after=counts.index - 1, limit=1)), None)
    return found is not None and (found[0].index, found[1]) == (counts.index, counts.link)


OPERATIONS = LedgerFold("operations", LedgerCounts)


def keep_counts(session: Session) -> None:
    """Keep the counts that are far behind. A failure is logged: a note only saves time."""
    try:
        OPERATIONS.keep(session)
    except KfmError as problem:
        session.log.event("counts.unkept", error=problem)
