"""The status of pools: which runs have a slot and which wait."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record


class PoolClaim(Record, frozen=True):
    """A run that has a slot or waits for one."""

    dataset: str
    partition: str  # empty: the whole dataset
    slot: int | None  # None: it waits
    since: str  # when it took the slot, or began to wait
    waited_ms: int  # before it took the slot, or until now
    priority: Literal["normal", "low"]  # low: all other runs go first
    process: str  # host and process id


class Pool(Record, frozen=True):
    """The status of one pool. Waiting runs are in the order in which they will get a slot."""

    pool: str
    slots: int
    free: int
    held: list[PoolClaim]
    waiting: list[PoolClaim]
