"""May this run begin? Claims the work by compare-and-swap, or says why not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from kfm.clock import rfc3339
from kfm.contract import manifests
from kfm.contract.keys import claim_key, input_hash, run_id, run_key_of, scopes
from kfm.contract.overrides import abandons_unfinished, check_reason, overrides_of
from kfm.contract.ports import INLINE_MAX, Objects, Tx
from kfm.contract.previews import params_of_work, preview_of, zone_ref
from kfm.contract.records import ErrorNote, Run, SourceRef, Trigger
from kfm.engine import heartbeat
from kfm.engine.changes import code_changed
from kfm.engine.ledgered import append
from kfm.engine.measure import measure_superseded
from kfm.engine.partitions import holds_still
from kfm.engine.record import closing_receipt
from kfm.engine.stations import Acquired, Duplicate, Fresh, Keys, Resume, Stopped, Tenure
from kfm.engine.walk import Walk
from kfm.errors import Broken, Conflict, Corrupt, Frozen, KfmError, Moved, PlanDrift


def admit(walk: Walk, acquired: Acquired) -> Fresh | Resume | Duplicate | Stopped:
    walk.stage = "ADMIT"
    check_reason(walk.trigger)
    walk.reached.keys = keys = keys_of(walk, acquired.inputs)
    done, is_other, is_open = look(walk, keys)
    admitted: Fresh | Resume | Duplicate | Stopped
    if done is not None:
        admitted = Duplicate(keys, done, is_other) if is_open else Stopped(keys, is_other)
    else:
        try:
            admitted = claim(walk, acquired.inputs, keys, is_other)
        except Frozen:  # told before anything was claimed
            admitted = Stopped(keys, is_other)
    walk.reached.admitted = admitted
    return admitted


def look(walk: Walk, keys: Keys) -> tuple[Run | None, bool, bool]:
    """The run that did this already, if one did; whether the code is another; and if it was done, whether nothing
    is frozen. Who claims asks the rest again, in its transaction."""
    trigger, updater, state = walk.trigger, walk.updater, walk.ports.state
    with state.reading():
        done = None if any(rivals(walk)) else done_before(walk, state.runs.claimed(keys.claim_key))
        is_other = (done is None or done.code_hash != updater.code_hash) and code_changed(
            state, updater, walk.dataset, trigger.partition, keys.claim_key
        )
        is_open = done is not None and all(state.refs.at(switch) in ("", "open") for switch in walk.switches)
    return done, is_other, is_open


def keys_of(walk: Walk, inputs: list[SourceRef]) -> Keys:
    trigger, updater = walk.trigger, walk.updater
    read = input_hash(inputs)
    return Keys(
        input_hash=read,
        run_key=run_key_of(inputs, trigger.window, updater.version, trigger.partition),
        claim_key=claim_key(
            updater.id, updater.version, walk.dataset, trigger.window, read, trigger.params, trigger.partition
        ),
    )


def done_before(walk: Walk, latest: Run | None) -> Run | None:
    """The latest run of the claim, if it is what this one would be."""
    if latest is None or latest.status != "COMMITTED" or walk.trigger.force or not is_live(walk, latest):
        return None
    return latest


def is_live(walk: Walk, run: Run) -> bool:
    """What the run committed is where it put it: not rolled back, not withdrawn, not held against other contracts
    since, and no object of it gone."""
    state = walk.ports.state
    if run.version_digest and run.trigger.partition:
        return holds_still(state, walk.ports.objects, run)
    if run.version_digest:
        if state.refs.at(zone_ref("processed", run.dataset, run.trigger)) != run.version_digest:
            return False
        version = state.ledger.version(run.dataset, run.version_digest)
        last = version and (version.validated_by or version.run_id)
        other = state.runs.get(last) if last and last != run.run_id else run
        if other is None or _contracts(other) != _contracts(run):
            return False
        small = version is not None and version.size <= INLINE_MAX  # all of it together, so no object is a file
        return small or is_there(walk.ports.objects, run.version_digest)
    return all(state.refs.at(move.ref) == move.after for move in run.moves)


def _contracts(run: Run) -> list[str]:
    return [source.contract_hash for source in run.inputs]


def is_there(objects: Objects, version: str) -> bool:
    """Every object of it that is a file, by its size; small ones are rows of the state. Their bytes are not read."""
    try:
        return all(objects.size(entry.digest) == entry.size for entry in manifests.larger(objects, version, INLINE_MAX))
    except Corrupt:
        return False


def claim(walk: Walk, inputs: list[SourceRef], keys: Keys, is_other: bool) -> Fresh | Resume | Duplicate:
    """One transaction: the lease, and the claim or its takeover. It need not be durable by itself,
    because the PLAN record that is written before any effect makes it so."""
    settings, state = walk.ports.settings, walk.ports.state
    ended: list[tuple[Run, ErrorNote]] = []
    with state.transaction(durable=False, switches=walk.switches) as tx:
        walk.check_wanted(claiming=True)
        walk.check_slot(tx)
        # Asked again where nobody can come between the answer and the claim.
        latest = state.runs.claimed(keys.claim_key)
        done = done_before(walk, latest)
        if done is not None and not any(rivals(walk)):
            return Duplicate(keys, done, is_other)
        lease = tx.leases.acquire(scope_of(walk), settings.holder, settings.lease_ms)
        if done is not None:
            ended = close_superseded(walk, tx)
            tx.leases.release(lease)
            walk.unfinished = None  # if there was one, it is among those
        elif latest is not None and latest.status == "RUNNING" and not abandons(walk, latest):
            kind: type[Fresh | Resume] = Resume
            run = msgspec.structs.replace(latest, attempt=latest.attempt + 1, trigger=taken_up(walk, latest))
            tx.runs.save(run)
        else:
            check_whole(walk)
            ended = close_superseded(walk, tx)
            kind = Fresh
            run = new_run(walk, inputs, keys, latest)
            tx.runs.claim(run)
    # Only now: what a transaction said that was rolled back is not so.
    tell_superseded(walk, ended)
    if done is not None:
        return Duplicate(keys, done, is_other)
    tenure = Tenure(lease, walk.ports.clock.now_ms())
    walk.reached.admitted = admitted = kind(keys, run, tenure, is_other)
    if not settings.dry_run:
        heartbeat.begin(walk, walk.ports, tenure)
    if isinstance(admitted, Resume):
        walk.trigger = msgspec.structs.replace(walk.trigger, correlation_id=run.trigger.correlation_id)
        walk.started_ms = tenure.renewed_ms
    walk.bind(run.run_id, keys.claim_key)
    walk.say("run.started", status="started", admission=admitted.told)
    return admitted


def abandons(walk: Walk, latest: Run) -> bool:
    """Whoever abandons begins anew, whatever is unfinished; unless that is what is taken up."""
    return abandons_unfinished(walk.trigger) and (walk.unfinished is None or walk.unfinished.run_id != latest.run_id)


def taken_up(walk: Walk, latest: Run) -> Trigger:
    """The trigger of an unfinished run, with what whoever takes it up sets aside: a resume after that knows it too."""
    asked = walk.trigger
    kept = latest.trigger
    if not kept.correlation_id:  # from before every trigger had one
        kept = msgspec.structs.replace(kept, correlation_id=kept.trigger_id or asked.correlation_id)
    if not overrides_of(asked):
        return kept
    return msgspec.structs.replace(
        kept,
        force=asked.force,
        abandon=asked.abandon,
        allow_deletions=asked.allow_deletions,
        reason=asked.reason,
        actor=asked.actor,
    )


def new_run(walk: Walk, inputs: list[SourceRef], keys: Keys, latest: Run | None) -> Run:
    n = latest.n + 1 if latest is not None else 0
    return Run(
        run_id=run_id(keys.claim_key, n),
        claim_key=keys.claim_key,
        n=n,
        run_key=keys.run_key,
        input_hash=keys.input_hash,
        updater_id=walk.updater.id,
        updater_version=walk.updater.version,
        dataset=walk.dataset,
        trigger=walk.trigger,
        status="RUNNING",
        started_at=rfc3339(walk.started_ms),
        inputs=list(inputs),  # as they came: what quarantine makes of them is in the plan record
        metadata=dict(walk.ports.metadata),
        continues=continued(walk, latest),
        code_hash=walk.updater.code_hash,
    )


def continued(walk: Walk, latest: Run | None) -> str:
    """The failed run whose finished steps are kept. Whoever wants to run again, or anew, keeps none."""
    if latest is None or latest.status != "FAILED" or walk.trigger.force or abandons_unfinished(walk.trigger):
        return ""
    return latest.run_id if latest.plan_hash else latest.continues


def scope_of(walk: Walk) -> str:
    """What the lease is on. One on the whole dataset and one on a partition of it exclude each other."""
    narrow = walk.updater.lease_by == "partition"
    scope = scopes(walk.updater.id, walk.dataset, walk.trigger.partition if narrow else "")[0]
    preview = preview_of(walk.trigger)
    return f"preview/{preview}/{scope}" if preview else scope  # it is in nobody's way


def rivals(walk: Walk) -> Iterator[Run]:
    """Unfinished runs of the same work, over whatever inputs, that must not come back once this one was here. A run
    of the whole dataset stands for its partitions."""
    part = walk.trigger.partition
    return (run for run in alike(walk) if part in ("", run.trigger.partition))


def alike(walk: Walk) -> Iterator[Run]:
    """Unfinished runs of the same work, of whichever part of the dataset."""
    wanted = (walk.updater.id, walk.dataset, walk.trigger.window, params_of_work(walk.trigger))
    for run in walk.ports.state.runs.unfinished(walk.dataset):
        if (run.updater_id, run.dataset, run.trigger.window, params_of_work(run.trigger)) == wanted:
            yield run


def check_whole(walk: Walk) -> None:
    """A partition does not stand for the whole, which has to be ended first."""
    for run in alike(walk) if walk.trigger.partition else ():
        if not run.trigger.partition:
            raise Conflict(
                f"run {run.run_id} of the whole of {walk.dataset} is unfinished",
                hint=f"finish it first (`kfm resume`), or abandon it: `kfm run {walk.dataset} --abandon --reason …`",
            )


def close_superseded(walk: Walk, tx: Tx) -> list[tuple[Run, ErrorNote]]:
    """An unfinished run of the same work over other inputs (or another version) must not come back
    later and publish old content over new: it ends here, with its receipt."""
    ended = []
    for old in list(rivals(walk)):
        if old.updater_version != walk.updater.version and not abandons(walk, old):
            raise PlanDrift(
                f"run {old.run_id} of {old.updater_id} {old.updater_version} is unfinished "
                f"and this is version {walk.updater.version}",
                hint="finish it with the old version (`kfm resume`), or abandon it: "
                f"`kfm run {walk.asked_for} --abandon --reason …`",
            )
        why = "a later run over other inputs took its place"
        if abandons(walk, old):
            why = f"abandoned with --abandon by {walk.trigger.actor}: {walk.trigger.reason}"
        note = ErrorNote(code="run.superseded", message=why)
        tx.runs.save(msgspec.structs.replace(old, status="FAILED"))
        append(walk.ports, closing_receipt(walk, old, "superseded", note), walk.updater.op, walk.standing, tx)
        measure_superseded(walk, tx, old, note)
        ended.append((old, note))
        if old.trigger.trigger_id != walk.trigger.trigger_id:
            tx.inbox.finish(old.trigger, old.run_id)
    return ended


def tell_superseded(walk: Walk, ended: list[tuple[Run, ErrorNote]]) -> None:
    for old, note in ended:
        walk.log.bind(
            run_id=old.run_id,
            job_id=old.claim_key[:32],
            correlation_id=old.trigger.correlation_id or old.trigger.trigger_id or None,
        ).event("run.superseded", status="failed", outcome="superseded", error={"code": note.code})


def stays_open(walk: Walk, problem: KfmError) -> bool:
    """Is this error no end of the run? It is one for an operation whose ref went elsewhere: its plan names
    where the ref was, so no later attempt can succeed. It is none for a run that could not be taken up again."""
    if isinstance(problem, Moved) and walk.updater.moves_only:
        return False
    if walk.unfinished is not None and walk.reached.claimed is None:
        return True
    return isinstance(problem, (Broken, Conflict, Frozen, PlanDrift))


def leave(walk: Walk) -> None:
    """Stop without ending the run: it stays in the journal to be resumed. Frees the lease if it is ours."""
    lease = walk.reached.lease
    if lease is not None:
        with contextlib.suppress(KfmError):
            walk.ports.state.leases.release(lease)
