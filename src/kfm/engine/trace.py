"""Lineage: closes the journal of the run. Its facts are those of the receipt; whoever tells them follows the ledger."""

from __future__ import annotations

import msgspec

from kfm.contract.ports import Tx
from kfm.contract.records import Phase
from kfm.engine.journal import Journal
from kfm.engine.stations import Assembled, Executed
from kfm.engine.walk import Walk


def trace(walk: Walk, journal: Journal, executed: Executed, made: Assembled, tx: Tx) -> None:
    walk.stage = "LINEAGE"
    # The last segment of the run: its last steps, the moves and the lineage are done, all or none.
    payload = {"moves": [msgspec.to_builtins(move) for move in made.moves]}
    phases: list[Phase] = ["EXECUTE", "UPSERT", "LINEAGE"]
    journal.append(tx, executed.results, phases, done=executed.tail, failed=executed.tail_failed, payload=payload)
