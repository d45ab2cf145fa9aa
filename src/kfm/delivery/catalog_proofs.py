"""The proof of a run for readers of the catalog: its place in the ledger, its receipt, and the signed statements.

The place is proved by the first signed head that covers it, so a proof does not change while the ledger grows.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import msgspec

from kfm.crypto import merkle
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.ports import State
from kfm.model.public_run import PublicRun


class Proofs:
    """Builds the proofs of runs for the catalog. It reads the ledger once, and only if a head was signed."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._notes = list(state.ledger.checkpoints())
        self._hashes: list[bytes] | None = None

    @property
    def covered(self) -> int:
        """Return how many entries the newest signed head covers."""
        return self._notes[-1][0] if self._notes else 0

    def of(self, run: PublicRun) -> bytes:
        leaf = next(iter(self._state.ledger.leaves(after=run.index - 1)))
        name = run.dataset.removeprefix("kfm://dataset/")
        return canonical(
            {
                "run_id": run.run_id,
                "version": run.version,
                "receipt": {"digest": run.receipt_digest},
                "ledger": {"index": run.index, "leaf": merkle.leaf_hash(leaf).hex(), **self._inclusion(run.index)},
                "attestations": [
                    _envelope(run, envelope)
                    for key, envelope in self._state.ledger.attestations(f"{name}@{run.version}")
                    if key.endswith(f"/{run.run_id}")
                ],
            }
        )

    def _inclusion(self, index: int) -> dict[str, Any]:
        at = bisect_left(self._notes, index, key=lambda note: note[0])
        if at == len(self._notes):
            return {}
        size, note = self._notes[at]
        if self._hashes is None:
            self._hashes = [merkle.leaf_hash(leaf) for leaf in self._state.ledger.leaves()]
        way = merkle.inclusion_proof(self._hashes[:size], index - 1)
        return {"checkpoint": note, "size": size, "inclusion": [each.hex() for each in way]}


def _envelope(run: PublicRun, envelope: bytes) -> Any:
    """Return a statement as it was signed. For data that is not plainly public, return only its digest."""
    return msgspec.json.decode(envelope) if run.labels is None else {"digest": digest(envelope)}
