"""What is known of protected data: its classification, the cells in which it was first published, and its
fingerprints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kfm.errors import Moved
from kfm.model.labels import joined
from kfm.model.records import Classification
from kfm.store.codec import Repository, exact


class Protected(Repository):
    """Reads what the state remembers of protected data."""

    def is_empty(self) -> bool:
        tables = ("standings", "fingerprints")
        return not any(next(self._tables.scan(table, limit=1), None) for table in tables)

    def standing(self, of: str) -> Classification | None:
        """Return the classification of `source/` and an address; of `bytes/`, the id of a custodian's key and a digest
        keyed with it; of `sealed/` and the digest of encrypted bytes; or of `unjudged/` and the digest of bytes that
        wait for the verdict on their run: its rules are the digests of the encrypted bytes."""
        return self._one("standings", of, Classification)

    def keys_of_bytes(self) -> list[str]:
        """Return the ids of the custodians' keys with which digests of protected bytes were stored."""
        found: list[str] = []
        after = ""
        while row := next(self._tables.scan("standings", "bytes/", after=after, limit=1), None):
            found.append(row[0].split("/")[1])
            after = f"bytes/{found[-1]}/~"
        return found

    def sources(self) -> list[str]:
        """Return the addresses of sources that the state remembers as protected."""
        return [key.partition("/")[2] for key, _ in self._tables.scan("standings", "source/")]

    def first_cells(self, key_id: str) -> dict[str, str]:
        """Return, by public record id, the cell in which each record of this custodian's key was first published. Keys
        that begin with `place/` and `coarse/` hold the first cells of places and the coarser forms of values."""
        prefix = f"{key_id}/"
        return {key[len(prefix) :]: cell.decode() for key, cell in self._tables.scan("first_cells", prefix)}

    def fingerprints(self) -> Iterator[tuple[str, bytes]]:
        """Yield each stored set of fingerprints with the id of its key."""
        return ((key.partition("/")[0], body) for key, body in self._tables.scan("fingerprints"))


class ProtectedTx(Protected):
    """Writes what the state remembers of protected data, inside an open transaction."""

    def keep_standing(self, of: str, standing: Classification) -> None:
        """Store a classification, joined with the stored one: it can only become more closed."""
        known = self.standing(of)
        self._tables.put("standings", of, exact(standing if known is None else joined([known, standing])))

    def keep_first_cells(self, key_id: str, cells: Mapping[str, str]) -> None:
        rows = ((f"{key_id}/{identity}", cell.encode()) for identity, cell in sorted(cells.items()))
        self._tables.put_many("first_cells", rows)

    def keep_fingerprints(self, key_id: str, source: str, body: bytes) -> None:
        self._tables.put("fingerprints", f"{key_id}/{source}", body)

    def lower(self, of: str, known: Classification, stands: Classification | None) -> None:
        """Apply a signed change request: replace the classification `known`, which the signers saw, by `stands`; None
        removes it. Raise Moved if it changed meanwhile."""
        if self.standing(of) != known:
            raise Moved(
                "its classification changed after this was signed", hint="review it and request the change again"
            )
        if stands is None:
            self._tables.delete("standings", of)
        else:
            self._tables.put("standings", of, exact(stands))

    def forget_fingerprints(self, key_id: str, source: str) -> None:
        self._tables.delete("fingerprints", f"{key_id}/{source}")

    def forget_unjudged(self, digest: str, under: str) -> None:
        """Remove where bytes wait for the verdict on their run, and the encrypted bytes if they are a row."""
        self._tables.delete("standings", f"unjudged/{digest}")
        self._tables.delete("objects", under)
