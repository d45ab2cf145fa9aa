"""Pools as they are told: who has a slot, and who waits for one."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record


class PoolClaim(Record, frozen=True):
    """One that has a slot, or waits."""

    dataset: str
    partition: str  # empty: the whole dataset
    slot: int | None  # None: it waits
    since: str  # when it took the slot, or began to wait
    waited_ms: int  # before it took the slot, or until now
    priority: Literal["normal", "low"]  # low: all others go first
    process: str  # host and number


class Pool(Record, frozen=True):
    """How one stands. Who waits is in the order in which it comes."""

    pool: str
    slots: int
    free: int
    held: list[PoolClaim]
    waiting: list[PoolClaim]
