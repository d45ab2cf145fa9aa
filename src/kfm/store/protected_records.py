"""What is known of protected data: how it stands, in which cells it was first shown, and by what it is known again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kfm.errors import Moved
from kfm.model.labels import joined
from kfm.model.records import Standing
from kfm.store.codec import Noun, exact


class Protected(Noun):
    """Reading."""

    def is_empty(self) -> bool:
        tables = ("standings", "fingerprints")
        return not any(next(self._tables.scan(table, limit=1), None) for table in tables)

    def standing(self, of: str) -> Standing | None:
        """`source/` and an address; `bytes/`, the id of a custodian's key and the digest keyed with it; or `sealed/`
        and the digest of sealed bytes."""
        return self._one("standings", of, Standing)

    def keys_of_bytes(self) -> list[str]:
        """The ids of the keys under which exact bytes are known."""
        found: list[str] = []
        after = ""
        while row := next(self._tables.scan("standings", "bytes/", after=after, limit=1), None):
            found.append(row[0].split("/")[1])
            after = f"bytes/{found[-1]}/~"
        return found

    def first_cells(self, key_id: str) -> dict[str, str]:
        """By the public ids of the records."""
        prefix = f"{key_id}/"
        return {key[len(prefix) :]: cell.decode() for key, cell in self._tables.scan("first_cells", prefix)}

    def fingerprints(self) -> Iterator[tuple[str, bytes]]:
        """Each with the id of the key it was made with."""
        return ((key.partition("/")[0], body) for key, body in self._tables.scan("fingerprints"))


class ProtectedTx(Protected):
    """Writing, in an open transaction."""

    def keep_standing(self, of: str, standing: Standing) -> None:
        """Only ever more closed."""
        known = self.standing(of)
        self._tables.put("standings", of, exact(standing if known is None else joined([known, standing])))

    def keep_first_cells(self, key_id: str, cells: Mapping[str, str]) -> None:
        rows = ((f"{key_id}/{identity}", cell.encode()) for identity, cell in sorted(cells.items()))
        self._tables.put_many("first_cells", rows)

    def keep_fingerprints(self, key_id: str, source: str, body: bytes) -> None:
        self._tables.put("fingerprints", f"{key_id}/{source}", body)

    def lower(self, of: str, known: Standing, stands: Standing | None) -> None:
        """By order: from what those who signed it knew, to what they signed; None forgets it."""
        if self.standing(of) != known:
            raise Moved("more was learned of it since this was decided", hint="look again, and order it anew")
        if stands is None:
            self._tables.delete("standings", of)
        else:
            self._tables.put("standings", of, exact(stands))

    def forget_fingerprints(self, key_id: str, source: str) -> None:
        self._tables.delete("fingerprints", f"{key_id}/{source}")
