"""The lineage stage: writes what the run read into the embedded graph and closes the journal of the run. What the run
made is in its receipt; the followers that publish lineage read the ledger. The journal names the sinks that have yet to
follow."""

from __future__ import annotations

from typing import Any

import msgspec

from kfm.engine.run_context import RunContext
from kfm.engine.run_journal import Journal
from kfm.engine.stage_results import Assembled, Executed
from kfm.model.lineage_edges import used
from kfm.model.outbox_messages import expected_sinks
from kfm.model.ports import Tx
from kfm.model.records import Phase


def trace(context: RunContext, journal: Journal, executed: Executed, made: Assembled, tx: Tx) -> None:
    """Write the lineage and the last segment of the journal, in the transaction of the commit."""
    context.stage = "LINEAGE"
    tx.lineage.keep(journal.run.run_id, used(made.of, made.moves, made=made.version is not None))
    # The last segment of the run: its last steps, the moves and the lineage are done, all or none.
    payload: dict[str, Any] = {"moves": [msgspec.to_builtins(move) for move in made.moves]}
    if sinks := expected_sinks(context.world.settings.sinks, made.moves):
        payload["sinks"] = sinks
    phases: list[Phase] = ["EXECUTE", "UPSERT", "LINEAGE"]
    journal.append(tx, executed.results, phases, done=executed.tail, failed=executed.tail_failed, payload=payload)
