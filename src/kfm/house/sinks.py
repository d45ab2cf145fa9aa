"""Who follows the ledger here, by the configuration, and telling them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kfm.errors import BadInput, KfmError

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.config import Resolved
    from kfm.contract.ports import Lock, Log, Objects, State
    from kfm.engine.following import Follower, Progress


class House(Protocol):
    """As much of the house as there is to tell."""

    @property
    def resolved(self) -> Resolved: ...

    @property
    def state(self) -> State: ...

    @property
    def objects(self) -> Objects: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def log(self) -> Log: ...

    def retention(self, dataset: str) -> int: ...


def followers(house: House) -> Iterator[Follower]:
    """In the order in which they are told. Each sink is opened when it is its turn, and only where it is configured."""
    if house.resolved.config.graph:
        from kfm.house.graph import graph_follower

        yield graph_follower(house.resolved, house.state, house.objects, lock_of(house, "graph"))


def tell_sinks(house: House, *, again: bool = False, only: str = "") -> list[KfmError]:
    """Tell each what it has not heard; what keeps those that do not go on."""
    problems: list[KfmError] = []
    for follower in followers(house):
        if only in ("", follower.sink.name):
            from kfm.engine.following import follow

            problem = follow(house.state, follower, house.clock, house.log, again=again)
            if problem is not None:
                problems.append(problem)
    return problems


def lock_of(house: House, sink: str) -> Callable[[], Lock]:
    """For whoever tells this sink: one process at a time."""
    from kfm.store.locks import FileLock

    return partial(FileLock, os.path.join(house.resolved.at(".kfm"), f"sink-{sink}.lock"))


def sinks(house: House) -> list[Progress]:
    """Every sink that is configured, and how far it is."""
    from kfm.engine.following import progress

    return [progress(house.state, follower.sink.name) for follower in followers(house)]


def retry(house: House, name: str) -> list[KfmError]:
    """Tell a sink now, whatever it said before, also of what it refused."""
    known = [follower.sink.name for follower in followers(house)]
    if name not in known:
        told = ", ".join(known) or "none"
        raise BadInput("no sink is called so", hint=f"the configuration has: {told}")
    return tell_sinks(house, again=True, only=name)
