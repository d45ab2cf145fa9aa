"""The receipt stage: every run has one receipt, however it ends, written in the transaction that ends it."""

from __future__ import annotations

from typing import Any

import msgspec

from kfm.clock import rfc3339
from kfm.engine.changes.code_changes import code_warnings
from kfm.engine.changes.object_damage import damage_notes
from kfm.engine.protected.ledger_redaction import append, as_real
from kfm.engine.run_context import RunContext, is_public
from kfm.engine.stage_results import NOTHING_MADE, Acquired, Assembled, Duplicate, Stopped
from kfm.engine.telemetry_stage import measure, measure_merged
from kfm.errors import Cancelled, Denied, Held, KfmError, Sovereignty, stack_of
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import GENESIS, digest
from kfm.model.keys import run_id as make_run_id
from kfm.model.names import dataset_uri, is_digest
from kfm.model.operation_target import REF, aims_of
from kfm.model.outbox_messages import PendingRun, expected_sinks
from kfm.model.ports import Tx
from kfm.model.preview_records import preview_of
from kfm.model.records import ErrorNote, Item, Receipt, RefMove, Run, Segment, SourceRef, Status, Trigger
from kfm.model.run_overrides import overrides_of
from kfm.model.updater import Updater


def record(context: RunContext, run_id: str, made: Assembled, tx: Tx) -> Receipt:
    """Write the receipt of a committed run, with its attestation if the installation signs, and return it. The run is
    pending at every sink that must follow it."""
    receipt = receipt_of(context, "SUCCESS", outcome_of(made), run_id, made=made)
    append(context, receipt, tx, context.standing)
    context.keep_config(tx)
    if sinks := expected_sinks(context.world.settings.sinks, made.moves):
        expect(receipt, sinks, tx)
    if context.guards.attest is not None:
        policies = context.guards.protection.policies if context.guards.protection is not None else {}
        context.guards.attest(as_real(receipt), context.reached.inputs, policies, tx)
    return receipt


OLDER_SETTINGS = ErrorNote(
    code="configuration.changed",
    message="it was finished with the settings it was planned with, not those of kfm.yml; run it again to apply them",
)


def expect(receipt: Receipt, sinks: list[str], tx: Tx) -> None:
    """Mark a run, whose receipt is the last entry of the ledger, as pending at these sinks."""
    index = tx.ledger.next_index() - 1
    body = tx.ledger.receipt_body(receipt.run_id)
    assert body is not None, "it was appended before"
    tx.outbox.expect(
        PendingRun(
            index=index,
            run_id=receipt.run_id,
            dataset=receipt.dataset,
            receipt=digest(body),
            sinks=sinks,
            since=receipt.finished_at,
        )
    )


_TOLD = frozenset(
    [
        "processed",
        "published",
        "hotfix",
        "switch",
        "amber",
        "orders",
        "keys",
        "rules",
        "backfill",
        "preview",
        "maintenance",
        "override",
        "token",
    ]
)


def outcome_of(made: Assembled) -> str:
    moved = any(refs.parse(move.ref).zone in _TOLD for move in made.moves)
    return "done" if moved else "unchanged"


def outcome_for(problem: KfmError) -> str:
    """Return the outcome of a run that failed with this error: `escalated` if the community that owns the data must
    decide."""
    kinds = ((Held, "held"), (Sovereignty, "escalated"), (Denied, "denied"), (Cancelled, "cancelled"))
    return next((word for kind, word in kinds if isinstance(problem, kind)), "failed")


