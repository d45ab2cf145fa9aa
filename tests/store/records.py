"""Small whole records, for tests of one field."""

from __future__ import annotations

from typing import Any

from kfm.model.records import (
    Checkpoint,
    DatasetVersion,
    Receipt,
    Run,
    RunTelemetry,
    Segment,
    SourceRef,
    Trigger,
)

TS = "2026-01-01T00:00:00.000Z"
DIGEST = "sha256:" + "ab" * 32


def trigger(**fields: Any) -> Trigger:
    return Trigger(**{"kind": "manual", "updater_id": "u", "dataset": "d", **fields})


def run(**fields: Any) -> Run:
    return Run(
        **{
            "run_id": "run-0", "claim_key": "claim", "n": 0, "run_key": "key", "input_hash": DIGEST,
            "updater_id": "u", "updater_version": "1", "dataset": "d", "trigger": trigger(), "status": "RUNNING",
            "started_at": TS, "inputs": [SourceRef(uri="file:a", content_hash=DIGEST, size=1)], **fields,
        }
    )  # fmt: skip


def receipt(**fields: Any) -> Receipt:
    return Receipt(
        **{
            "run_id": "run-0", "job_id": "j", "job_type": "ingest.pull_source", "dataset": "d", "updater_id": "u",
            "updater_version": "1", "status": "SUCCESS", "outcome": "done", "trigger": "manual", "actor": "a",
            "reason": "", "run_key": "key", "input_hash": DIGEST, "plan_hash": DIGEST, "started_at": TS,
            "finished_at": TS, "dry_run": False, "inputs": [], "outputs": [], "moves": [], "steps": 1,
            "held_rows": 0, "provenance": {"grüße": "\U0001f5fa"}, "policy_decisions": [], "errors": [], **fields,
        }
    )  # fmt: skip


def version(**fields: Any) -> DatasetVersion:
    return DatasetVersion(
        **{
            "dataset": "d", "digest": DIGEST, "entries": 1, "size": 1, "supersedes": "", "run_id": "run-0",
            "updater_id": "u", "updater_version": "1", "plan_hash": DIGEST, "input_hash": DIGEST, "metadata": {},
            "validation": {}, **fields,
        }
    )  # fmt: skip


def segment(n: int, prev: str, **fields: Any) -> Segment:
    return Segment(n=n, prev=prev, plan_hash=DIGEST, phases=["EXECUTE"], ts=TS, **fields)


def checkpoint(**fields: Any) -> Checkpoint:
    return Checkpoint(
        **{
            "uri": "file:a", "content_hash": DIGEST, "size": 1, "media_type": "", "etag": "", "last_modified": "",
            "fetched_ms": 1, "checked_ms": 1, **fields,
        }
    )  # fmt: skip


def telemetry(**fields: Any) -> RunTelemetry:
    return RunTelemetry(
        **{
            "run_id": "run-0", "updater_id": "u", "version": "1", "dataset": "d", "source_id": "", "trigger": "manual",
            "status": "SUCCESS", "failure_stage": None, "idempotency_state": "fresh", "duration_ms": 1,
            "latency_ms": 1, "retries": 0, "wal_replay_count": 0, "inputs_count": 0, "outputs_count": 0,
            "artifact_count": 0, "bytes_in": 0, "bytes_out": 0, "energy_kwh": None, "co2e_g": None,
            "energy_method": "", "slo_target_latency_ms": 1, "slo_ok": True, "error_budget_burn": 0.0,
            "dry_run": False, "errors": [], **fields,
        }
    )  # fmt: skip
