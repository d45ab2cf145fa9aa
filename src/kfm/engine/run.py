"""The walk: one run from trigger to receipt. These lines, in this order."""

from __future__ import annotations

from itertools import count

from kfm.contract.records import Receipt, Run, Trigger
from kfm.contract.updater import Updater
from kfm.engine import heartbeat
from kfm.engine.acquire import acquire
from kfm.engine.admit import admit, leave, stays_open
from kfm.engine.measure import measure
from kfm.engine.record import fail, record, skip
from kfm.engine.stations import Duplicate, Stopped
from kfm.engine.walk import Ports, Walk
from kfm.errors import KfmError, Moved


def run(trigger: Trigger, updater: Updater, ports: Ports, unfinished: Run | None = None) -> Receipt:
    """Take one trigger through the walk. A failed run gives a receipt too.

    `unfinished` is a run to take up again. Was it planned already, or is it an operation, its inputs are read
    and not the world.

    Raises only where no receipt may be written: the disk fails, another worker has the work, a freeze
    stops it midway, or other code planned it. The run is then left as it is in the journal, to be resumed.
    """
    walk = Walk(trigger, updater, ports, ports.clock.now_ms(), unfinished)
    try:
        acquired = acquire(walk)
        admitted = admit(walk, acquired)
        if isinstance(admitted, Duplicate) and updater.declared:
            from kfm.engine.plan import check_unchanged

            check_unchanged(walk, admitted)
        if isinstance(admitted, (Duplicate, Stopped)):
            return skip(walk, acquired, admitted)
        # Most runs end here, and start sooner without what the others need.
        from kfm.engine.execute import execute
        from kfm.engine.plan import settle_plan
        from kfm.engine.quarantine import quarantine
        from kfm.engine.trace import trace
        from kfm.engine.upsert import assemble, commit, take_turns, upsert
        from kfm.engine.zones import admit_to_work

        inspected = quarantine(walk, acquired, admitted.run)
        if not updater.moves_only:
            admit_to_work(walk, admitted.run, inspected.inputs)
        planned = settle_plan(walk, acquired, admitted, inspected)
        executed = execute(walk, planned)
        journal, run_id = planned.journal, planned.run_id
        for turn in count(1):
            made = assemble(walk, planned, executed)
            try:
                with commit(walk, planned, executed, made) as tx:
                    upsert(walk, journal.run, made, tx)
                    trace(walk, journal, executed, made, tx)
                    measure(walk, tx, "SUCCESS", run_id, made=made)
                    return record(walk, run_id, made, tx)
            except Moved as problem:
                take_turns(walk, problem, turn)
        raise AssertionError("somebody has had the last turn")
    except BaseException as problem:
        try:
            if isinstance(problem, KfmError) and not stays_open(walk, problem):
                return fail(walk, problem)
            raise
        except BaseException:
            leave(walk)
            raise
    finally:
        heartbeat.end(walk)
