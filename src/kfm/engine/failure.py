"""The end of a run that fails: a receipt with the reason, or an unfinished run that is resumed later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import wraps

from kfm.engine import heartbeat
from kfm.engine.receipt_stage import fail
from kfm.engine.run_context import RunContext
from kfm.errors import Broken, ClusterLost, Conflict, Frozen, KfmError, Moved, PlanDrift
from kfm.model.records import Receipt

Stages = Callable[[RunContext], Receipt]


def with_failure_receipt(stages: Stages) -> Stages:
    """Return a function that runs these stages and returns a receipt when one of them fails, too.

    It raises the error if no receipt may be written, frees the lease and leaves the run unfinished in the journal. The
    heartbeat and the metering end in every case.
    """

    @wraps(stages)
    def run(context: RunContext) -> Receipt:
        context.started_ms = context.world.clock.now_ms()
        metering = context.metering = context.world.meter.begin() if context.world.meter is not None else None
        try:
            return stages(context)
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
            if metering is not None:
                metering.end()

    return run


def stays_open(context: RunContext, problem: KfmError) -> bool:
    """Return whether the run stays unfinished after this error, to be resumed.

    An operation whose ref moved meanwhile ends: its plan names the old position, so no later attempt can succeed. A run
    that could not be resumed stays open.
    """
    if isinstance(problem, Moved) and context.updater.moves_only:
        return False
    if context.unfinished is not None and context.reached.claimed is None:
        return True
    return isinstance(problem, (Broken, ClusterLost, Conflict, Frozen, PlanDrift))


def leave(context: RunContext) -> None:
    """Release the lease, if the run has one, and leave the run unfinished in the journal."""
    lease = context.reached.lease
    if lease is not None:
        with contextlib.suppress(KfmError):
            context.world.state.leases.release(lease)