def skip(context: RunContext, acquired: Acquired, admitted: Duplicate | Stopped) -> Receipt:
    """End a run that has nothing to do, or that is frozen, and return its receipt. Nothing else changes.

    Not durable by itself: many skipped runs share one sync (`State.sync`) before a caller is notified.
    """
    frozen, claim_key = isinstance(admitted, Stopped), admitted.keys.claim_key
    with context.world.state.transaction(durable=False) as tx:
        context.check_wanted()
        run_id = make_run_id("skip/" + claim_key, tx.ledger.next_index())
        receipt = receipt_of(context, "SKIPPED", "frozen" if frozen else "noop", run_id)
        append(context, receipt, tx, context.standing)
        context.keep_config(tx)
        measure(context, tx, "SKIPPED", run_id)
        for checkpoint in acquired.checkpoints:
            tx.inbox.keep_checkpoint(checkpoint)
        if not frozen:
            tx.inbox.finish(context.trigger, run_id)
        # An unfinished run itself keeps its trigger.
        elif context.unfinished is None and not preview_of(context.trigger):
            kept = context.updater.kept(context.trigger, acquired.inputs)
            waiting = context.world.state.inbox.waiting(kept.dataset)
            if kept.trigger_id or not any(is_same_request(kept, each) for each in waiting):
                tx.inbox.keep(kept)
    context.bind(run_id, claim_key)
    context.say(
        "run.skipped",
        status="skipped",
        outcome=receipt.outcome,
        duration_ms=context.elapsed_ms(),
        zone_in=list(dict.fromkeys([item.zone for item in receipt.inputs])),
        zone_out=[],
    )
    return receipt


def is_same_request(one: Trigger, other: Trigger) -> bool:
    """Return whether one run would answer both triggers. The actor and reason of a forced run matter, because the
    ledger records them. Every trigger of an operation is separate."""
    if one.kind == "operation":
        return False
    plain = {"trigger_id": "", "received_at": "", "correlation_id": ""}
    if not one.force:
        plain |= {"actor": "", "reason": ""}
    return msgspec.structs.replace(one, **plain) == msgspec.structs.replace(other, **plain)


def merge(context: RunContext, into: Receipt) -> Receipt | None:
    """End a trigger that the run for another one answered, because it already waited when that run read its sources.

    Returns its receipt, or None if another worker ended it. Not durable by itself, as in `skip`.
    """
    trigger, state = context.trigger, context.world.state
    with state.transaction(durable=False) as tx:
        if state.inbox.kept(trigger) is None:
            return None
        run_id = make_run_id(f"merge/{into.run_id}", tx.ledger.next_index())
        now = context.now()
        receipt = msgspec.structs.replace(
            into,
            run_id=run_id,
            status="SKIPPED",
            outcome="noop",
            trigger=trigger.kind,
            actor=trigger.actor,
            reason=trigger.reason,
            plan_hash="",
            started_at=now,
            finished_at=now,
            outputs=[],
            moves=[],
            steps=0,
            held_rows=0,
            rows=0,
            changes={},
            provenance={**into.provenance, "merged_into": into.run_id},
            policy_decisions=[],
            errors=[],
            overrides=overrides_of(trigger),
            warnings=[],
            correlation_id=trigger.correlation_id,
        )
        append(context, receipt, tx)
        measure_merged(context, tx, receipt)
        tx.inbox.finish(trigger, run_id)
    return receipt


def fail(context: RunContext, problem: KfmError) -> Receipt:
    """End a failed run and return its receipt with the reason. Nothing is published.

    Filing quarantined rows moves a ref. If a freeze forbids that, Frozen is raised and the run stays unfinished.
    """
    outcome, stack = outcome_for(problem), stack_of(problem)
    if not is_public(context):  # a key may be the name of a site
        problem = problem.without_names()
    note = ErrorNote(code=problem.code, message=str(problem))
    reached = context.reached
    run, lease, held = reached.run, reached.lease, reached.held
    if held and context.world.unjudged is not None:
        from kfm.engine.protected.leak_check import judged_quarantine

        held = judged_quarantine(context, held, problem)
    switches = context.switches if held else ()
    with context.world.state.transaction(lease, switches=switches) as tx:
        if run is None:
            context.check_wanted()
        run_id = (
            run.run_id if run else make_run_id(f"fail/{context.updater.id}/{context.dataset}", tx.ledger.next_index())
        )
        if context.guards.protection is not None:
            context.guards.protection.facts.keep_after_failure(tx)
        moves = quarantine_moves(context, held) if held else []
        for move in moves:
            tx.refs.move(
                move,
                run_id=run_id,
                op=context.updater.op,
                actor=context.trigger.actor,
                reason=context.trigger.reason,
                ts=context.now(),
            )
        receipt = receipt_of(context, "FAILED", outcome, run_id, [note], Assembled(moves))
        if stack:
            receipt = msgspec.structs.replace(receipt, provenance={**receipt.provenance, "stack": stack})
        append(context, receipt, tx, context.standing)
        context.keep_config(tx)
        measure(context, tx, "FAILED", run_id, [problem.code])
        if run is not None:
            keep_made(context, tx)
            keep_unplanned(context, run, outcome, note, tx)
            tx.runs.save(msgspec.structs.replace(run, status="FAILED"))
        if lease is not None:
            tx.leases.release(lease)
        tx.inbox.finish(context.trigger, run_id)
    context.bind(run_id, reached.keys.claim_key)
    context.say(
        "run.failed",
        status="failed",
        outcome=outcome,
        stage=context.stage,
        error=problem,
        duration_ms=context.elapsed_ms(),
        zone_in=zones_in(context, reached.inputs),
        zone_out=zones_out(moves),
    )
    return receipt


