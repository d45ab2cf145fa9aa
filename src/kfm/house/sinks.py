"""Who follows the ledger here, by the configuration, and telling them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.errors import BadInput, KfmError
from kfm.house.followed import House, lock_of

if TYPE_CHECKING:
    from kfm.engine.following import Follower, Progress


def followers(house: House) -> Iterator[Follower]:
    """In the order in which they are told. Each sink is opened when it is its turn, and only where it is configured."""
    if house.resolved.config.catalog:
        from kfm.house.catalogs import catalog_follower

        yield catalog_follower(house)
    if house.resolved.config.pages:
        from kfm.house.pages import pages_follower

        yield pages_follower(house)
    if house.resolved.config.graph:
        from kfm.house.graph import graph_follower

        yield graph_follower(house.resolved, house.state, house.objects, lock_of(house, "graph"))
    if house.resolved.config.openlineage.file or house.resolved.config.openlineage.url:
        from functools import partial

        from kfm.house.openlineage import openlineage_followers

        yield from openlineage_followers(house.resolved, house.state, house.objects, partial(lock_of, house))


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


def how_far(house: House) -> list[Progress]:
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
