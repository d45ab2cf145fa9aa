"""The records of a job: its envelope, and its row in the state."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from kfm.model.records import Record, Trigger

MOST_INPUTS = 1000
LifecycleZone = Literal["Raw", "Work", "Processed", "Published"]
Priority = Literal["high", "normal", "low"]
JobStatus = Literal["waiting", "dead", "cancelled", "ended"]
JOB_TYPE = r"^[a-z][a-z0-9_]{0,62}(\.[a-z][a-z0-9_]{0,62}){1,3}$"
UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
NO_ID = "00000000-0000-0000-0000-000000000000"


class JobInput(Record, frozen=True):
    """One input of a job: a version of a dataset, the declaration of a dataset in kfm.yml, or bytes at an address."""

    kind: Literal["dataset", "config", "uri"]
    id: Annotated[str, Meta(max_length=4096, description="kfm://dataset/ID, or an address; never a local path")]
    checksum: Annotated[
        str,
        Meta(
            description="of the version, of the declaration (`config_hash` in receipts), or of the bytes",
            extra_json_schema={"pattern": r"^sha256:[0-9a-f]{64}$"},
        ),
    ]


class JobTrace(Record, frozen=True):
    """What a job belongs to."""

    parent_run_id: Annotated[str | None, Meta(extra_json_schema={"pattern": UUID})] = None
    correlation_id: Annotated[
        str, Meta(description="empty: that of the job", extra_json_schema={"pattern": rf"^$|{UUID}"})
    ] = ""


class JobEnvelope(Record, frozen=True):
    """One job. The same envelope again is the same job."""

    job_type: Annotated[str, Meta(description="see `kfm jobs types`", extra_json_schema={"pattern": JOB_TYPE})]
    requested_by: Annotated[str, Meta(max_length=200, description="system, or user:ID")]
    requested_at: Annotated[str, Meta(max_length=40, description="RFC 3339")]
    job_id: Annotated[
        str,
        Meta(
            description="follows from the rest of the envelope; a sender may leave it out",
            extra_json_schema={"pattern": UUID},
        ),
    ] = NO_ID
    inputs: Annotated[tuple[JobInput, ...], Meta(max_length=MOST_INPUTS)] = ()
    parameters: Annotated[
        dict[str, Any], Meta(description="target_zone and policy_label, and what its type says: `kfm jobs types`")
    ] = {}
    trace: JobTrace = JobTrace()


class JobFailure(Record, frozen=True):
    """One attempt that failed. It holds no message, because a message may name data."""

    code: str
    at: str
    host: str = ""  # of the worker
    run_id: str = ""  # of its receipt, if it has one


class JobState(Record, frozen=True):
    """One job in the state."""

    envelope: JobEnvelope
    trigger: Trigger  # as it is in the inbox: the dataset it runs, and the id under which this record is kept
    status: JobStatus = "waiting"
    priority: Priority = "normal"
    pools: tuple[str, ...] = ()  # a worker must have all of these; empty: every worker may take it
    attempts: int = 0
    holder: str = ""  # the worker of the present attempt; empty: none has begun, or it has ended
    claimed_ms: int = 0  # when the present attempt began
    not_before_ms: int = 0
    failures: tuple[JobFailure, ...] = ()  # oldest first
    settled_ms: int = 0  # when it ended, was cancelled or became a dead letter
    run_id: str = ""  # the run that ended it
