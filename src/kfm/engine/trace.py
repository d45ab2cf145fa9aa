"""Lineage: closes the journal of the run. Its facts are those of the receipt; whoever tells them follows the ledger."""

from __future__ import annotations

import msgspec

from kfm.contract.ports import Tx
from kfm.engine.plan import append
from kfm.engine.walk import Assembled, Walk


def trace(walk: Walk, made: Assembled, tx: Tx) -> None:
    walk.stage = "LINEAGE"
    # The last segment of the run: its last steps, the moves and the lineage are done, all or none.
    payload = {"moves": [msgspec.to_builtins(move) for move in made.moves]}
    append(walk, tx, ["EXECUTE", "UPSERT", "LINEAGE"], done=walk.tail, failed=walk.tail_failed, payload=payload)
