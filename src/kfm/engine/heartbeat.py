"""Renews the leases of the runs of this process, and of their pool slots, so that only a dead or stopped worker is
replaced.

A run renews its lease whenever it writes. But a step, a download or the sorting of a manifest may take longer than the
lease. Without the heartbeat another worker would then take the work over, and lose it to the next one in the same way.
One thread serves all runs of the process, and has their energy counters read. It starts when it is needed, and ends
when there was nothing to do for a while.
"""

from __future__ import annotations

import os
import threading

from kfm.engine.stage_results import Tenure
from kfm.engine.world import World
from kfm.errors import Conflict, KfmError

_kept: dict[int, tuple[World, Tenure]] = {}  # by the identity of the run or slot
_lock = threading.Lock()
_thread: threading.Thread | None = None
_stir = threading.Event()  # set when a shorter lease begins
_pause = 0.0  # seconds that the thread sleeps now


def _forget() -> None:
    """Forget all leases in a forked child: the runs belong to the parent, and its thread is not copied."""
    global _lock, _stir, _thread
    _lock, _stir, _thread = threading.Lock(), threading.Event(), None
    _kept.clear()


os.register_at_fork(after_in_child=_forget)


def begin(of: object, world: World, tenure: Tenure) -> None:
    """Renew the lease of `tenure` from now on, until `end` is called with the same object `of`."""
    global _thread
    with _lock:
        _kept[id(of)] = world, tenure
        if _thread is None:
            _thread = threading.Thread(target=_beat, daemon=True)
            _thread.start()
        elif _pace(world) < _pause:
            _stir.set()


def end(of: object) -> None:
    with _lock:
        _kept.pop(id(of), None)


def _pace(world: World) -> float:
    """Return the seconds between two checks of a lease."""
    return world.settings.lease_ms / 6000


def _beat() -> None:
    global _pause, _thread
    _pause = 0.0
    while True:
        if _stir.wait(_pause):
            _stir.clear()
        with _lock:
            kept = list(_kept.items())
            if not kept and _pause:
                _thread = None
                return
            _pause = min((_pace(world) for _, (world, _) in kept), default=1.0)
        for of, (world, tenure) in kept:
            _renew(of, world, tenure)
            if world.meter is not None:
                world.meter.sample()


def _renew(of: int, world: World, tenure: Tenure) -> None:
    lease, ttl = tenure.lease, world.settings.lease_ms
    now = world.clock.now_ms()
    if 0 <= now - tenure.renewed_ms <= ttl // 3:
        return
    try:
        with world.state.transaction(lease, durable=False) as tx:
            tx.leases.renew(lease, ttl)
        tenure.renewed_ms = now
    except Conflict:
        """Another worker is writing now, or has taken the lease over. The run itself notices the latter."""
    except KfmError:
        with _lock:
            _kept.pop(of, None)
