"""Pools over an open house: a run takes a slot before it looks at its sources, waits for one if it must, and gives it
back whatever becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Protocol

from kfm.clock import parse_instant
from kfm.contract.keys import digest
from kfm.contract.records import Lease, Run, Trigger
from kfm.engine import heartbeat
from kfm.engine.stations import Tenure
from kfm.engine.walk import Ports
from kfm.errors import BadInput, Conflict, Full, KfmError
from kfm.orchestration.pools import Asked, leave, read, take
from kfm.store.holders import is_held, this_process

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.config import Config
    from kfm.contract.ports import Log, State
    from kfm.house.stored import Mode

PAUSE_S = 0.2  # between two looks of somebody who waits
_asked = count(1)


class Pooled(Protocol):
    """What is needed of an open house."""

    config: Config
    mode: Mode
    clock: Clock
    log: Log
    progress: Callable[[str, int, int], None]

    @property
    def state(self) -> State: ...


def pool_of(house: Pooled, trigger: Trigger) -> str:
    """Whose slot a run of it takes; empty: none. One that is no longer declared limits nothing."""
    pools = house.config.pools
    if not pools or house.mode != "write" or trigger.kind == "operation":
        return ""
    declared = house.config.datasets.get(trigger.dataset)
    said = trigger.pool if trigger.pool in pools else declared.pool if declared is not None else ""
    return said if said in pools else ""


@contextmanager
def slot(house: Pooled, trigger: Trigger, ports: Ports, unfinished: Run | None, *, patient: bool) -> Iterator[Ports]:
    """The world of a run that has its slot, if it needs one. Not `patient`: Full where it would have to wait; its place
    is kept for as long as it comes back."""
    pool = pool_of(house, trigger)
    if not pool or _is_cancelled(house, unfinished):  # that one only ends
        yield ports
        return
    asked = _asking(house, pool, trigger, unfinished)
    try:
        taken = _wait(house, asked, trigger, unfinished, ports, patient=patient)
    except Full:
        raise
    except BaseException:
        with suppress(KfmError):
            leave(house.state, asked)
        raise
    if taken is None:
        yield ports
        return
    claim = read(taken)
    ports.slot, ports.waited_ms = taken, max(claim.taken_ms - claim.since_ms, 0)
    tenure = Tenure(taken, house.clock.now_ms())
    heartbeat.begin(tenure, ports, tenure)
    try:
        yield ports
    finally:
        heartbeat.end(tenure)
        with suppress(KfmError):  # it runs out by itself
            house.state.leases.release(taken)


def _asking(house: Pooled, pool: str, trigger: Trigger, unfinished: Run | None) -> Asked:
    if trigger.updater_id == "pool":
        raise BadInput("an updater cannot be called pool where there are pools", hint="give it another id")
    key = trigger.trigger_id or (unfinished.run_id if unfinished is not None else "")
    now_ms = house.clock.now_ms()
    return Asked(
        pool=pool,
        slots=house.config.pools[pool],
        key=key or digest(f"{this_process()}/{next(_asked)}".encode())[7:23],
        about=f"{trigger.dataset}/{trigger.partition}" if trigger.partition else trigger.dataset,
        received_ms=parse_instant(trigger.received_at, "a trigger") if trigger.received_at else now_ms,
        low=trigger.low,
    )


def _wait(
    house: Pooled, asked: Asked, trigger: Trigger, unfinished: Run | None, ports: Ports, *, patient: bool
) -> Lease | None:
    """A slot; None: the run was cancelled while it waited, and only ends."""
    since, lease_ms = house.clock.monotonic(), ports.settings.lease_ms
    waits = False
    while (lease := take(house.state, asked, this_process(), lease_ms, house.clock.now_ms(), is_held)) is None:
        if not patient:
            raise Full(f"every slot of pool {asked.pool} is taken", hint="its turn comes: see `kfm pools`")
        if not waits:
            house.log.event("pool.waiting", pool=asked.pool, dataset_ids=[trigger.dataset])
            waits = True
        house.progress(f"waiting for pool {asked.pool}", 0, 0)
        house.clock.sleep(PAUSE_S)
        check_wanted(house, trigger, unfinished)
        if _is_cancelled(house, unfinished):
            leave(house.state, asked)
            return None
    waited_ms = round((house.clock.monotonic() - since) * 1000)
    house.log.event("pool.taken", pool=asked.pool, wait_ms=waited_ms, dataset_ids=[trigger.dataset])
    return lease


def check_wanted(house: Pooled, trigger: Trigger, unfinished: Run | None) -> None:
    """Is the unfinished run, or the trigger that was kept, still to be done?"""
    if unfinished is not None:
        now = house.state.runs.get(unfinished.run_id)
        wanted = now is not None and now.status == "RUNNING"
    else:
        wanted = not trigger.trigger_id or house.state.inbox.kept(trigger) is not None
    if not wanted:
        raise Conflict("another worker has ended this work meanwhile", hint="nothing is left to do")


def _is_cancelled(house: Pooled, unfinished: Run | None) -> bool:
    if unfinished is None:
        return False
    return house.state.refs.at(f"switch/run/{unfinished.run_id}") not in ("", "open")
