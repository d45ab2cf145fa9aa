"""What a run learns of protected data on its way."""

from __future__ import annotations

from msgspec import Struct

from kfm.model.ports import Tx
from kfm.model.records import Classification


class Facts(Struct):
    """What a run learns of protected data, kept with its plan or with the receipt of its failure."""

    standings: dict[str, Classification] = {}
    cells: dict[str, dict[str, str]] = {}  # by the ids of the keys: public ids and cells
    prints: dict[tuple[str, str], bytes] = {}  # by the id of the key and the digest of the sealed source

    def keep(self, tx: Tx) -> None:
        for of, standing in self.standings.items():
            tx.protected.keep_standing(of, standing)
        for key_id, cells in self.cells.items():
            tx.protected.keep_first_cells(key_id, cells)
        for (key_id, source), body in self.prints.items():
            tx.protected.keep_fingerprints(key_id, source, body)
