"""Whose turn it is to keep an installation up: one process at a time, by a lease.

The turn is for peace, not for safety. Two that both think it is theirs do no harm: a tick is claimed once, and a run
has a lease of its own. So it is not renewed while a long run is at work: then another one may look after the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kfm.errors import Busy, Conflict
from kfm.store.process_identity import is_held, this_process

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Lease


class Turn:
    """Of all datasets, or of some: those who look after other ones have turns of their own."""

    def __init__(self, session: Session, datasets: Sequence[str]) -> None:
        self._state = session.state
        self._clock = session.clock
        self._ttl_ms = round(session.config.execute.lease_s * 1000)
        some = set(datasets) != set(session.config.datasets)
        named = hashlib.sha256("\n".join(sorted(datasets)).encode()).hexdigest()[:16]
        self.scope = f"up/{named}" if some else "up"
        self._lease: Lease | None = None
        self._renewed_ms = 0

    def take(self) -> bool:
        """Is it ours? It is renewed when it is time, and taken if nobody has it."""
        now_ms = self._clock.now_ms()
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
            return self.take()
        self._renewed_ms = now_ms
        return True

    def holder(self) -> Lease | None:
        """Who else has it; None: nobody."""
        lease = self._state.leases.of(self.scope)
        return lease if lease is not None and is_held(lease, self._clock.now_ms()) else None

    def give_back(self) -> None:
        if self._lease is not None:
            self._state.leases.release(self._lease)
            self._lease = None
