"""The receipt of a run for workers: its content in the terms that workers exchange. Pure.

docs/receipts.md documents the mapping; a test compares the page with these tables and with real receipts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kfm.model import refs
from kfm.model.records import Decision, Item, Receipt, RunTelemetry, SourceRef

STATUS = {"SUCCESS": "succeeded", "PARTIAL": "succeeded", "FAILED": "failed", "SKIPPED": "skipped"}
ZONES = {"raw": "Raw", "work": "Work", "quarantine": "Work", "processed": "Processed", "published": "Published"}
SANITIZE = "sanitize"  # the word for a yes to masked data
DECISIONS = {True: "allow", False: "deny"}


def worker_receipt(
    receipt: Receipt, telemetry: RunTelemetry | None, inputs: Sequence[SourceRef] = ()
) -> dict[str, Any]:
    """Return a receipt in the form that workers exchange. `inputs` are the sources that the run read, with what passed
    their contracts. Moves outside the data zones, such as freeze flags, are left out."""
    return {
        "run_id": receipt.run_id,
        "job_id": receipt.job_id,
        "job_type": receipt.job_type,
        "started_at": receipt.started_at,
        "finished_at": receipt.finished_at,
        "status": STATUS[receipt.status],
        "inputs": [_item(item) for item in receipt.inputs if item.zone in ZONES],
        "outputs": [{**_item(item), "zone": ZONES[item.zone]} for item in _outputs(receipt, inputs)],
        "provenance": {
            "tool_versions": telemetry.tool_versions if telemetry is not None else {},
            "transforms": receipt.provenance["transforms"],
            "policy_decisions": [_said(receipt, decision) for decision in receipt.policy_decisions],
        },
        "errors": [{"message": note.message, "stack": receipt.provenance.get("stack", "")} for note in receipt.errors],
    }


def _outputs(receipt: Receipt, inputs: Sequence[SourceRef]) -> Iterator[Item]:
    """Yield what the run wrote into each zone, lowest first: sources as they were fetched, what passed their contracts,
    what was quarantined, and its outputs."""
    own = {item.id for item in receipt.outputs}
    moved = [(refs.parse(move.ref).zone, move) for move in receipt.moves if move.after and move.ref not in own]
    yield from (_moved(zone, move.ref, move.after) for zone, move in moved if zone == "raw")
    if receipt.status == "SUCCESS":
        name = f"{receipt.dataset}/{receipt.partition}" if receipt.partition else receipt.dataset
        for number, ref in enumerate(inputs):
            if ref.accepted_hash:
                yield Item(kind="file", id=f"kfm://accepted/{name}/{number}", checksum=ref.accepted_hash, zone="work")
    yield from (_moved(zone, move.ref, move.after) for zone, move in moved if zone == "quarantine")
    yield from (item for item in receipt.outputs if item.zone in ZONES)


def _moved(zone: str, ref: str, after: str) -> Item:
    return Item(kind="ref", id=ref, checksum=after, zone=zone)


def _said(receipt: Receipt, decision: Decision) -> str:
    """Return a decision as one line: its word, the gate with its policies, and the reasons. A yes to masked data is
    `sanitize`, with the masking policies as reasons."""
    masks = [f"{each['policy']}@{each['digest']}" for each in receipt.provenance.get("masking", [])]
    masked = bool(masks) or any(duty.do == "mask" for duty in decision.obligations)
    word = SANITIZE if decision.allow and masked else DECISIONS[decision.allow]
    return " ".join([word, f"{decision.gate}@{decision.policy_digest}", *decision.reasons, *masks])


def _item(item: Item) -> dict[str, str]:
    """Return an item with its URI. A ref counts as a URI."""
    named = item.id if item.kind != "ref" or item.id.startswith("kfm://") else f"kfm://ref/{item.id}"
    return {"kind": "uri" if item.kind == "ref" else item.kind, "id": named, "checksum": item.checksum}
