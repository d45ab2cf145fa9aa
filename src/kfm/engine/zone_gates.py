"""The gates before the zones: asked before the commit, so that an engine that is slow or stopped makes nobody wait at
the lock; in the transaction only the digests, the policies and the epoch of the labels are compared again."""

from __future__ import annotations

from kfm.engine.run_context import RunContext
from kfm.errors import Conflict, Denied, Moved, Sovereignty
from kfm.model.records import DatasetVersion, Decision, Obligation, RefMove, Run, SourceRef
from kfm.model.zone_requests import StepUp

# Rules by which not the publisher of the data decides, but those it is of. Not among them: what a missing word in
# kfm.yml says no to.
THEIRS = ("care.", "zone.sealed", "zone.usable", "fair.accessible")


def admit_to_work(context: RunContext, run: Run, inputs: list[SourceRef]) -> None:
    """Ask the gate before the Work zone. Denied if it refuses. An operation reads no source, so no gate is asked."""
    if context.updater.moves_only:
        return
    step = StepUp(to="work", subject=run.input_hash, asking=context.asking(), run=run, inputs=inputs)
    _taken(context, step, context.guards.step_gate(step))


def admit_to_processed(context: RunContext, run: Run, inputs: list[SourceRef], version: DatasetVersion) -> Decision:
    step = StepUp(
        to="processed", subject=version.digest, asking=context.asking(), run=run, inputs=inputs, version=version
    )
    decision = context.guards.step_gate(step)
    _taken(context, step, decision)
    return decision


def _taken(context: RunContext, step: StepUp, decision: Decision) -> None:
    """Told and kept where it says something. A yes to public data, to which every runner says the same, is not."""
    standing = step.standing
    plain = standing is None or standing.level == "public"
    if decision.allow is not True or decision.subject != step.subject:
        tell(context, decision)
        raise denied(context, f"nothing may go on to {step.to.capitalize()}", decision)
    unmet = unmet_by(decision.obligations, step.version)
    if unmet:
        tell(context, decision)
        raise Sovereignty(f"nothing may go on to {step.to.capitalize()}: " + "; ".join(unmet), hint=ASK)
    if not plain:
        tell(context, decision)


def admit_to_published(context: RunContext, move: RefMove) -> Decision:
    """Asked before the commit: the gate reads every byte, and nobody waits at the lock meanwhile. Bytes under
    a digest never change; where the ref is, the switches and the fence are asked again in the transaction itself."""
    if context.guards.protection is not None:
        from kfm.engine.protected.leak_check import check_published

        check_published(context, move)
        _check_standing(context, move)
    decision = context.guards.gate(context.world.state, context.world.objects, move, asking=context.asking())
    tell(context, decision)
    if not is_yes(decision, move):
        raise denied(context, f"{move.ref} may not move", decision)
    unmet = unmet_by(decision.obligations, context.world.state.ledger.version(context.dataset, move.after))
    if unmet:
        raise Sovereignty(f"{move.ref} may not move: " + "; ".join(unmet), hint=ASK)
    return decision


def _check_standing(context: RunContext, move: RefMove) -> None:
    """By what labels say today of all it was made of, the datasets that were read among it, and not only then."""
    from kfm.engine.protected.source_classification import PUBLIC, is_more_closed

    classify = context.guards.classification_of
    now = classify(context.dataset, move.after) if classify is not None else None
    version = context.world.state.ledger.version(context.dataset, move.after)
    then = version.standing if version is not None else None
    if now is not None and is_more_closed(now, then or PUBLIC):
        raise Denied(
            f"{move.ref} may not move: it is more protected than when it was made: " + ", ".join(now.rules),
            hint=f"`kfm run {context.dataset}` makes it anew, as it may be",
            rule="standing.changed",
        )


def is_yes(decision: Decision, move: RefMove) -> bool:
    """Only a literal yes about exactly this digest opens the Published zone."""
    return decision.allow is True and decision.subject == move.after


def still_labelled(context: RunContext) -> None:
    """In the transaction, of whatever is committed: do the labels say what they said when the run began?"""
    guards = context.guards
    if guards.epoch_now is None or guards.epoch_now() == guards.epoch:
        return
    kind = Moved if context.updater.moves_only else Conflict  # who only waits for his turn would wait for ever
    raise kind("the labels changed while this was done", hint="run it again")


def still_holds(context: RunContext, decisions: list[Decision]) -> None:
    """In the transaction: do the policies and the labels say what they said when they were asked?"""
    if context.guards.rules is None or not decisions:
        return
    policy_digest, epoch = context.guards.rules()
    for decision in decisions:
        if decision.policy_digest != policy_digest or decision.label_epoch != epoch:
            raise Moved("policies or labels changed while this was decided", hint="run it again")


def unmet_by(obligations: list[Obligation], version: DatasetVersion | None) -> list[str]:
    """What a yes demands and was not done. Masking happens on the way in; nothing here can take a column out of bytes
    that are made, or count requests: who asks for that is told no."""
    found = []
    for duty in obligations:
        standing = version.standing if version is not None else None
        done = standing.resolution if standing is not None and standing.level == "generalised" else None
        if duty.do == "mask" and (done is None or duty.resolution is None or done > duty.resolution):
            found.append(f"it is not masked to resolution {duty.resolution}")
        elif duty.do == "withhold":
            found.append("a column is to be withheld, and is in it")
        elif duty.do == "throttle":
            found.append("it is to be throttled, and files cannot be")
    return found


ASK = "it is for its stewards and its community to decide: `kfm policy explain` says what they are asked"


BESIDE = {  # by the beginning of a rule that no policy decides
    "graph.circle": "see `kfm lineage upstream processed/{dataset}`; make it of something else",
    "graph.": "`kfm reconcile --repair` draws again what the receipts say",
    "catalog.unchecked": "pip install 'kansas-frontier-matrix[catalog]', or take `catalog` out of kfm.yml",
    "catalog.": "mend what kfm.yml or upsert() says of {dataset}, and run it again",
}


def denied(context: RunContext, what: str, decision: Decision) -> Denied:
    message = f"{what}: " + "; ".join(decision.reasons or ["the gate gave no reason"])
    if any(rule.startswith(THEIRS) for rule in decision.rules):
        return Sovereignty(message, hint=ASK)
    if any(rule.startswith("engine.") for rule in decision.rules):
        return Denied(message, hint="look at the policy server that `policy.url` names, and try again")
    if any(reason.startswith("checksums:") for reason in decision.reasons):
        return Denied(
            message,
            hint=f"restore it from a backup, or make it again: `kfm run {context.dataset} --force --reason …`",
        )
    for begins, hint in BESIDE.items():
        if any(rule.startswith(begins) for rule in decision.rules):
            return Denied(message, hint=hint.format(dataset=context.dataset))
    unheld = any(reason.startswith("validation:") for reason in decision.reasons)
    return Denied(
        message,
        hint=f"what is missing goes into kfm.yml under datasets.{context.dataset}; then "
        + (f"`kfm run {context.dataset}` holds its sources against it, and you can " if unheld else "")
        + "try again",
    )


def tell(context: RunContext, decision: Decision) -> None:
    """Into the receipt, once, and into the log."""
    reached = context.reached
    reached.decisions = [one for one in reached.decisions if one.gate != decision.gate] + [decision]
    context.say(
        "gate.decided",
        gate=decision.gate,
        allow=decision.allow is True,
        decision_id=decision.id,
        policy_digest=decision.policy_digest,
        rules=decision.rules,
        engine=decision.engine,
    )
