"""The graph facts of a run, out of its receipt. Pure: a sink that follows the ledger makes them when it needs them."""

from __future__ import annotations

from kfm.contract.records import LineageBatch, Receipt


def lineage_of(receipt: Receipt) -> LineageBatch:
    return LineageBatch(
        run_id=receipt.run_id,
        updater_id=receipt.updater_id,
        updater_version=receipt.updater_version,
        trigger=receipt.trigger,
        started_at=receipt.started_at,
        inputs=receipt.inputs,
        outputs=receipt.outputs,
        plan_hash=receipt.plan_hash,
    )
