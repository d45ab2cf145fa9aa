"""Slots of a pool. A slot is a live lease `pool/<name>/<n>` and nothing else, so none can be lost.

A waiting worker has a short lease `pool/<name>/wait/<key>`, which it renews while it waits. The lease's holder text
carries the details after the process. So the pool needs no table, and a killed worker drops out by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kfm.errors import Busy
from kfm.model.ports import State
from kfm.model.records import Lease

WAIT_MS = 10_000  # a waiting worker that does not renew for this long has left the queue

Held = Callable[[Lease, int], bool]


class SlotRequest(NamedTuple):
    """The request of a run for a slot of a pool."""

    pool: str
    slots: int  # slots of the pool
    key: str  # equal for workers that want to do the same work
    about: str  # the dataset, and its partition
    received_ms: int  # when the work was requested: the oldest request goes first
    low: bool = False  # goes after all requests that are not low

    @property
    def order(self) -> tuple[bool, int, str]:
        return self.low, self.received_ms, self.key


class Claim(NamedTuple):
    """A slot, or a place in the queue, read from its lease."""

    lease: Lease
    slot: int | None  # None: it waits
    key: str
    about: str
    since_ms: int  # when it began to wait
    taken_ms: int  # 0: it still waits
    received_ms: int
    low: bool

    @property
    def order(self) -> tuple[bool, int, str]:
        return self.low, self.received_ms, self.key

    @property
    def process(self) -> str:
        """The host and the process id of the worker."""
        return ":".join(self.lease.holder.split(":")[:2])


class PoolStatus(NamedTuple):
    """The slots in use, the queue in order, and the leases of processes that are gone."""

    held: list[Claim]
    waiting: list[Claim]
    gone: list[Claim]

    def place(self, key: str) -> Claim | None:
        return next((claim for claim in self.waiting if claim.key == key), None)

    def free(self, asked: SlotRequest) -> int | None:
        """Return a slot that this request may take: enough are free for all requests before it. None if there is no
        such slot.
        """
        ahead = sum(claim.key != asked.key and claim.order < asked.order for claim in self.waiting)
        if asked.slots - len(self.held) <= ahead:
            return None
        taken = {claim.slot for claim in self.held}
        return next(n for n in range(asked.slots) if n not in taken)


def pool_status(leases: Iterable[Lease], now_ms: int, is_held: Held) -> PoolStatus:
    held, waiting, gone = [], [], []
    for lease in leases:
        claim = read_claim(lease)
        if not is_held(lease, now_ms):
            gone.append(claim)
        elif claim.slot is None:
            waiting.append(claim)
        else:
            held.append(claim)
    return PoolStatus(sorted(held, key=lambda each: each.slot or 0), sorted(waiting, key=lambda each: each.order), gone)


def read_claim(lease: Lease) -> Claim:
    last = lease.scope.rpartition("/")[2]
    slot = int(last) if "/wait/" not in lease.scope else None
    _, key, since, taken, received, low, about = lease.holder.rsplit(":", 6)
    return Claim(lease, slot, key, about, int(since), int(taken), int(received), low == "low")


def _holder(process: str, asked: SlotRequest, since_ms: int, taken_ms: int) -> str:
    low = "low" if asked.low else ""
    return f"{process}:{asked.key}:{since_ms}:{taken_ms}:{asked.received_ms}:{low}:{asked.about}"


def take(state: State, asked: SlotRequest, process: str, ttl_ms: int, now_ms: int, is_held: Held) -> Lease | None:
    """Return the lease of a slot if one is free for this request; otherwise join or stay in the queue and return None.
    Raise Busy if another worker holds a slot for the same work.
    """
    name = f"pool/{asked.pool}"
    with state.reading():
        seen = pool_status(state.leases.below(name), now_ms, is_held)
    mine = seen.place(asked.key)
    if mine is not None and seen.free(asked) is None and mine.lease.expires_ms - now_ms > WAIT_MS * 2 // 3:
        return None
    with state.transaction(durable=False) as tx:
        seen = pool_status(list(tx.leases.below(name)), now_ms, is_held)
        if any(claim.key == asked.key for claim in seen.held):
            raise Busy(f"another worker is at work on {asked.about}", hint="wait for it, or stop it and try again")
        for claim in seen.gone:
            if claim.slot is None or claim.slot >= asked.slots:  # the pool became smaller; the lease's token is stale
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


def leave(state: State, asked: SlotRequest) -> None:
    """Remove a request from the queue of its pool."""
    with state.transaction(durable=False) as tx:
        lease = tx.leases.of(f"pool/{asked.pool}/wait/{asked.key}")
        if lease is not None:
            tx.leases.forget(lease)
