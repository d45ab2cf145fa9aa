"""The embedded graph. Receipts say what each run read and made; kept here is the way back, from things to runs.

`used/ADDRESS#DIGEST@INDEX` leads to the run of that ledger entry which read this. `made/DATASET@DIGEST@INDEX` leads to
one that made a version which another had made before; the first maker is in the version itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kfm.model.lineage_edges import Edge, Use, made_by, used_by
from kfm.model.records import Receipt
from kfm.store.codec import Noun

Row = tuple[str, bytes]


def used_rows(index: int, run_id: str, edges: Iterable[Edge]) -> list[Row]:
    return sorted((f"used/{address}#{digest}@{index:012d}", run_id.encode()) for address, digest in edges)


def made_row(index: int, run_id: str, dataset: str, version: str) -> Row:
    return f"made/{dataset}@{version}@{index:012d}", run_id.encode()


def rows_of(index: int, receipt: Receipt, first_maker: str) -> list[Row]:
    """All that a run is to have here. `first_maker`: of the version that it made."""
    rows = used_rows(index, receipt.run_id, used_by(receipt))
    made = made_by(receipt)
    if made and first_maker != receipt.run_id:
        rows.append(made_row(index, receipt.run_id, receipt.dataset, made))
    return rows


class Lineage(Noun):
    """Reading."""

    def users(self, address: str, digest: str = "") -> Iterator[Use]:
        """Runs that read this; without a digest, whatever was there. Of one digest, the first that ended first."""
        prefix = f"used/{address}#{digest}" + ("@" if digest else "")
        for key, run_id in self._tables.scan("lineage", prefix):
            what, _, index = key.removeprefix("used/").rpartition("@")
            found, _, checksum = what.rpartition("#")
            if found == address:  # another may only begin so
                yield Use(address, checksum, int(index), run_id.decode())

    def makers(self, dataset: str, version: str) -> Iterator[str]:
        """Every run that made this version, the first one first."""
        known = self._state.ledger.version(dataset, version)
        if known is not None:
            yield known.run_id
        for _, run_id in self._tables.scan("lineage", f"made/{dataset}@{version}@"):
            yield run_id.decode()


class LineageTx(Lineage):
    """Writing, in an open transaction."""

    def keep(self, run_id: str, edges: Iterable[Edge]) -> None:
        """What the run that this transaction ends has read."""
        rows = used_rows(self._state.last("ledger") + 1, run_id, edges)
        if len(rows) == 1:
            self._tables.put("lineage", *rows[0])
        elif rows:
            self._tables.put_many("lineage", rows)
