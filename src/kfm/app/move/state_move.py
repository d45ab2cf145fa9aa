"""`kfm move --to` a state: copies all rows to another place, verifies them, and takes the copy into force.

The order makes every crash harmless. The old place takes no writer while the move runs, and is in force again as soon
as the mover is dead. The copy says that it is unfinished until one commit at the old place says that it was moved; from
then on only the copy is in force, and whoever opens it first completes it, should the mover have died in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.move.move_claim import Claim, brake, claimed, new_move, now_of
from kfm.app.move.table_copy import COPIED, TableSum, check_equal, copy_table, rows_of, sum_of, sums_of
from kfm.app.provenance.audit import audit
from kfm.app.session.backends import open_tables_at
from kfm.app.session.moved_state import complete
from kfm.app.session.session import session_on
from kfm.app.session.state_place import Place, at_home, problem_of_place, put_place, read_place, transaction_of
from kfm.errors import Busy, Corrupt, KfmError, Refused
from kfm.store.overlay import OverlayTables

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.config import Resolved
    from kfm.model.ports import Tables


class Terms(NamedTuple):
    """How a move behaves: its clock, how long it waits for others, and whom it tells."""

    clock: Clock
    wait_s: float = 0
    waits: Callable[[str], None] = lambda _why: None
    progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None


class StateMove(NamedTuple):
    """What a move of the state did, or would do."""

    sums: list[TableSum]
    done: bool  # False if the state was moved there before, or nothing was written


def state_at(resolved: Resolved) -> Place:
    """Return what the state that kfm.yml names says about its place. Nothing is written."""
    tables = open_tables_at(resolved, resolved.config.state, "read")
    try:
        return read_place(tables)
    finally:
        tables.close()


def check_target(resolved: Resolved, to: str, clock: Clock) -> None:
    """Raise the problem that a move would meet at the other place. Nothing is written."""
    source = open_tables_at(resolved, resolved.config.state, "read")
    try:
        target = open_tables_at(resolved, to, "read")
        try:
            check_admission(source, target, to, clock.now_ms())
        finally:
            target.close()
    finally:
        source.close()


def preview(resolved: Resolved, to: str, terms: Terms) -> StateMove:
    """Return the sums of what would be moved. Raise the problem that the move would meet at the other place; nothing is
    written."""
    check_target(resolved, to, terms.clock)
    source = open_tables_at(resolved, resolved.config.state, "dry")
    try:
        shown = _Shown(terms, 0, ())
        shown.begin("read")
        return StateMove(sums_of(source, shown.advanced), done=False)
    finally:
        source.close()


def check_admission(source: Tables, target: Tables, to: str, now_ms: int) -> None:
    """Raise Refused if the other place holds anything but an earlier state of this installation that is not in force
    there, and Busy if another process is moving to it."""
    place = read_place(target)
    if place.is_claimed(now_ms):
        raise Busy(f"another process is moving a state to or from {to}", hint="wait for it")
    if place.status in ("moved", "arriving", "sealed"):
        last = next(target.scan("ledger", reverse=True, limit=1), None)
        if last is None or source.get("ledger", last[0]) == last[1]:
            return
        raise Refused(f"{to} holds a state with runs that this state does not know", hint="move to an empty place")
    if any(next(rows_of(target, table), None) is not None for table in COPIED):
        raise Refused(
            f"{to} holds an installation already", hint="move to an empty place, or remove what is there if it is old"
        )


def check_ledger(resolved: Resolved, tables: Tables, clock: Clock, where: str) -> None:
    """Raise Corrupt if the ledger in these tables was changed or cut off."""
    session = session_on(resolved, "read", OverlayTables(tables), clock=clock, anywhere=True)
    found = audit(session)
    if found.verdict in ("tampered", "forked"):
        raise Corrupt(
            f"the ledger {where} does not verify: {found.why}",
            hint="nothing was moved; restore the state from a copy, see `kfm audit verify`",
        )


def move_state(resolved: Resolved, to: str, terms: Terms) -> StateMove:
    """Move the state that kfm.yml names to another place. A move that was interrupted is continued. Raise Busy while
    others work on it, and the problem of either place; then the old place is in force as before."""
    source = open_tables_at(resolved, resolved.config.state, "write")
    try:
        place = read_place(source)
        if place.status == "moved":
            return _finish(resolved, source, to)
        if place.status in ("arriving", "sealed") and (problem := problem_of_place(place, 0)) is not None:
            raise problem
        check_ledger(resolved, source, terms.clock, "of this state")
        return _move(resolved, source, to, _verified(source), terms)
    finally:
        _close(source)


def _verified(tables: Tables) -> int:
    """Check the whole source before anything is copied; return the number of rows, 0 if its tables cannot say."""
    verify: Callable[[], int] | None = getattr(tables, "verify", None)
    return verify() if verify is not None else 0


def _finish(resolved: Resolved, source: Tables, to: str) -> StateMove:
    """Complete a move that is in force already. Refused if it went elsewhere."""
    place = read_place(source)
    if resolved.location(place.other) != resolved.location(to):
        raise Refused(
            f"the state was moved to {place.other}",
            hint=f"change kfm.yml to `state: {place.other}`, and move it from there",
        )
    target = open_tables_at(resolved, to, "write")
    try:
        there = read_place(target)
        if there.status == "sealed" and there.move == place.move:
            complete(target, there)
        return StateMove(sums_of(target), done=False)
    finally:
        target.close()


def _move(resolved: Resolved, source: Tables, to: str, rows: int, terms: Terms) -> StateMove:
    leaving = brake(source, terms.clock, what="state", to=to, move=new_move(), wait_s=terms.wait_s, waits=terms.waits)
    with ExitStack() as stack:
        with _restored(leaving):
            target = open_tables_at(resolved, to, "write")
            stack.callback(_close, target)
            arriving = _arrive(resolved, source, target, to, leaving, terms.clock)
            sums = _copy(resolved, source, target, _Shown(terms, rows, (leaving, arriving)), arriving)
            moved = msgspec.structs.replace(at_home(leaving.place), status="moved", other=to, move=leaving.place.move)
            leaving.change(moved)  # with this commit the copy is in force
        complete(target, arriving.place)
    return StateMove(sums, done=True)


@contextmanager
def _restored(leaving: Claim) -> Iterator[None]:
    """Take the old place into force again if the block fails. If its last commit was stored nevertheless, the claim is
    lost, and the copy stays in force."""
    home = at_home(leaving.place)
    try:
        yield
    except BaseException:
        with suppress(KfmError):
            leaving.change(home)
        raise


def _close(tables: Tables) -> None:
    """Close a place whose content is durable, or does not count."""
    with suppress(KfmError):
        tables.close()


def _copy(resolved: Resolved, source: Tables, target: Tables, shown: _Shown, arriving: Claim) -> list[TableSum]:
    """Copy and verify all rows, and seal the copy: from then on it takes no more of this move."""
    shown.begin("copy")
    sums = [copy_table(source, target, table, arriving.write, shown.advanced) for table in COPIED]
    shown.begin("verify")
    check_equal(sums, [sum_of(target, table, shown.advanced) for table in COPIED])
    check_ledger(resolved, target, shown.clock, "of the copy")
    arriving.change(msgspec.structs.replace(arriving.place, status="sealed", holder="", expires_ms=0, ttl_ms=0))
    return sums


def _arrive(resolved: Resolved, source: Tables, target: Tables, to: str, leaving: Claim, clock: Clock) -> Claim:
    """Claim the other place for this move."""
    move = leaving.place.move
    with transaction_of(target):
        now = now_of(target, clock)
        check_admission(source, target, to, now)
        place = claimed(at_home(leaving.place), now, status="arriving", other=resolved.config.state, move=move)
        put_place(target, place)
    return Claim(target, clock, place)


class _Shown:
    """Shows how many rows are done, and keeps the claims of the move alive."""

    def __init__(self, terms: Terms, rows: int, claims: tuple[Claim, ...]) -> None:
        self.clock = terms.clock
        self._terms, self._rows, self._claims = terms, rows, claims
        self._stage, self._done = "", 0

    def begin(self, stage: str) -> None:
        self._stage, self._done = stage, 0

    def advanced(self, rows: int) -> None:
        self._done += rows
        self._terms.progress(self._stage, self._done, max(self._rows, self._done))
        for claim in self._claims:
            claim.beat()
