"""Pools: a run takes a slot before it reads its sources, waits for one if necessary, and always returns it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kfm.app.session.work_slots import idle
from kfm.clock import parse_instant, rfc3339
from kfm.engine import heartbeat
from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import Tenure
from kfm.errors import BadInput, Conflict, Full, KfmError
from kfm.model import refs
from kfm.model.keys import correlation_id, digest
from kfm.model.records import Lease, Run, Trigger
from kfm.model.reports.pool_status import Pool, PoolClaim
from kfm.scheduling.pool_slots import Claim, PoolStatus, SlotRequest, leave, pool_status, read_claim, take
from kfm.store.process_identity import is_held, this_process

if TYPE_CHECKING:
    from kfm.app.session.session import Session

PAUSE_S = 0.2  # between two attempts of a waiting run


def pool_of(session: Session, trigger: Trigger) -> str:
    """Return the pool that a run of this trigger takes a slot of; empty if none. A pool that is no longer declared
    limits nothing."""
    pools = session.config.pools
    if not pools or session.mode != "write" or trigger.kind == "operation":
        return ""
    declared = session.config.datasets.get(trigger.dataset)
    said = trigger.pool if trigger.pool in pools else declared.pool if declared is not None else ""
    return said if said in pools else ""


@contextmanager
def slot(session: Session, context: RunContext, *, patient: bool) -> Iterator[None]:
    """Hold a slot of the run's pool while the block runs, if it needs one, and put the lease of the slot into the
    guards of the run. Raise Full if the run would have to wait and is not `patient`; it keeps its place in the queue as
    long as its worker asks again in time."""
    trigger, unfinished = context.trigger, context.unfinished
    pool = pool_of(session, trigger)
    if not pool or _is_cancelled(session, unfinished):  # a cancelled run only ends
        yield
        return
    request = _slot_request(session, pool, trigger, unfinished)
    try:
        taken = _wait(session, request, context, patient=patient)
    except Full:
        raise
    except BaseException:
        with suppress(KfmError):
            leave(session.state, request)
        raise
    if taken is None:
        yield
        return
    claim = read_claim(taken)
    context.guards.slot, context.guards.waited_ms = taken, max(claim.taken_ms - claim.since_ms, 0)
    tenure = Tenure(taken, session.clock.now_ms())
    heartbeat.begin(tenure, context.world, tenure)
    try:
        yield
    finally:
        heartbeat.end(tenure)
        with suppress(KfmError):  # the lease expires by itself
            session.state.leases.release(taken)


def _slot_request(session: Session, pool: str, trigger: Trigger, unfinished: Run | None) -> SlotRequest:
    if trigger.updater_id == "pool":
        raise BadInput("an updater cannot be called pool where there are pools", hint="give it another id")
    key = trigger.trigger_id or (unfinished.run_id if unfinished is not None else "")
    now_ms = session.clock.now_ms()
    return SlotRequest(
        pool=pool,
        slots=session.config.pools[pool],
        key=key or digest(f"{this_process()}/{correlation_id(trigger)}".encode())[7:23],  # the same at every attempt
        about=f"{trigger.dataset}/{trigger.partition}" if trigger.partition else trigger.dataset,
        received_ms=parse_instant(trigger.received_at, "a trigger") if trigger.received_at else now_ms,
        low=trigger.low,
    )


def _wait(session: Session, asked: SlotRequest, context: RunContext, *, patient: bool) -> Lease | None:
    """Return a slot; None if the run was cancelled while it waited, and only ends."""
    trigger, unfinished = context.trigger, context.unfinished
    lease_ms, waits = context.world.settings.lease_ms, False
    while (lease := take(session.state, asked, this_process(), lease_ms, session.state.now_ms(), is_held)) is None:
        if not patient:
            raise Full(f"every slot of pool {asked.pool} is taken", hint="its turn comes: see `kfm schedule pools`")
        if not waits:
            session.log.event("pool.awaited", pool=asked.pool, dataset_ids=[trigger.dataset])
            waits = True
        session.progress(f"waiting for pool {asked.pool}", 0, 0)
        with idle():
            session.clock.sleep(PAUSE_S)
        check_wanted(session, trigger, unfinished)
        if _is_cancelled(session, unfinished):
            leave(session.state, asked)
            return None
    claim = read_claim(lease)
    waited_ms = max(claim.taken_ms - claim.since_ms, 0)
    session.log.event("pool.taken", pool=asked.pool, wait_ms=waited_ms, dataset_ids=[trigger.dataset])
    return lease


def check_wanted(session: Session, trigger: Trigger, unfinished: Run | None) -> None:
    """Raise Conflict if another worker has ended the unfinished run or taken the trigger."""
    if unfinished is not None:
        now = session.state.runs.get(unfinished.run_id)
        wanted = now is not None and now.status == "RUNNING"
    else:
        wanted = not trigger.trigger_id or session.state.inbox.kept(trigger) is not None
    if not wanted:
        raise Conflict("another worker has ended this work meanwhile", hint="nothing is left to do")


def _is_cancelled(session: Session, unfinished: Run | None) -> bool:
    if unfinished is None:
        return False
    return refs.is_frozen(session.state.refs.at(refs.switch("run", unfinished.run_id)))


def claims(session: Session, pool: str) -> PoolStatus:
    """Return the slots that are taken and the runs that wait, without those of dead processes."""
    return pool_status(session.state.leases.below(f"pool/{pool}"), session.state.now_ms(), is_held)


def pool_statuses(session: Session, pools: Sequence[str]) -> list[Pool]:
    """Return the status of these pools."""
    now_ms = session.clock.now_ms()
    found = []
    for name in pools:
        status, slots = claims(session, name), session.config.pools[name]
        found.append(
            Pool(
                pool=name,
                slots=slots,
                free=max(slots - len(status.held), 0),
                held=[_claim_record(claim, now_ms) for claim in status.held],
                waiting=[_claim_record(claim, now_ms) for claim in status.waiting],
            )
        )
    return found


def _claim_record(claim: Claim, now_ms: int) -> PoolClaim:
    dataset, _, partition = claim.about.partition("/")
    return PoolClaim(
        dataset=dataset,
        partition=partition,
        slot=claim.slot,
        since=rfc3339(claim.taken_ms or claim.since_ms),
        waited_ms=max((claim.taken_ms or now_ms) - claim.since_ms, 0),
        priority="low" if claim.low else "normal",
        process=claim.process,
    )


def waits(session: Session) -> dict[str, list[tuple[int, int]]]:
    """Return by dataset the periods in which its present runs waited for a slot."""
    found: dict[str, list[tuple[int, int]]] = {}
    for name in session.config.pools:
        status = claims(session, name)
        for claim in (*status.held, *status.waiting):
            end_ms = claim.taken_ms or session.clock.now_ms()
            if end_ms > claim.since_ms:
                found.setdefault(claim.about.partition("/")[0], []).append((claim.since_ms, end_ms))
    return found
