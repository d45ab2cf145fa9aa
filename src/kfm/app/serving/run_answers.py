"""The answers about runs: what happened, step by step, and what proves it."""

from __future__ import annotations

from typing import Any

from kfm.app.serving.served_records import Link
from kfm.model.public_run import PublicRun
from kfm.model.records import Receipt, Record, WalRecord


class RunRow(Record, frozen=True):
    """One run in a list."""

    run_id: str
    dataset: str
    partition: str
    op: str
    status: str  # SUCCESS, FAILED, PARTIAL or SKIPPED; RUNNING if it has not ended
    outcome: str
    started_at: str
    finished_at: str
    version: str  # that it made or moved a ref to; empty: none, or it may not be shown
    index: int  # of its entry in the ledger; 0: it has not ended


class RunList(Record, frozen=True):
    """Runs: unfinished ones first, then ended ones, the newest first."""

    runs: tuple[RunRow, ...]
    next: str  # the cursor of the next page; empty: there is none
    ledger_entries: int


class RunStage(Record, frozen=True):
    """One stage of a run."""

    stage: str
    status: str  # DONE, FAILED, IN_PROGRESS; empty: the run did not come to it
    at: str


class StepCounts(Record, frozen=True):
    """How many steps of the plan are in which status."""

    planned: int
    done: int
    failed: int


class RunCost(Record, frozen=True):
    """What a run cost. Null: not known, or not shown."""

    duration_ms: int | None
    latency_ms: int | None
    retries: int | None  # repeated attempts of steps
    resumed: int | None  # how often it was resumed after a kill
    energy_wh: float | None
    co2e_g: float | None
    energy_method: str
    bytes_in: int | None
    bytes_out: int | None


class RunAnswer(Record, frozen=True):
    """One run: its stages, what it read and made, and what it cost."""

    run_id: str
    dataset: str
    op: str
    status: str
    outcome: str
    started_at: str
    finished_at: str
    attempt: int
    updater: str
    updater_version: str
    correlation_id: str
    index: int
    is_withheld: bool  # keys, steps, addresses and texts of errors are not shown: the data is not plainly public
    stages: tuple[RunStage, ...]
    steps: StepCounts | None
    plan_hash: str
    cost: RunCost
    record: PublicRun | None  # null: it has not ended
    actor: str  # shown to the staff alone, like the reason and the errors
    reason: str
    errors: tuple[str, ...]
    sinks_left: tuple[str, ...]  # that have not followed it
    links: tuple[Link, ...]
    ledger_entries: int


class StepRow(Record, frozen=True):
    """One step of a plan."""

    position: int
    id: str
    key: tuple[str, ...]
    needs: tuple[str, ...]
    status: str
    digest: str


class StepList(Record, frozen=True):
    """The steps of a run, in the order of its plan."""

    run_id: str
    planned: int
    is_withheld: bool
    steps: tuple[StepRow, ...]
    next: str
    ledger_entries: int


class JournalPage(Record, frozen=True):
    """The write-ahead log of a run, in the order in which it became durable."""

    run_id: str
    is_withheld: bool
    records: tuple[WalRecord, ...]
    next: str
    ledger_entries: int


class ReceiptAnswer(Record, frozen=True):
    """The receipt of a run: its public record, and for the staff the receipt itself."""

    run_id: str
    index: int
    receipt_digest: str
    record: PublicRun
    receipt: Receipt | None
    ledger_entries: int


Payload = dict[str, Any]
