"""The facts about protected data that a run adds to the state."""

from __future__ import annotations

from msgspec import Struct

from kfm.model.ports import Tx
from kfm.model.records import Classification


class Facts(Struct):
    """Facts about protected data. They are stored with the plan, or with the receipt of a failed run."""

    standings: dict[str, Classification] = {}
    cells: dict[str, dict[str, str]] = {}  # the cells of public ids, by the id of the key
    prints: dict[tuple[str, str], bytes] = {}  # by the id of the key and the digest of the encrypted source

    def keep(self, tx: Tx) -> None:
        for of, standing in self.standings.items():
            tx.protected.keep_standing(of, standing)
        for key_id, cells in self.cells.items():
            tx.protected.keep_first_cells(key_id, cells)
        for (key_id, source), body in self.prints.items():
            tx.protected.keep_fingerprints(key_id, source, body)
