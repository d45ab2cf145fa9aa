"""Lineage: what the run read goes into the embedded graph, and its journal is closed. What it made is in the receipt;
whoever tells others of it follows the ledger."""

from __future__ import annotations

import msgspec

from kfm.contract.lineage import used
from kfm.contract.ports import Tx
from kfm.contract.records import Phase
from kfm.engine.journal import Journal
from kfm.engine.stations import Assembled, Executed
from kfm.engine.walk import Walk


def trace(walk: Walk, journal: Journal, executed: Executed, made: Assembled, tx: Tx) -> None:
    walk.stage = "LINEAGE"
    tx.lineage.keep(journal.run.run_id, used(made.of, made.moves, made=made.version is not None))
    # The last segment of the run: its last steps, the moves and the lineage are done, all or none.
    payload = {"moves": [msgspec.to_builtins(move) for move in made.moves]}
    phases: list[Phase] = ["EXECUTE", "UPSERT", "LINEAGE"]
    journal.append(tx, executed.results, phases, done=executed.tail, failed=executed.tail_failed, payload=payload)
