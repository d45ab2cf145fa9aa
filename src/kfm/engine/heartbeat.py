"""Renews the leases of the runs this process is at work on, so that only a dead or stopped worker is replaced.

A run renews its lease with what it writes anyway. But a step may take longer than the lease, and so may
reading a source or sorting a manifest; whoever came then would take the work over and lose it in turn to
the next. One thread for the whole process looks after all its runs. It comes when it is needed, and goes
when there was nothing to do for a while.
"""

from __future__ import annotations

import os
import threading

from kfm.engine.stations import Tenure
from kfm.engine.walk import Walk
from kfm.errors import Conflict, KfmError

_walks: dict[int, tuple[Walk, Tenure]] = {}
_lock = threading.Lock()
_thread: threading.Thread | None = None
_stir = threading.Event()  # a shorter lease has come in
_pause = 0.0  # how long the thread sleeps now


def _forget() -> None:
    """In a forked child: the runs are the parent's, and its thread did not come along."""
    global _lock, _stir, _thread
    _lock, _stir, _thread = threading.Lock(), threading.Event(), None
    _walks.clear()


os.register_at_fork(after_in_child=_forget)


def begin(walk: Walk, tenure: Tenure) -> None:
    """From here on the walk's lease is renewed."""
    global _thread
    with _lock:
        _walks[id(walk)] = walk, tenure
        if _thread is None:
            _thread = threading.Thread(target=_beat, daemon=True)
            _thread.start()
        elif _pace(walk) < _pause:
            _stir.set()


def end(walk: Walk) -> None:
    with _lock:
        _walks.pop(id(walk), None)


def _pace(walk: Walk) -> float:
    """Seconds between two looks at a run's lease."""
    return walk.ports.settings.lease_ms / 6000


def _beat() -> None:
    global _pause, _thread
    _pause = 0.0
    while True:
        if _stir.wait(_pause):
            _stir.clear()
        with _lock:
            walks = list(_walks.values())
            if not walks and _pause:
                _thread = None
                return
            _pause = min((_pace(walk) for walk, _ in walks), default=1.0)
        for walk, tenure in walks:
            _renew(walk, tenure)


def _renew(walk: Walk, tenure: Tenure) -> None:
    lease, ttl = tenure.lease, walk.ports.settings.lease_ms
    now = walk.ports.clock.now_ms()
    if now - tenure.renewed_ms <= ttl // 3:
        return
    try:
        with walk.ports.state.transaction(lease, durable=False) as tx:
            tx.leases.renew(lease, ttl)
        tenure.renewed_ms = now
    except Conflict:
        """Someone is writing just now, or the lease was taken over, which the run will find out by itself."""
    except KfmError:
        end(walk)
