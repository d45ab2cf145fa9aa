"""The table of change requests: actions that one person alone may not take, each in its current state. Its ref's
history leads to the earlier states."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.store.codec import Repository


class Orders(Repository):
    """Reads the stored change requests."""

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Yield the digest of each request, and the stored change request."""
        return self._tables.scan("orders")


class OrdersTx(Orders):
    """Writes change requests, inside an open transaction."""

    def keep(self, request: str, body: bytes) -> None:
        self._tables.put("orders", request, body)
