"""The receipt of a run for workers: the path of its file, and its content in the terms that workers exchange. Pure.

docs/receipts.md documents the mapping; a test compares the page with this table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfm.model.records import Item, Receipt, RunTelemetry

if TYPE_CHECKING:
    from kfm.model.public_run import PublicRun

STATUS = {"SUCCESS": "succeeded", "PARTIAL": "succeeded", "FAILED": "failed", "SKIPPED": "skipped"}
ZONES = {"raw": "Raw", "quarantine": "Work", "processed": "Processed", "published": "Published"}
DECISIONS = {True: "allow", False: "deny"}  # nothing is masked yet, so no gate answers sanitize


def receipt_path(run: Receipt | PublicRun) -> str:
    """Return the path of the receipt of a run. It uses the logical start of the run, so a resume after midnight finds
    the same path.
    """
    year, month, day = run.started_at[:10].split("-")
    return f"receipts/{run.job_type}/{year}/{month}/{day}/{run.run_id}.json"


def worker_receipt(receipt: Receipt, telemetry: RunTelemetry | None) -> dict[str, Any]:
    """Return a receipt in the form that workers exchange. Moves outside the data zones, such as freeze flags, are left
    out."""
    return {
        "run_id": receipt.run_id,
        "job_id": receipt.job_id,
        "job_type": receipt.job_type,
        "started_at": receipt.started_at,
        "finished_at": receipt.finished_at,
        "status": STATUS[receipt.status],
        "inputs": [_item(item) for item in receipt.inputs if item.zone in ZONES],
        "outputs": [{**_item(item), "zone": ZONES[item.zone]} for item in receipt.outputs if item.zone in ZONES],
        "provenance": {
            "tool_versions": telemetry.tool_versions if telemetry is not None else {},
            "transforms": receipt.provenance["transforms"],
            "policy_decisions": [
                " ".join([DECISIONS[decision.allow], f"{decision.gate}@{decision.policy_digest}", *decision.reasons])
                for decision in receipt.policy_decisions
            ],
        },
        "errors": [{"message": note.message, "stack": ""} for note in receipt.errors],
    }


def _item(item: Item) -> dict[str, str]:
    """Return an item with its URI. A ref counts as a URI."""
    named = item.id if item.kind != "ref" or item.id.startswith("kfm://") else f"kfm://ref/{item.id}"
    return {"kind": "uri" if item.kind == "ref" else item.kind, "id": named, "checksum": item.checksum}
