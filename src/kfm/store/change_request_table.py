"""Orders: what one person alone may not do, each as it stands now. What each was before is where its ref was."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.store.codec import Noun


class Orders(Noun):
    """Reading."""

    def all(self) -> Iterator[tuple[str, bytes]]:
        """The digest of each request, and the order."""
        return self._tables.scan("orders")


class OrdersTx(Orders):
    """Writing, in an open transaction."""

    def keep(self, request: str, body: bytes) -> None:
        self._tables.put("orders", request, body)
