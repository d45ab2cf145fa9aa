"""The walk: one run from trigger to receipt. These lines, in this order."""

from __future__ import annotations

from itertools import count

from kfm.engine import heartbeat
from kfm.engine.acquire import acquire
from kfm.engine.admit import admit, leave, stays_open
from kfm.engine.preflight import preflight
from kfm.engine.receipt_stage import fail, record, skip
from kfm.engine.run_context import Ports, RunContext
from kfm.engine.stage_results import Duplicate, Stopped
from kfm.engine.telemetry_stage import measure
from kfm.errors import KfmError, Moved
from kfm.model.records import Receipt, Run, Trigger
from kfm.model.updater import Updater


def run(trigger: Trigger, updater: Updater, ports: Ports, unfinished: Run | None = None) -> Receipt:
    """Take one trigger through the walk. A failed run gives a receipt too.

    `unfinished` is a run to take up again. Was it planned already, or is it an operation, its inputs are read
    and not the world.

    Raises only where no receipt may be written: the disk fails, another worker has the work, a freeze
    stops it midway, or other code planned it. The run is then left as it is in the journal, to be resumed.
    """
    context = RunContext(trigger, updater, ports, ports.clock.now_ms(), unfinished)
    try:
        preflight(context)
        acquired = acquire(context)
        admitted = admit(context, acquired)
        if isinstance(admitted, Duplicate) and updater.declared:
            from kfm.engine.plan import check_unchanged

            check_unchanged(context, admitted)
        if isinstance(admitted, (Duplicate, Stopped)):
            return skip(context, acquired, admitted)
        # Most runs end here, and start sooner without what the others need.
        from kfm.engine.execute import execute
        from kfm.engine.lineage_stage import trace
        from kfm.engine.plan import settle_plan
        from kfm.engine.quarantine import quarantine
        from kfm.engine.upsert import assemble, commit, take_turns, upsert
        from kfm.engine.zone_gates import admit_to_work

        inspected = quarantine(context, acquired, admitted.run)
        if not updater.moves_only:
            admit_to_work(context, admitted.run, inspected.inputs)
        planned = settle_plan(context, acquired, admitted, inspected)
        executed = execute(context, planned)
        journal, run_id = planned.journal, planned.run_id
        for turn in count(1):
            made = assemble(context, planned, executed)
            try:
                with commit(context, planned, executed, made) as tx:
                    upsert(context, journal.run, made, tx)
                    trace(context, journal, executed, made, tx)
                    measure(context, tx, "SUCCESS", run_id, made=made)
                    return record(context, run_id, made, tx)
            except Moved as problem:
                take_turns(context, problem, turn)
        raise AssertionError("somebody has had the last turn")
    except BaseException as problem:
        try:
            if isinstance(problem, KfmError) and not stays_open(context, problem):
                return fail(context, problem)
            raise
        except BaseException:
            leave(context)
            raise
    finally:
        heartbeat.end(context)
