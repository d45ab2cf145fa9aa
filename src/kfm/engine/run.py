"""One run from trigger to receipt: its stages, in order."""

from __future__ import annotations

from kfm.engine.acquire import acquire
from kfm.engine.admit import admit
from kfm.engine.failure import with_failure_receipt
from kfm.engine.preflight import preflight
from kfm.engine.receipt_stage import record, skip
from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import Assembled, Duplicate, Stopped
from kfm.engine.telemetry_stage import measure
from kfm.model.ports import Tx
from kfm.model.records import Receipt


@with_failure_receipt
def run(context: RunContext) -> Receipt:
    """Run the work of this context and return its receipt. A run that fails returns a receipt, too.

    A run that was already planned, and every operation, resumes from its recorded inputs; sources are not fetched
    again.

    Raises only if no receipt may be written: the disk fails, another worker has the work, a freeze stops the run in the
    middle, or other code planned it. The run then stays unfinished in the journal, to be resumed.
    """
    preflight(context.guards, context.work)
    acquired = acquire(context)
    admitted = admit(context, acquired)
    if isinstance(admitted, (Duplicate, Stopped)):
        return skip(context, acquired, admitted)
    # Most runs end above, and start faster without the modules of the later stages.
    from kfm.engine.execute import execute
    from kfm.engine.lineage_stage import trace
    from kfm.engine.plan import settle_plan
    from kfm.engine.quarantine import quarantine
    from kfm.engine.upsert import commit, upsert
    from kfm.engine.zone_gates import admit_to_work

    inspected = quarantine(context, acquired, admitted.run)
    admit_to_work(context, admitted.run, inspected.inputs)
    planned = settle_plan(context, acquired, admitted, inspected)
    executed = execute(context, planned)

    def last_stages(made: Assembled, tx: Tx) -> Receipt:
        upsert(context, planned.journal.run, made, tx)
        trace(context, planned.journal, executed, made, tx)
        measure(context, tx, "SUCCESS", planned.run_id, made=made)
        return record(context, planned.run_id, made, tx)

    return commit(context, planned, executed, last_stages)
