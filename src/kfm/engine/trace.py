"""Lineage: the graph facts of the run, into the journal and the outbox of the same transaction."""

from __future__ import annotations

import msgspec

from kfm.contract.ports import Tx
from kfm.contract.records import LineageBatch, RefMove
from kfm.engine.plan import append
from kfm.engine.record import input_items, output_items
from kfm.engine.walk import Walk


def trace(walk: Walk, tx: Tx) -> None:
    walk.stage = "LINEAGE"
    run, plan = walk.run, walk.plan
    assert run is not None and plan is not None and walk.lease is not None
    batch = LineageBatch(
        run_id=run.run_id,
        updater_id=run.updater_id,
        updater_version=run.updater_version,
        trigger=walk.trigger.kind,
        started_at=run.started_at,
        inputs=input_items(walk),
        outputs=output_items(walk),
        plan_hash=plan.plan_hash,
    )
    token = walk.lease.token
    tx.enqueue("lineage", f"lineage/{run.run_id}", msgspec.to_builtins(batch), token)
    for move in walk.moves:
        if is_published(move):
            payload = {**msgspec.to_builtins(move), "dataset": walk.dataset, "run_id": run.run_id}
            tx.enqueue("publish", f"{move.ref}/{run.run_id}", payload, token)
    # The last segment of the run: its last steps, the moves and the lineage are done, all or none.
    payload = {"moves": [msgspec.to_builtins(move) for move in walk.moves]}
    append(walk, tx, ["EXECUTE", "UPSERT", "LINEAGE"], done=walk.tail, failed=walk.tail_failed, payload=payload)


def is_published(move: RefMove) -> bool:
    return move.ref.startswith("published/")
