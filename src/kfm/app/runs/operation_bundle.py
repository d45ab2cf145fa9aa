"""The bundle of the telemetry of operations, made of the ledger."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from kfm import __version__
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.names import is_digest
from kfm.model.reports.operation_telemetry import OperationsBundle, OperationTelemetry
from kfm.projections.operation_counts import BUILDING

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry


def operations_bundle(session: Session) -> tuple[str, bytes]:
    """Return the path for the telemetry of all operations, and the bundle itself."""
    ledger = session.state.ledger
    found = [_operation(session, entry) for entry in ledger.entries() if entry.op_type not in BUILDING]
    by_outcome = Counter(each.outcome for each in found)
    bundle = OperationsBundle(version=__version__, operations=found, by_outcome=dict(sorted(by_outcome.items())))
    return f"releases/{__version__}/operations-telemetry.json", canonical(bundle)


def _operation(session: Session, entry: LedgerEntry) -> OperationTelemetry:
    measured = session.state.ledger.telemetry(entry.run_id)
    energy = None if measured is None else measured.energy_kwh
    versions = ((refs.parse(move.ref).dataset, move.after) for move in entry.moves if is_digest(move.after)
                and move.ref.startswith((refs.PUBLISHED, refs.PROCESSED)))  # fmt: skip
    return OperationTelemetry(
        run_id=entry.run_id,
        op_type=entry.op_type,
        dataset=entry.dataset,
        outcome=entry.outcome,
        ended_at=entry.ts,
        ops_latency_ms=None if measured is None else measured.latency_ms,
        ops_retry_count=None if measured is None else measured.retries + measured.wal_replay_count,
        ops_wal_entries=len(entry.wal_ids),
        ops_care_flags=0 if entry.governed is msgspec.UNSET else len(entry.governed.findings),
        ops_sovereignty_escalations=int(entry.outcome == "escalated"),
        ops_energy_wh=None if energy is None else energy * 1000,
        ops_carbon_gco2e=None if measured is None else measured.co2e_g,
        ops_broken_links=sum(session.state.ledger.version(*each) is None for each in versions),
        lineage_delta=len(entry.moves),
    )
