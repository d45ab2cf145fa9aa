"""A lock between processes of several machines: a lease in the state, which its holder renews while it works.

A file lock does not reach across machines. A lease ends with its time when its holder dies, and a holder that was
stopped for longer has lost it. So it only avoids double work: whatever is written under it also carries a number or a
condition that the receiver checks.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from kfm.errors import Busy, Conflict, KfmError
from kfm.store.process_identity import this_process

if TYPE_CHECKING:
    from kfm.model.ports import State, Tx
    from kfm.model.records import Lease

TTL_MS = 30_000


class StateLock:
    """Implements the Lock port over a lease. Several locks of one process exclude each other, as file locks do."""

    def __init__(self, state: State, name: str, *, ttl_ms: int = TTL_MS) -> None:
        self._state = state
        self._scope = f"lock/{name}"
        self._ttl_ms = ttl_ms
        self._lease: Lease | None = None
        self._ended = threading.Event()

    def take(self) -> bool:
        """Take the lock; return False if another holder has it."""
        if self._lease is not None:
            return False
        try:
            self._lease = self._state.leases.acquire(self._scope, this_process(), self._ttl_ms)
        except Busy:
            return False
        self._ended = ended = threading.Event()
        threading.Thread(target=self._renew, args=(self._lease, ended), name=self._scope, daemon=True).start()
        return True

    def is_held(self, tx: Tx) -> bool:
        """Return whether nobody took the lock over. One that only ran out is still held: nobody wrote meanwhile."""
        found = tx.leases.of(self._scope)
        return self._lease is not None and found is not None and found.token == self._lease.token

    def release(self) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock. Its lease runs out by itself if the state does not answer."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        self._ended.set()  # not waited for: a released lease stays released
        with contextlib.suppress(KfmError):
            self._state.leases.release(lease)

    def _renew(self, lease: Lease, ended: threading.Event) -> None:
        while not ended.wait(self._ttl_ms / 3000):
            try:
                with self._state.transaction(lease, durable=False) as tx:
                    tx.leases.renew(lease, self._ttl_ms)
            except Busy:  # another process is writing: the next turn renews it
                continue
            except Conflict:  # another holder took it over
                return
            except KfmError:  # the state does not answer
                continue
