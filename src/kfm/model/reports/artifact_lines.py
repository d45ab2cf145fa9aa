"""The lines of the artifacts of a run. projections/artifacts.py writes them; schemas/ describes them."""

from __future__ import annotations

from typing import Any

from kfm.model.records import Receipt, Record, RunTelemetry


class RunLine(Record, frozen=True):
    """A line of `run.jsonl`: a run, its receipt and its telemetry."""

    seq: int  # from 1, without a gap
    timestamp: str
    dry_run: bool
    receipt: Receipt
    telemetry: RunTelemetry | None


class EventLine(Record, frozen=True, forbid_unknown_fields=False):
    """A line of `event_log.jsonl`: one fact. These fields are on every line, null where they do not apply; each kind of
    event adds fields of its own."""

    seq: int
    dry_run: bool
    event: str  # such as run.started
    timestamp: str
    service: str
    job_type: str | None
    job_id: str | None
    run_id: str | None
    correlation_id: str | None
    dataset_ids: list[str] | None
    zone_in: str | list[str] | None
    zone_out: str | list[str] | None
    policy_label: str | None
    status: str | None
    duration_ms: int | None
    error: Any  # the code and message of the error


class SourceMetadata(Record, frozen=True):
    uri: str  # with references in place of secrets
    etag: str
    last_modified: str
    content_hash: str


class IdempotencyRow(Record, frozen=True):
    """The row of one run in `idempotency.json`: its keys and how it ended."""

    run_id: str
    dataset_id: str
    idempotency_key: str
    input_hash: str
    state: str  # the outcome of the run
    timestamp: str
    source_metadata: list[SourceMetadata]
    pipeline_version: str


class Idempotency(Record, frozen=True):
    """The whole of `idempotency.json`."""

    dry_run: bool
    runs: list[IdempotencyRow]
