"""The embedded lineage graph. Receipts say what each run read and made; this index leads back from data to runs.

`used/ADDRESS#DIGEST@INDEX` leads to the run of that ledger entry, which read this. `made/DATASET@DIGEST@INDEX` leads to
a run that made a version again; the version itself names its first maker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kfm.model.lineage_edges import Edge, Use, made_by, used_by
from kfm.model.records import Receipt
from kfm.store.codec import Repository

Row = tuple[str, bytes]


def used_rows(index: int, run_id: str, edges: Iterable[Edge]) -> list[Row]:
    return sorted((f"used/{address}#{digest}@{index:012d}", run_id.encode()) for address, digest in edges)


def made_row(index: int, run_id: str, dataset: str, version: str) -> Row:
    return f"made/{dataset}@{version}@{index:012d}", run_id.encode()


def rows_of(index: int, receipt: Receipt, first_maker: str) -> list[Row]:
    """Return all index rows of a run. `first_maker` is the first run that made its version."""
    rows = used_rows(index, receipt.run_id, used_by(receipt))
    made = made_by(receipt)
    if made and first_maker != receipt.run_id:
        rows.append(made_row(index, receipt.run_id, receipt.dataset, made))
    return rows


class Lineage(Repository):
    """Reads which run read or made which data."""

    def users(self, address: str, digest: str = "") -> Iterator[Use]:
        """Yield the runs that read this address; with a digest, only those that read these bytes, the first that ended
        first."""
        prefix = f"used/{address}#{digest}" + ("@" if digest else "")
        for key, run_id in self._tables.scan("lineage", prefix):
            what, _, index = key.removeprefix("used/").rpartition("@")
            found, _, checksum = what.rpartition("#")
            if found == address:  # a longer address may begin with this one
                yield Use(address, checksum, int(index), run_id.decode())

    def makers(self, dataset: str, version: str) -> Iterator[str]:
        """Yield every run that made this version, the first one first."""
        known = self._state.ledger.version(dataset, version)
        if known is not None:
            yield known.run_id
        for _, run_id in self._tables.scan("lineage", f"made/{dataset}@{version}@"):
            yield run_id.decode()


class LineageTx(Lineage):
    """Writes which run read or made which data, inside an open transaction."""

    def keep(self, run_id: str, edges: Iterable[Edge]) -> None:
        """Store the inputs of the run that this transaction ends, by address and digest."""
        rows = used_rows(self._state.last("ledger") + 1, run_id, edges)
        if len(rows) == 1:
            self._tables.put("lineage", *rows[0])
        elif rows:
            self._tables.put_many("lineage", rows)
