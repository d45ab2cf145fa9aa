"""Counts that are folded from the ledger and kept up to an entry, so that nothing reads the whole ledger again.

The counts of a session are in memory, and now and then a session that may write keeps them as a note in the state. A
note is derived: it names the entry that it goes up to, and where the ledger has another entry there, all is counted
again. A reader and a dry run write none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from kfm.clock import parse_instant
from kfm.model import refs
from kfm.model.outbox_messages import COUNTED_EVERY, COUNTS
from kfm.projections.operation_counts import FORM, EntryFacts, LedgerCounts
from kfm.scheduling.triggers import is_of_preview

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry, RunTelemetry

BEHIND = COUNTED_EVERY
AT_ONCE = 2000  # entries that one settlement counts
BATCH = 5000  # entries that are read at once


class Counted(Protocol):
    """Counts up to an entry of the ledger."""

    index: int
    link: str  # the digest of that entry, as stored

    def add(self, entry: LedgerEntry, telemetry: RunTelemetry | None, facts: EntryFacts) -> None: ...


C = TypeVar("C", bound=Counted)


def _fits(_known: object, _fresh: object) -> bool:
    """Accept all counts: they depend on the ledger alone."""
    return True


class LedgerFold(Generic[C]):
    """Keeps counts of one kind for each session. `new` makes those of an empty ledger, and `fits` says whether older
    counts are of what `new` would count."""

    def __init__(
        self, of: str, kind: type[C], new: Callable[[Session], C], fits: Callable[[C, C], bool] = _fits
    ) -> None:
        self._of, self._kind, self._new, self._fits = of, kind, new, fits
        self._known: WeakKeyDictionary[Session, C] = WeakKeyDictionary()
        self._lock = threading.RLock()

    def now(self, session: Session) -> C:
        """Return the counts up to the last entry of the ledger."""
        with self._lock:
            return self._counted(session, -1)

    def keep(self, session: Session) -> bool:
        """Write the note if it is far behind. A long ledger is counted in parts. Return whether a note was written."""
        if session.mode != "write":
            return False
        newest = next(iter(session.state.ledger.entries(reverse=True, limit=1)), None)
        if newest is None or newest.index - session.state.outbox.cursor(self._name) < BEHIND:
            return False
        with self._lock:  # and not during the transaction: another thread may count inside one
            counts = self._counted(session, AT_ONCE)
            index, body = counts.index, msgspec.json.encode(counts)
        with session.state.transaction(durable=False) as tx:
            tx.outbox.keep_note(COUNTS, self._of, body)
            tx.outbox.advance(self._name, index)
        return True

    @property
    def _name(self) -> str:
        return f"{COUNTS}/{self._of}"

    def _counted(self, session: Session, limit: int) -> C:
        state, fresh = session.state, self._new(session)
        counts = self._known.get(session)
        if counts is None or not self._fits(counts, fresh) or not _holds(session, counts):
            counts = self._read(session, fresh)
        previews: bool | None = None

        def is_preview(entry: LedgerEntry) -> bool:
            nonlocal previews
            if previews is None:
                previews = any(True for _ in state.refs.histories(refs.PREVIEW))
            return previews and is_of_preview(state, entry)

        self._known.pop(session, None)  # what fails in the middle is counted again
        left = limit
        while left:  # in batches: a scan may hold all its rows in memory
            before = counts.index
            most = BATCH if left < 0 else min(BATCH, left)
            for entry, link in state.ledger.links(after=before, limit=most):
                facts = EntryFacts(partial(parse_instant, entry.ts, "an entry"), partial(is_preview, entry))
                counts.add(entry, state.ledger.telemetry(entry.run_id), facts)
                counts.index, counts.link = entry.index, link
            if counts.index - before < most:
                break
            left -= most if left > 0 else 0
        self._known[session] = counts
        return counts

    def _read(self, session: Session, fresh: C) -> C:
        """Return the counts of the note; `fresh` if there is no note that is right for this ledger and release."""
        body = session.state.outbox.note(COUNTS, self._of)
        if body is not None:
            try:
                counts = msgspec.json.decode(body, type=self._kind)
            except msgspec.MsgspecError:
                return fresh
            if self._fits(counts, fresh) and _holds(session, counts):
                return counts
        return fresh


def _holds(session: Session, counts: Counted) -> bool:
    """Return whether the ledger still has the entry that these counts go up to."""
    if not counts.index:
        return True
    found = next(iter(session.state.ledger.links(after=counts.index - 1, limit=1)), None)
    return found is not None and (found[0].index, found[1]) == (counts.index, counts.link)


def _nothing_counted(_session: Session) -> LedgerCounts:
    return LedgerCounts(form=FORM)


def _is_of_form(known: LedgerCounts, fresh: LedgerCounts) -> bool:
    """Return whether these counts have all that is counted now: an older version left a part out."""
    return known.form == fresh.form


OPERATIONS = LedgerFold("operations", LedgerCounts, _nothing_counted, _is_of_form)
