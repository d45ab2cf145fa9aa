"""Contents of the files that KFM exports for people and other programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kfm.model.canonical import canonical
from kfm.model.records import Effect, Receipt, RunTelemetry, SourceRef

ARTIFACTS = ("run.jsonl", "event_log.jsonl", "idempotency.json", "publisher_trace.jsonl")


def run_lines(runs: Iterable[tuple[Receipt, RunTelemetry | None]]) -> bytes:
    """Build run.jsonl: one line per run with its receipt and telemetry, without the fields that differ
    between runners.
    """
    return b"".join(
        canonical(
            {
                "seq": seq,
                "timestamp": receipt.finished_at,
                "dry_run": receipt.dry_run,
                "receipt": msgspec.to_builtins(receipt),
                "telemetry": _without_tools(telemetry) if telemetry is not None else None,
            }
        )
        + b"\n"
        for seq, (receipt, telemetry) in enumerate(runs, 1)
    )


def _without_tools(telemetry: RunTelemetry) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(telemetry)
    del found["tool_versions"]
    return found


def event_lines(events: Iterable[dict[str, Any]], dry_run: bool) -> bytes:
    """Build event_log.jsonl: one line per event, in order."""
    return b"".join(canonical({**event, "seq": seq, "dry_run": dry_run}) + b"\n" for seq, event in enumerate(events, 1))


def idempotency(runs: Iterable[tuple[Receipt, list[SourceRef]]], dry_run: bool) -> bytes:
    """Build idempotency.json: the idempotency row of every run."""
    rows = [
        {
            "run_id": receipt.run_id,
            "dataset_id": receipt.dataset,
            "idempotency_key": receipt.run_key,
            "input_hash": receipt.input_hash,
            "state": receipt.outcome,
            "timestamp": receipt.finished_at,
            "source_metadata": [
                {"uri": ref.uri, "etag": ref.etag, "last_modified": ref.last_modified, "content_hash": ref.content_hash}
                for ref in inputs
            ]
            or [
                {"uri": item.id, "etag": "", "last_modified": "", "content_hash": item.checksum}
                for item in receipt.inputs
            ],
            "pipeline_version": receipt.updater_version,
        }
        for receipt, inputs in runs
    ]
    return canonical({"dry_run": dry_run, "runs": rows}) + b"\n"


def trace_lines(effects: Iterable[Effect]) -> bytes:
    """Build publisher_trace.jsonl: every change outside KFM that was made, or would be made in a dry run."""
    return b"".join(canonical(effect) + b"\n" for effect in effects)
