"""Slots of a pool: a slot is a live lease `pool/<name>/<n>`, and nothing else, so that none can be lost.

Who waits has a lease too, `pool/<name>/wait/<key>`, a short one that it renews as long as it waits. What is said of
either stands behind the process in its holder: nothing needs a table of its own, and whoever is killed is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kfm.errors import Busy
from kfm.model.ports import State
from kfm.model.records import Lease

WAIT_MS = 10_000  # who has not come back for this long does not wait any more, and keeps nobody behind it

Held = Callable[[Lease, int], bool]


class Asked(NamedTuple):
    """Who wants a slot."""

    pool: str
    slots: int  # that the pool has
    key: str  # the same for whoever wants to do the same work
    about: str  # the dataset, and which part of it
    received_ms: int  # when the work was asked for: who waits longer goes first
    low: bool = False  # after all who are not

    @property
    def order(self) -> tuple[bool, int, str]:
        return self.low, self.received_ms, self.key


class Claim(NamedTuple):
    """A slot, or a place among those who wait, as its lease tells."""

    lease: Lease
    slot: int | None  # None: it waits
    key: str
    about: str
    since_ms: int  # since when it waits, or waited
    taken_ms: int  # 0: it waits still
    received_ms: int
    low: bool

    @property
    def order(self) -> tuple[bool, int, str]:
        return self.low, self.received_ms, self.key

    @property
    def process(self) -> str:
        """Host and number of the process."""
        return ":".join(self.lease.holder.split(":")[:2])


class Standing(NamedTuple):
    """Who has what of a pool, and who waits, the next one first; and what is left of those who are gone."""

    held: list[Claim]
    waiting: list[Claim]
    gone: list[Claim]

    def place(self, key: str) -> Claim | None:
        return next((claim for claim in self.waiting if claim.key == key), None)

    def free(self, asked: Asked) -> int | None:
        """A slot that is its to take: none of those who wait before it would go without."""
        ahead = sum(claim.key != asked.key and claim.order < asked.order for claim in self.waiting)
        if asked.slots - len(self.held) <= ahead:
            return None
        taken = {claim.slot for claim in self.held}
        return next(n for n in range(asked.slots) if n not in taken)


def standing(leases: Iterable[Lease], now_ms: int, is_held: Held) -> Standing:
    held, waiting, gone = [], [], []
    for lease in leases:
        claim = read(lease)
        if not is_held(lease, now_ms):
            gone.append(claim)
        elif claim.slot is None:
            waiting.append(claim)
        else:
            held.append(claim)
    return Standing(sorted(held, key=lambda each: each.slot or 0), sorted(waiting, key=lambda each: each.order), gone)


def read(lease: Lease) -> Claim:
    last = lease.scope.rpartition("/")[2]
    slot = int(last) if "/wait/" not in lease.scope else None
    _, key, since, taken, received, low, about = lease.holder.rsplit(":", 6)
    return Claim(lease, slot, key, about, int(since), int(taken), int(received), low == "low")


def _holder(process: str, asked: Asked, since_ms: int, taken_ms: int) -> str:
    low = "low" if asked.low else ""
    return f"{process}:{asked.key}:{since_ms}:{taken_ms}:{asked.received_ms}:{low}:{asked.about}"


def take(state: State, asked: Asked, process: str, ttl_ms: int, now_ms: int, is_held: Held) -> Lease | None:
    """A slot, if one is its to take; else it waits from now on, for as long as it comes back. Busy if the same work
    has one already."""
    name = f"pool/{asked.pool}"
    with state.reading():
        seen = standing(state.leases.below(name), now_ms, is_held)
    mine = seen.place(asked.key)
    if mine is not None and seen.free(asked) is None and mine.lease.expires_ms - now_ms > WAIT_MS * 2 // 3:
        return None
    with state.transaction(durable=False) as tx:
        seen = standing(list(tx.leases.below(name)), now_ms, is_held)
        if any(claim.key == asked.key for claim in seen.held):
            raise Busy(f"another worker is at work on {asked.about}", hint="wait for it, or stop it and try again")
        for claim in seen.gone:
            if claim.slot is None or claim.slot >= asked.slots:  # a pool that became smaller: who had it is fenced off
                tx.leases.forget(claim.lease)
        mine, slot = seen.place(asked.key), seen.free(asked)
        since_ms = mine.since_ms if mine is not None else now_ms
        if slot is not None:
            if mine is not None:
                tx.leases.forget(mine.lease)
            return tx.leases.acquire(f"{name}/{slot}", _holder(process, asked, since_ms, now_ms), ttl_ms)
        if mine is not None:
            tx.leases.renew(mine.lease, WAIT_MS)
        else:
            tx.leases.acquire(f"{name}/wait/{asked.key}", _holder(process, asked, now_ms, 0), WAIT_MS)
    return None


def leave(state: State, asked: Asked) -> None:
    """It does not wait any more."""
    with state.transaction(durable=False) as tx:
        lease = tx.leases.of(f"pool/{asked.pool}/wait/{asked.key}")
        if lease is not None:
            tx.leases.forget(lease)