def keep_made(context: RunContext, tx: Tx) -> None:
    """Record the finished steps, so that the next run of the same work continues from them. Without any, unlock the
    plan."""
    planned, executed = context.reached.planned, context.reached.executed
    if planned is None or executed is None:
        return
    journal = planned.journal
    if executed.tail:
        context.world.keep_rows(tx, executed.tail_rows)
        journal.append(tx, executed.results, ["EXECUTE"], done=executed.tail, failed=executed.tail_failed)
    if journal.run.locked_plan and not executed.results.done:
        tx.journal.unlock_plan(journal.run.claim_key)


def keep_unplanned(context: RunContext, run: Run, outcome: str, note: ErrorNote, tx: Tx) -> None:
    """Write the journal of a run that ended before it had a plan, such as one whose source is quarantined: one segment
    with the outcome. A journal that exists stays as it is."""
    if context.reached.planned is None and next(context.world.state.journal.segments(run.run_id), None) is None:
        payload = {"ended": {"outcome": outcome, "code": note.code, "stage": context.stage}}
        segment = Segment(n=0, prev=GENESIS, plan_hash="", phases=[], payload=payload, ts=context.now())
        tx.journal.append(run.run_id, segment)


def closing_receipt(context: RunContext, old: Run, outcome: str, note: ErrorNote) -> Receipt:
    """Return the receipt of an unfinished run that another run ends."""
    from kfm.engine.run_journal import planned_config

    return msgspec.structs.replace(
        receipt_of(context, "FAILED", outcome, old.run_id, [note]),
        job_id=old.claim_key[:32],
        updater_version=old.updater_version,
        code_hash=old.code_hash,
        run_key=old.run_key,
        input_hash=old.input_hash,
        plan_hash=old.plan_hash,
        started_at=old.started_at,
        trigger=old.trigger.kind,
        actor=old.trigger.actor,
        reason=old.trigger.reason,
        inputs=input_items(context.updater, old.dataset, old.inputs),
        outputs=[],
        moves=[],
        steps=old.steps,
        overrides=overrides_of(old.trigger),
        rows=sum(source.rows for source in old.inputs),
        held_rows=sum(source.held_rows for source in old.inputs),
        changes={},
        correlation_id=old.trigger.correlation_id or old.trigger.trigger_id,
        partition=old.trigger.partition,
        config_hash=planned_config(context.world.state, old.run_id),
    )


def quarantine_moves(context: RunContext, held: str) -> list[RefMove]:
    """Return the moves of the quarantine ref to this report. An empty report removes the ref; its history stays."""
    name = context.ref_in("quarantine")
    refs = context.world.state.refs
    before = refs.at(name)
    moves = [RefMove(ref=name, before=before, after=held)] if before != held else []
    if not context.trigger.partition:  # a run of the whole replaces its partitions
        moves += [RefMove(ref=part, before=at, after="") for part, at in refs.all(name + "/")]
    return moves


def input_items(updater: Updater, dataset: str, inputs: list[SourceRef]) -> list[Item]:
    """Return the inputs of a run for its receipt, each with its zone. For an operation: each ref before its move, and
    the version that it is moved to."""
    if not updater.moves_only:
        return [_item(source) for source in inputs]
    items: list[Item] = []
    for number, (ref, target) in enumerate(aims_of(inputs)):
        zone = refs.parse(ref.name).zone
        if number and not ref.name.startswith(refs.SHOWN):
            continue  # the refs of a preview move with it
        items.append(_item(ref))
        if is_digest(target):
            name = refs.parse(ref.name).dataset if number else dataset
            if zone == "hotfix":
                items.append(Item(kind="ref", id=REF + ref.name, checksum=target, zone=zone))
                continue
            items.append(Item(kind="dataset", id=dataset_uri(name), checksum=target, zone=updater.source_zone or zone))
    return items


