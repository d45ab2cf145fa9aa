"""Admission: claims the work of a run by compare-and-swap, or returns why the run does not start."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kfm.clock import rfc3339
from kfm.engine import heartbeat
from kfm.engine.changes.code_changes import code_changed
from kfm.engine.changes.object_damage import is_whole
from kfm.engine.partition_base import holds_still
from kfm.engine.protected.ledger_redaction import append
from kfm.engine.receipt_stage import closing_receipt
from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import Acquired, Duplicate, Fresh, Keys, Resume, Stopped, Tenure
from kfm.engine.telemetry_stage import measure_superseded
from kfm.errors import Conflict, Frozen, PlanDrift
from kfm.model import refs
from kfm.model.keys import claim_key, input_hash, run_id, run_key_of, scopes
from kfm.model.ports import Tx
from kfm.model.preview_records import params_of_work, preview_of, zone_ref
from kfm.model.records import ErrorNote, Run, SourceRef, Trigger
from kfm.model.run_overrides import abandons_unfinished, check_reason, overrides_of


def admit(context: RunContext, acquired: Acquired) -> Fresh | Resume | Duplicate | Stopped:
    """Return the claim of the work, or the reason why there is nothing to do: the work is done, or it is frozen."""
    context.stage = "ADMIT"
    check_reason(context.trigger)
    context.reached.keys = keys = keys_of(context, acquired.inputs)
    done, is_other, is_open = look(context, keys)
    admitted: Fresh | Resume | Duplicate | Stopped
    if done is not None:
        admitted = Duplicate(keys, done, is_other) if is_open else Stopped(keys, is_other)
    else:
        try:
            admitted = claim(context, acquired.inputs, keys, is_other)
        except Frozen:  # raised before anything was claimed
            admitted = Stopped(keys, is_other)
    context.reached.admitted = admitted
    if isinstance(admitted, Duplicate) and context.updater.declared:
        from kfm.engine.plan import check_unchanged

        check_unchanged(context, admitted)
    return admitted


def look(context: RunContext, keys: Keys) -> tuple[Run | None, bool, bool]:
    """Return the run that already did this work, if any; whether the code has changed; and, for work that is done,
    whether nothing is frozen. `claim` checks again in its transaction."""
    trigger, updater, state = context.trigger, context.updater, context.world.state
    with state.reading():
        done = None if any(rivals(context)) else done_before(context, state.runs.claimed(keys.claim_key))
        is_other = (done is None or done.code_hash != updater.code_hash) and code_changed(
            state, updater, context.dataset, trigger.partition, keys.claim_key
        )
        is_open = done is not None and not any(refs.is_frozen(state.refs.at(switch)) for switch in context.switches)
    return done, is_other, is_open


def keys_of(context: RunContext, inputs: list[SourceRef]) -> Keys:
    trigger, updater = context.trigger, context.updater
    read = input_hash(inputs)
    return Keys(
        input_hash=read,
        run_key=run_key_of(inputs, trigger.window, updater.version, trigger.partition),
        claim_key=claim_key(
            updater.id, updater.version, context.dataset, trigger.window, read, trigger.params, trigger.partition
        ),
    )


def done_before(context: RunContext, latest: Run | None) -> Run | None:
    """Return the latest run of the claim if its result is live and this run is not forced; else None."""
    if latest is None or latest.status != "COMMITTED" or context.trigger.force or not is_live(context, latest):
        return None
    return latest


def is_live(context: RunContext, run: Run) -> bool:
    """Return whether the result of the run is still in place: not rolled back, not withdrawn, not checked against other
    contracts since, and with all its objects. If a later run quarantined its source, which then returned to the bytes
    of this run, the work is done once more: that ends the quarantine."""
    state = context.world.state
    if run.version_digest and _is_quarantined_since(context):
        return False
    if run.version_digest and run.trigger.partition:
        return holds_still(state, context.world.objects, run)
    if run.version_digest:
        if state.refs.at(zone_ref("processed", run.dataset, run.trigger)) != run.version_digest:
            return False
        version = state.ledger.version(run.dataset, run.version_digest)
        last = version and (version.validated_by or version.run_id)
        other = state.runs.get(last) if last and last != run.run_id else run
        if other is None or _contracts(other) != _contracts(run):
            return False
        if not context.damaged and not is_whole(context, run.version_digest, version):
            context.damaged.append(run.version_digest)  # kept, because the claim asks again inside its transaction
        return not context.damaged
    return all(state.refs.at(move.ref) == move.after for move in run.moves)


def _is_quarantined_since(context: RunContext) -> bool:
    """Return whether the quarantine of this work was filed by a run that failed, so by none that made a version."""
    state, name = context.world.state, context.ref_in("quarantine")
    if not state.refs.at(name):
        return False
    filed = next(iter(state.refs.history(name, reverse=True, limit=1)), None)
    receipt = state.ledger.receipt(filed.run_id) if filed is not None else None
    return receipt is not None and receipt.status == "FAILED"


def _contracts(run: Run) -> list[str]:
    return [source.contract_hash for source in run.inputs]


def claim(context: RunContext, inputs: list[SourceRef], keys: Keys, is_other: bool) -> Fresh | Resume | Duplicate:
    """Take the lease and the claim in one transaction, or resume the unfinished run that has the claim.

    The transaction need not be durable by itself: the PLAN record, which is written before any effect, makes it so.
    """
    settings, state = context.world.settings, context.world.state
    ended: list[tuple[Run, ErrorNote]] = []
    with state.transaction(durable=False, switches=context.switches) as tx:
        context.check_wanted(claiming=True)
        context.check_slot(tx)
        # Checked again inside the transaction, where no other worker can claim in between.
        latest = state.runs.claimed(keys.claim_key)
        done = done_before(context, latest)
        if done is not None and not any(rivals(context)):
            return Duplicate(keys, done, is_other)
        lease = tx.leases.acquire(scope_of(context), settings.holder, settings.lease_ms)
        if done is not None:
            ended = close_superseded(context, tx)
            tx.leases.release(lease)
            context.work = msgspec.structs.replace(context.work, unfinished=None)  # it was closed with the others
        elif latest is not None and latest.status == "RUNNING" and not abandons(context, latest):
            kind: type[Fresh | Resume] = Resume
            run = msgspec.structs.replace(latest, attempt=latest.attempt + 1, trigger=taken_up(context, latest))
            tx.runs.save(run)
        else:
            check_whole(context)
            ended = close_superseded(context, tx)
            kind = Fresh
            run = new_run(context, inputs, keys, latest)
            tx.runs.claim(run)
    # Logged only now, because the transaction may have been rolled back.
    log_superseded(context, ended)
    if done is not None:
        return Duplicate(keys, done, is_other)
    tenure = Tenure(lease, context.world.clock.now_ms())
    context.reached.admitted = admitted = kind(keys, run, tenure, is_other)
    if not settings.dry_run:
        heartbeat.begin(context, context.world, tenure)
    if isinstance(admitted, Resume):
        trigger = msgspec.structs.replace(context.trigger, correlation_id=run.trigger.correlation_id)
        context.work = msgspec.structs.replace(context.work, trigger=trigger)
        context.started_ms = tenure.renewed_ms
    context.bind(run.run_id, keys.claim_key)
    context.say("run.started", status="started", admission=admitted.told)
    return admitted


def abandons(context: RunContext, latest: Run) -> bool:
    """Return whether this run abandons `latest` and starts again. A run never abandons the one that it resumes."""
    return abandons_unfinished(context.trigger) and (
        context.unfinished is None or context.unfinished.run_id != latest.run_id
    )


def taken_up(context: RunContext, latest: Run) -> Trigger:
    """Return the trigger of an unfinished run with the overrides of the run that resumes it, for later resumes, too."""
    asked = context.trigger
    kept = latest.trigger
    if not kept.correlation_id:  # of an older version, which wrote none
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


def new_run(context: RunContext, inputs: list[SourceRef], keys: Keys, latest: Run | None) -> Run:
    n = latest.n + 1 if latest is not None else 0
    return Run(
        run_id=run_id(keys.claim_key, n),
        claim_key=keys.claim_key,
        n=n,
        run_key=keys.run_key,
        input_hash=keys.input_hash,
        updater_id=context.updater.id,
        updater_version=context.updater.version,
        dataset=context.dataset,
        trigger=context.trigger,
        status="RUNNING",
        started_at=rfc3339(context.started_ms),
        inputs=list(inputs),  # as they were fetched; the PLAN record has the inputs after quarantine
        metadata=dict(context.work.metadata),
        continues=continued(context, latest),
        code_hash=context.updater.code_hash,
    )


def continued(context: RunContext, latest: Run | None) -> str:
    """Return the failed run whose finished steps are reused; empty if there is none, or with --force or --abandon."""
    if latest is None or latest.status != "FAILED" or context.trigger.force or abandons_unfinished(context.trigger):
        return ""
    return latest.run_id if latest.plan_hash else latest.continues


def scope_of(context: RunContext) -> str:
    """Return the scope of the lease. A lease on a dataset and one on a partition of it exclude each other."""
    narrow = context.updater.lease_by == "partition"
    scope = scopes(context.updater.id, context.dataset, context.trigger.partition if narrow else "")[0]
    preview = preview_of(context.trigger)
    return refs.preview(preview, scope) if preview else scope  # a preview excludes no other run


def rivals(context: RunContext) -> Iterator[Run]:
    """Yield the unfinished runs of the same work, over any inputs, that must not be resumed after this one. A run of
    the whole dataset replaces those of its partitions."""
    part = context.trigger.partition
    return (run for run in alike(context) if part in ("", run.trigger.partition))


def alike(context: RunContext) -> Iterator[Run]:
    """Yield the unfinished runs of the same work, of the dataset or of any of its partitions."""
    wanted = (context.updater.id, context.dataset, context.trigger.window, params_of_work(context.trigger))
    for run in context.world.state.runs.unfinished(context.dataset):
        if (run.updater_id, run.dataset, run.trigger.window, params_of_work(run.trigger)) == wanted:
            yield run


def check_whole(context: RunContext) -> None:
    """Conflict if this run is of a partition while a run of the whole dataset is unfinished: that must end first."""
    for run in alike(context) if context.trigger.partition else ():
        if not run.trigger.partition:
            raise Conflict(
                f"run {run.run_id} of the whole of {context.dataset} is unfinished",
                hint=f"finish it first (`kfm resume`), or abandon it: `kfm run {context.dataset} --abandon --reason …`",
            )


def close_superseded(context: RunContext, tx: Tx) -> list[tuple[Run, ErrorNote]]:
    """End the unfinished runs of the same work over other inputs, each with its receipt, and return them.

    A later resume of such a run would publish old content over new. PlanDrift if one has another updater version and is
    not abandoned.
    """
    ended = []
    for old in list(rivals(context)):
        if old.updater_version != context.updater.version and not abandons(context, old):
            raise PlanDrift(
                f"run {old.run_id} of {old.updater_id} {old.updater_version} is unfinished "
                f"and this is version {context.updater.version}",
                hint="finish it with the old version (`kfm resume`), or abandon it: "
                f"`kfm run {context.arguments} --abandon --reason …`",
            )
        why = "a later run over other inputs took its place"
        if abandons(context, old):
            why = f"abandoned with --abandon by {context.trigger.actor}: {context.trigger.reason}"
        note = ErrorNote(code="run.superseded", message=why)
        tx.runs.save(msgspec.structs.replace(old, status="FAILED"))
        append(context, closing_receipt(context, old, "superseded", note), tx, context.standing)
        measure_superseded(context, tx, old, note)
        ended.append((old, note))
        if old.trigger.trigger_id != context.trigger.trigger_id:
            tx.inbox.finish(old.trigger, old.run_id)
    return ended


def log_superseded(context: RunContext, ended: list[tuple[Run, ErrorNote]]) -> None:
    for old, note in ended:
        context.log.bind(
            run_id=old.run_id,
            job_id=old.claim_key[:32],
            correlation_id=old.trigger.correlation_id or old.trigger.trigger_id or None,
        ).event("run.superseded", status="failed", outcome="superseded", error={"code": note.code})
