"""CloudEvents 1.0: one event per run that ended. Pure."""

from __future__ import annotations

from typing import Any

from kfm.model.public_run import PublicRun
from kfm.projections.vocabulary import name_of

ENDED = "org.kfm.run.ended.v1"


def event(run: PublicRun) -> dict[str, Any]:
    """Return the event of a run. Its `id` is the run's id, so the same run reported twice is the same event."""
    return {
        "specversion": "1.0",
        "id": run.run_id,
        "source": "kfm://dry-run" if run.dry_run else "kfm://ledger",
        "type": ENDED,
        "subject": name_of(run.dataset),
        "time": run.finished_at,
        "datacontenttype": "application/json",
        "data": {
            "run_id": run.run_id,
            "ledger_index": run.index,
            "op": run.op,
            "trigger": run.trigger,
            "status": run.status,
            "outcome": run.outcome,
            "dry_run": run.dry_run,
            "dataset": f"kfm://dataset/{name_of(run.dataset)}",
            "version": run.version,
            "before": run.before,
            "ref": run.ref,
            "receipt": run.receipt_digest,
            "updater": {"id": run.updater_id, "version": run.updater_version},
            "inputs": [{"id": each.id, "digest": each.checksum} for each in run.used()],
            "outputs": [{"id": id, "digest": digest} for id, digest in run.outputs()],
            "removed": list(run.removed),
            "operator": run.operator,
            "care_label": run.labels.care if run.labels else None,
        },
    }