def _item(source: SourceRef) -> Item:
    ref = source.uri.removeprefix(REF) if source.uri.startswith(REF) else ""
    zone = refs.parse(ref).zone or "raw"
    return Item(kind="ref" if ref else "uri", id=source.uri, checksum=source.content_hash, zone=zone)


def zones_out(moves: list[RefMove]) -> list[str]:
    return list(dict.fromkeys(refs.parse(move.ref).zone for move in moves))


def zones_in(context: RunContext, inputs: list[SourceRef]) -> list[str]:
    return list(dict.fromkeys(item.zone for item in input_items(context.updater, context.dataset, inputs)))


def output_items(context: RunContext, made: Assembled) -> list[Item]:
    """Return the outputs of a run for its receipt: the new version, or the refs that an operation moves."""
    if made.version is not None:
        checksum = made.version.digest
        return [Item(kind="dataset", id=dataset_uri(context.dataset), checksum=checksum, zone="processed")]
    return [Item(kind="ref", id=move.ref, checksum=move.after, zone=refs.parse(move.ref).zone) for move in made.moves]


def receipt_of(
    context: RunContext,
    status: Status,
    outcome: str,
    run_id: str,
    errors: list[ErrorNote] | None = None,
    made: Assembled = NOTHING_MADE,
) -> Receipt:
    updater, trigger, reached = context.updater, context.trigger, context.reached
    keys, admitted, run = reached.keys, reached.admitted, reached.run
    planned, inputs = reached.planned, reached.inputs
    return Receipt(
        run_id=run_id,
        job_id=keys.claim_key[:32],
        job_type=updater.job_type,
        dataset=context.dataset,
        updater_id=updater.id,
        updater_version=updater.version,
        status=status,
        outcome=outcome,
        trigger=trigger.kind,
        actor=trigger.actor,
        reason=trigger.reason,
        run_key=keys.run_key,
        input_hash=keys.input_hash,
        plan_hash=planned.plan.plan_hash if planned else "",
        started_at=run.started_at if run else rfc3339(context.started_ms),
        finished_at=context.now(),
        dry_run=context.world.settings.dry_run,
        inputs=made.of or input_items(context.updater, context.dataset, inputs),
        outputs=output_items(context, made) if status == "SUCCESS" else [],
        moves=made.moves,
        steps=planned.plan.steps if planned else 0,
        held_rows=sum(source.held_rows for source in inputs),
        provenance={
            "tool_versions": {
                "kfm": _version()
            },  # without the interpreter, because every runner writes the same receipt
            "transforms": [f"{updater.id}@{updater.version}"],
            **protected_as(context, inputs),
            **({"signed_list": True} if status == "SUCCESS" and context.guards.signs_lists else {}),
        },
        policy_decisions=reached.decisions,
        errors=errors or [],
        overrides=overrides_of(trigger),
        rows=sum(source.rows for source in inputs),
        changes=made.changes,
        correlation_id=trigger.correlation_id,
        code_hash=updater.code_hash,
        warnings=[
            *(code_warnings(updater, outcome) if admitted and admitted.code_changed and not trigger.force else []),
            *damage_notes(context, outcome),
            *([OLDER_SETTINGS] if context.work.replayed and status == "SUCCESS" else []),
        ],
        partition=trigger.partition,
        config_hash=context.work.config_hash,
    )


def protected_as(context: RunContext, inputs: list[SourceRef]) -> dict[str, Any]:
    """Return the classification of the inputs and the masking policies that were applied; empty if nothing is
    protected."""
    if context.standing is None:
        return {}
    said: dict[str, Any] = {"standing": context.standing.level}
    protection = context.guards.protection
    if protection is not None and context.standing.level == "generalised":
        policies = [(ref.name, protection.policies.get(ref.name)) for ref in inputs if ref.sealed_with]
        said["masking"] = [
            {
                "source": name,
                "policy": policy.id,
                "version": policy.version,
                "digest": digest(canonical(policy)),
                **({"hidden": protection.hidden[name]} if name in protection.hidden else {}),
            }
            for name, policy in policies
            if policy is not None
        ]
    return said


def _version() -> str:
    from kfm import __version__

    return __version__
