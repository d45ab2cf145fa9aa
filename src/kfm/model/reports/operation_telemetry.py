"""The telemetry of operations: promotions, rollbacks, hotfixes, freezes, maintenance; no runs that build data."""

from __future__ import annotations

from kfm.model.records import Record


class OperationTelemetry(Record, frozen=True):
    """What one operation did and cost: names, counts and codes, never a value of the data."""

    run_id: str  # as in its receipt
    op_type: str  # such as promote, rollback, hotfix or freeze
    dataset: str  # or `global`
    outcome: str  # as in its receipt
    ended_at: str  # as in the ledger
    ops_latency_ms: int | None  # since the request; None: unknown
    ops_retry_count: int | None  # repeated attempts and resumed runs; None: unknown
    ops_wal_entries: int  # journals that the ledger entry names
    ops_care_flags: int  # rules of protection that it names
    ops_sovereignty_escalations: int  # 1: it ended because a community must decide
    ops_energy_wh: float | None  # None: not measured, which is not 0
    ops_carbon_gco2e: float | None  # the same
    ops_broken_links: int  # moved refs that lead to a version which the state does not have
    lineage_delta: int  # moved refs


class OperationsBundle(Record, frozen=True):
    """The telemetry of all operations: `releases/<version>/operations-telemetry.json`."""

    version: str  # of KFM
    operations: list[OperationTelemetry]  # in the order of the ledger
    by_outcome: dict[str, int]  # count of operations by outcome
