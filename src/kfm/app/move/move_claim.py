"""The claims of a move on its two places: nothing else writes there, and a mover that was paused cannot go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from kfm.app.session.state_place import Place, at_home, put_place, read_place, transaction_of
from kfm.errors import Busy, Fenced
from kfm.model.records import Lease
from kfm.store.codec import decode
from kfm.store.process_identity import is_held, this_process

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.model.ports import Tables

TTL_MS = 300_000  # a dead mover on this machine is noticed at once, one on another machine after this time
POLL_S = 0.2


class Claim:
    """This process's claim on a place, renewed in time by `beat`. Every method raises Fenced if it was lost."""

    def __init__(self, tables: Tables, clock: Clock, place: Place) -> None:
        self.tables = tables
        self.place = place
        self._clock = clock
        self._renewed = clock.monotonic()

    def check(self) -> None:
        """Inside a transaction: raise Fenced unless the row is still the one that this process wrote."""
        if read_place(self.tables) != self.place:
            raise Fenced(
                f"the move to or from {self.place.other} was stopped: its claim was not renewed in time",
                hint="the state stays where it is; move it again",
            )

    def beat(self) -> None:
        """Renew the claim if a quarter of its time is over."""
        if self._clock.monotonic() - self._renewed >= TTL_MS / 4000:
            until = now_of(self.tables, self._clock) + TTL_MS
            self.change(msgspec.structs.replace(self.place, expires_ms=until), durable=False)

    def change(self, place: Place, *, durable: bool = True) -> None:
        with transaction_of(self.tables, durable=durable):
            self.check()
            put_place(self.tables, place)
        self.place = place
        self._renewed = self._clock.monotonic()

    def write(self, table: str, puts: list[tuple[str, bytes]], gone: list[str]) -> None:
        """Write rows in one transaction, if the claim still holds."""
        with transaction_of(self.tables, durable=False):
            self.check()
            for key in gone:
                self.tables.delete(table, key)
            self.tables.put_many(table, puts)


def now_of(tables: Tables, clock: Clock) -> int:
    """Return the time that claims and leases in these tables are compared with: a server has one of its own."""
    now_ms: Callable[[], int] = getattr(tables, "now_ms", None) or clock.now_ms
    return now_ms()


def claimed(place: Place, now_ms: int, **fields: str) -> Place:
    """Return the place with a claim of this process."""
    return msgspec.structs.replace(place, holder=this_process(), expires_ms=now_ms + TTL_MS, ttl_ms=TTL_MS, **fields)


def new_move() -> str:
    return os.urandom(8).hex()


def brake(
    tables: Tables,
    clock: Clock,
    *,
    what: str,
    to: str,
    move: str,
    wait_s: float = 0,
    waits: Callable[[str], None] = lambda _why: None,
) -> Claim:
    """Stop all other writers of a state, and return the claim. Raise Busy, after the time to wait, if a worker holds a
    lease or another process moves the state. `waits` is called with the reason once the wait begins."""
    until, told = clock.monotonic() + wait_s, False
    while True:
        try:
            return _brake_now(tables, clock, _leaving(what, to, move))
        except Busy as problem:
            if clock.monotonic() >= until:
                raise
            if not told:
                waits(problem.message)
            told = True
            clock.sleep(POLL_S)


def _leaving(what: str, to: str, move: str) -> dict[str, str]:
    return {"status": "leaving", "what": what, "other": to, "move": move}


def _brake_now(tables: Tables, clock: Clock, fields: dict[str, str]) -> Claim:
    with transaction_of(tables):
        place, now = read_place(tables), now_of(tables, clock)
        if place.status == "leaving" and place.is_claimed(now):
            raise Busy(f"another process is moving this installation to {place.other}", hint="wait for it")
        check_no_worker(tables, clock)
        place = claimed(at_home(place), now, **fields)
        put_place(tables, place)
    return Claim(tables, clock, place)


def check_no_worker(tables: Tables, clock: Clock) -> None:
    """Raise Busy if a worker that may be alive holds a lease."""
    now = now_of(tables, clock)
    leases = (decode(body, Lease, f"leases/{key}") for key, body in tables.scan("leases"))
    held = sorted(lease.scope for lease in leases if is_held(lease, now))
    if held:
        raise Busy(
            f"{len(held)} worker{'s are' if len(held) > 1 else ' is'} at work: {', '.join(held[:5])}",
            hint="wait for them or stop them (`kfm up` too), or let the move wait: --wait SECONDS",
        )
