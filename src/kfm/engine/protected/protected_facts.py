"""The facts about protected data that a run adds to the state."""

from __future__ import annotations

from msgspec import Struct

from kfm.errors import Moved
from kfm.model.ports import Tx
from kfm.model.records import Classification


class Facts(Struct):
    """Facts about protected data. They are stored with the plan, or with the receipt of a failed run."""

    standings: dict[str, Classification] = {}
    cells: dict[str, dict[str, str]] = {}  # what is remembered of records and places, by the id of the key
    seen: dict[str, dict[str, str]] = {}  # the same before this run, where it is replaced
    prints: dict[tuple[str, str], bytes] = {}  # by the id of the key and the digest of the encrypted source

    def remember(self, key_id: str, rows: dict[str, str], seen: dict[str, str]) -> None:
        """Add what a source showed of its records and places. `seen` are the earlier rows that it replaces."""
        self.cells.setdefault(key_id, {}).update(rows)
        self.seen.setdefault(key_id, {}).update(seen)

    def keep(self, tx: Tx) -> None:
        """Store the facts. Moved if another run gave a place or a record another cell since this one looked."""
        self._keep(tx, strict=True)

    def keep_after_failure(self, tx: Tx) -> None:
        """Store the facts of a failed run, except what another run stored differently."""
        self._keep(tx, strict=False)

    def _keep(self, tx: Tx, *, strict: bool) -> None:
        for of, standing in self.standings.items():
            tx.protected.keep_standing(of, standing)
        for key_id, rows in self.cells.items():
            known = tx.protected.first_cells(key_id) if rows else {}
            seen = self.seen.get(key_id, {})
            other = {name for name, value in rows.items() if known.get(name, value) not in (value, seen.get(name))}
            if other and strict:
                raise Moved(
                    "another run has shown some of the same records or places meanwhile",
                    hint="run it again: it then uses the same cells",
                )
            tx.protected.keep_first_cells(
                key_id, {name: value for name, value in rows.items() if name not in other and known.get(name) != value}
            )
        for (key_id, source), body in self.prints.items():
            tx.protected.keep_fingerprints(key_id, source, body)
