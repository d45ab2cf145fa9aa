"""Renews the leases of the runs this process is at work on, and of the slots they have, so that only a dead or stopped
worker is replaced.

A run renews its lease with what it writes anyway. But a step may take longer than the lease, and so may
reading a source or sorting a manifest; whoever came then would take the work over and lose it in turn to
the next. One thread for the whole process looks after all its runs. It comes when it is needed, and goes
when there was nothing to do for a while.
"""

from __future__ import annotations

import os
import threading

from kfm.engine.stage_results import Tenure
from kfm.engine.world import World
from kfm.errors import Conflict, KfmError

_kept: dict[int, tuple[World, Tenure]] = {}  # by the walk or the slot that they are of
_lock = threading.Lock()
_thread: threading.Thread | None = None
_stir = threading.Event()  # a shorter lease has come in
_pause = 0.0  # how long the thread sleeps now


def _forget() -> None:
    """In a forked child: the runs are the parent's, and its thread did not come along."""
    global _lock, _stir, _thread
    _lock, _stir, _thread = threading.Lock(), threading.Event(), None
    _kept.clear()


os.register_at_fork(after_in_child=_forget)


def begin(of: object, world: World, tenure: Tenure) -> None:
    """From here on the lease is renewed, until `end` of the same."""
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
    """Seconds between two looks at a lease."""
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


def _renew(of: int, world: World, tenure: Tenure) -> None:
    lease, ttl = tenure.lease, world.settings.lease_ms
    now = world.clock.now_ms()
    if now - tenure.renewed_ms <= ttl // 3:
        return
    try:
        with world.state.transaction(lease, durable=False) as tx:
            tx.leases.renew(lease, ttl)
        tenure.renewed_ms = now
    except Conflict:
        """Someone is writing just now, or the lease was taken over, which the run will find out by itself."""
    except KfmError:
        with _lock:
            _kept.pop(of, None)
