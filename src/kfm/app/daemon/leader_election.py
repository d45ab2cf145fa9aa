"""Leader election: one process at a time runs `kfm up` for an installation, by a lease.

The lease avoids duplicate work; correctness does not depend on it, because each tick is claimed once and each run holds
its own lease. It is not renewed during a long run, so that another process can take over the rest.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kfm.errors import Busy, Conflict
from kfm.store.process_identity import is_held, this_process

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Lease


class LeaderLease:
    """The leader lease for a set of datasets. Processes that run other datasets have other leases."""

    def __init__(self, session: Session, datasets: Sequence[str]) -> None:
        self._state = session.state
        self._ttl_ms = round(session.config.execute.lease_s * 1000)
        some = set(datasets) != set(session.config.datasets)
        named = hashlib.sha256("\n".join(sorted(datasets)).encode()).hexdigest()[:16]
        self.scope = f"up/{named}" if some else "up"
        self._lease: Lease | None = None
        self._renewed_ms = 0
        self._lock = threading.Lock()  # each job asks before it begins a run

    def take(self) -> bool:
        """Acquire the lease if it is free, or renew it in time. Return whether this process holds it."""
        with self._lock:
            return self._take()

    def _take(self) -> bool:
        now_ms = self._state.now_ms()
        try:
            if self._lease is None:
                self._lease = self._state.leases.acquire(self.scope, this_process(), self._ttl_ms)
            elif not 0 <= now_ms - self._renewed_ms < self._ttl_ms // 3:
                with self._state.transaction(self._lease, durable=False) as tx:
                    tx.leases.renew(self._lease, self._ttl_ms)
            else:
                return True
        except Busy:
            return False
        except Conflict:
            self._lease = None
            return self._take()
        self._renewed_ms = now_ms
        return True

    def holder(self) -> Lease | None:
        """Return the valid lease of any process; None if there is none."""
        lease = self._state.leases.of(self.scope)
        return lease if lease is not None and is_held(lease, self._state.now_ms()) else None

    def give_back(self) -> None:
        """Release the lease if this process holds it."""
        if self._lease is not None:
            self._state.leases.release(self._lease)
            self._lease = None


def is_led(session: Session) -> bool:
    """Return whether a process runs `kfm up` for every dataset of this installation now."""
    lease = session.state.leases.of("up")
    return lease is not None and is_held(lease, session.state.now_ms())
