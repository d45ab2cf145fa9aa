"""Leases with fencing tokens: which worker works on which scope."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kfm.errors import Busy, Fenced
from kfm.model.records import Lease
from kfm.store.codec import Repository, exact
from kfm.store.process_identity import is_held


class Leases(Repository):
    """Reads the leases; each method that changes a lease opens its own transaction."""

    def of(self, scope: str) -> Lease | None:
        return self._one("leases", scope, Lease)

    def below(self, scope: str) -> Iterator[Lease]:
        return self._many("leases", Lease, scope + "/")

    def acquire(self, scope: str, holder: str, ttl_ms: int) -> Lease:
        with self._state.transaction(durable=False) as tx:
            return tx.leases.acquire(scope, holder, ttl_ms)

    def release(self, lease: Lease) -> None:
        """Release the lease. Only the owner can: a stale token frees nothing."""
        with self._state.transaction(durable=False) as tx:
            tx.leases.release(lease)


class LeasesTx(Leases):
    """Writes leases, inside an open transaction."""

    def acquire(self, scope: str, holder: str, ttl_ms: int) -> Lease:
        now = self._state.now_ms()
        for current in list(self._against(scope)):
            if is_held(current, now):
                raise _busy(current, now)
            if current.scope != scope:  # fences off its former holder, as a new lease on the same scope does
                self._tables.delete("leases", current.scope)
        self._state.recheck("leases")
        token = self._state.next("token")
        lease = Lease(scope=scope, token=token, holder=holder, expires_ms=now + ttl_ms, ttl_ms=ttl_ms)
        self._tables.put("leases", scope, exact(lease))
        return lease

    def _against(self, scope: str) -> Iterator[Lease]:
        """Yield the leases that exclude one on this scope: on the same scope, on the whole it belongs to, and on its
        parts."""
        names = scope.split("/")
        for end in range(min(2, len(names)), len(names) + 1):
            lease = self.of("/".join(names[:end]))
            if lease is not None:
                yield lease
        if len(names) == 2:
            yield from self._many("leases", Lease, scope + "/")

    def renew(self, lease: Lease, ttl_ms: int) -> None:
        """Extend the lease, only inside a fenced transaction, so the token is current. A released lease stays
        released."""
        current = self.of(lease.scope)
        if current is not None and current.expires_ms:
            renewed = msgspec.structs.replace(current, expires_ms=self._state.now_ms() + ttl_ms, ttl_ms=ttl_ms)
            self._tables.put("leases", lease.scope, exact(renewed))

    def release(self, lease: Lease) -> None:
        self._state.recheck("leases")
        current = self.of(lease.scope)
        if current is not None and current.token == lease.token:
            self._tables.put("leases", lease.scope, exact(msgspec.structs.replace(current, expires_ms=0)))

    def forget(self, lease: Lease) -> None:
        self._state.recheck("leases")
        current = self.of(lease.scope)
        if current is not None and current.token == lease.token:
            self._tables.delete("leases", lease.scope)

    def check(self, lease: Lease) -> None:
        current = self.of(lease.scope)
        # Compare the holder too: a token from a rolled-back transaction is issued again.
        if current is None or (current.token, current.holder) != (lease.token, lease.holder):
            what = f"the lease on {lease.scope} was taken over by another worker"
            raise Fenced(what, hint="nothing was written; the other worker carries on", token=lease.token)


def _busy(current: Lease, now: int) -> Busy:
    left = current.expires_ms - now
    seconds = (min(left, current.ttl_ms or left) + 999) // 1000
    updater, _, work = current.scope.partition("/")
    if updater != work.partition("/")[0]:  # most updaters have the name of their dataset
        work = current.scope
    return Busy(
        f"another worker is at work on {work} (its lease ends in {seconds} s)",
        hint="wait for it, or stop it and try again",
    )
