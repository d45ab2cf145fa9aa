"""The gates before the zones.

They are asked before the commit, so that a slow policy engine does not keep other workers waiting for the lock. In the
transaction only the digests, the policies and the epoch of the labels are compared again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kfm.engine.run_context import RunContext
from kfm.errors import Conflict, Denied, Moved, Refused, Sovereignty
from kfm.model import refs
from kfm.model.interventions.hotfix_set import changes, fixes_in
from kfm.model.names import is_digest
from kfm.model.records import DatasetVersion, Decision, Obligation, RefMove, Run, SourceRef
from kfm.model.zone_requests import Correction, StepUp

# Rules whose decision belongs to the community that the data is about, not to its publisher. A missing setting in
# kfm.yml is not among them.
THEIRS = ("care.", "zone.sealed", "zone.usable", "fair.accessible")


def admit_to_work(context: RunContext, run: Run, inputs: list[SourceRef]) -> None:
    """Ask the gate before the Work zone. Denied if it refuses. An operation reads no source, so no gate is asked.

    The request of plainly public data is decided together with the one for Processed, before anything is committed.
    """
    if context.updater.moves_only:
        return
    step = _into_work(context, run, inputs)
    if context.guards.both_gates is None or not _is_plain(step):
        _taken(context, step, context.guards.step_gate(step))


def _into_work(context: RunContext, run: Run, inputs: list[SourceRef]) -> StepUp:
    return StepUp(to="work", subject=run.input_hash, asking=context.asking(), run=run, inputs=inputs)


def _is_plain(step: StepUp) -> bool:
    """Return whether a request is about data that nothing closes, and says who asks for what and why. The shipped
    policies refuse no such request; any other is asked before the plan. The answer does not change during a run."""
    asking, run = step.asking, step.run
    if step.standing is not None and step.standing.level != "public":
        return False
    told = all(text.strip() for text in (asking.who, asking.what, asking.why, run.dataset)) and asking.when_ms > 0
    return told and run.metadata.get("sensitivity") in (None, "public") and is_digest(step.subject)


def admit_to_processed(context: RunContext, run: Run, inputs: list[SourceRef], version: DatasetVersion) -> Decision:
    """Ask the gate before the Processed zone, and return its decision. Denied if it refuses. A request for Work that
    waited is decided with it; without two clean yeses each gate is asked alone."""
    work = _into_work(context, run, inputs)
    step = StepUp(to="processed", subject=version.digest, asking=work.asking, run=run, inputs=inputs, version=version)
    if context.guards.both_gates is not None and _is_plain(work):
        both = context.guards.both_gates(work, step) if _is_plain(step) else None
        if both is not None and both.allow is True and both.subject == step.subject:
            return both
        _taken(context, work, context.guards.step_gate(work))
    decision = context.guards.step_gate(step)
    _taken(context, step, decision)
    return decision


def _taken(context: RunContext, step: StepUp, decision: Decision) -> None:
    """Record a decision, and raise if it refuses. A yes about public data, which every runner decides alike, is not
    recorded."""
    standing = step.standing
    plain = standing is None or standing.level == "public"
    if decision.allow is not True or decision.subject != step.subject:
        record_decision(context, decision)
        raise denied(context, f"nothing may go on to {step.to.capitalize()}", decision)
    unmet = unmet_by(decision.obligations, step.version)
    if unmet:
        record_decision(context, decision)
        raise Sovereignty(f"nothing may go on to {step.to.capitalize()}: " + "; ".join(unmet), hint=ASK)
    if not plain:
        record_decision(context, decision)


class Publication(NamedTuple):
    """A version that an operation makes public, or that stays public while its metadata are corrected."""

    move: RefMove  # of the published ref; from the version to itself if only hotfixes move
    fixes: str  # digest of the hotfixes that it is shown with; empty: none

    @property
    def dataset(self) -> str:
        return refs.parse(self.move.ref).dataset


def publications(context: RunContext, moves: Sequence[RefMove]) -> Iterator[Publication]:
    """Yield what the moves of an operation show to the public: every version that they publish, and every published
    version whose hotfixes they change. Refused if hotfixes are to be applied to a dataset that is not published."""
    at = context.world.state.refs.at
    after = {move.ref: move.after for move in moves}
    for move in moves:
        dataset = refs.parse(move.ref).dataset
        if move.ref.startswith(refs.PUBLISHED) and move.after:
            hotfix = refs.hotfix(dataset)
            yield Publication(move, after.get(hotfix, at(hotfix)))
        elif move.ref.startswith(refs.HOTFIX) and refs.published(dataset) not in after:
            version = at(refs.published(dataset))
            if version:
                yield Publication(RefMove(ref=refs.published(dataset), before=version, after=version), move.after)
            elif not _only_takes_back(context, move):
                raise Refused(f"{dataset} is not published, so it has nothing to correct", hint="correct kfm.yml")


def _only_takes_back(context: RunContext, move: RefMove) -> bool:
    """Return whether the move of a hotfix ref adds no hotfix to those that are applied."""
    before, after = (fixes_in(context.world.objects.read(at)) if at else [] for at in (move.before, move.after))
    return all(fix in before for fix in after)


def admit_to_published(context: RunContext, shown: Publication) -> Decision:
    """Ask the gate before the Published zone, and return its decision. Denied if it refuses.

    The gate reads every byte before the commit, while no lock is held. Bytes under a digest never change; the place of
    the ref, the freeze flags and the lease are checked again in the transaction.
    """
    move, version = shown.move, context.world.state.ledger.version(shown.dataset, shown.move.after)
    correction = None
    if shown.fixes and version is not None:
        fixes = fixes_in(context.world.objects.read(shown.fixes))
        correction = Correction(fixes=shown.fixes, changed=changes(version.metadata, version.digest, fixes))
    if context.guards.protection is not None:
        from kfm.engine.protected.leak_check import check_published

        check_published(context, move, correction)
        _check_classification(context, move)
    decision = context.guards.gate(
        context.world.state, context.world.objects, move, asking=context.asking(), correction=correction
    )
    record_decision(context, decision)
    if not is_yes(decision, move):
        raise denied(context, f"{move.ref} may not move", decision)
    unmet = unmet_by(decision.obligations, version)
    if unmet:
        raise Sovereignty(f"{move.ref} may not move: " + "; ".join(unmet), hint=ASK)
    return decision


def _check_classification(context: RunContext, move: RefMove) -> None:
    """Denied if the labels of today protect the version, or anything it was made from, more than when it was made."""
    from kfm.engine.protected.source_classification import PUBLIC, is_more_closed

    classify = context.guards.classification_of
    dataset = refs.parse(move.ref).dataset
    now = classify(dataset, move.after) if classify is not None else None
    version = context.world.state.ledger.version(dataset, move.after)
    then = version.standing if version is not None else None
    if now is not None and is_more_closed(now, then or PUBLIC):
        raise Denied(
            f"{move.ref} may not move: it is more protected than when it was made: " + ", ".join(now.rules),
            hint=f"`kfm run {dataset}` builds it again under the labels in force",
            rule="standing.changed",
        )


def is_yes(decision: Decision, move: RefMove) -> bool:
    """Return whether the decision is a literal yes about exactly this digest. Nothing else opens the Published zone."""
    return decision.allow is True and decision.subject == move.after


def still_labelled(context: RunContext) -> None:
    """Raise if the labels changed since the run began. Asked in the transaction of every commit."""
    guards = context.guards
    if guards.epoch_now is None or guards.epoch_now() == guards.epoch:
        return
    kind = Moved if context.updater.moves_only else Conflict  # an operation ends; any other run is resumed later
    raise kind("the labels changed during the run", hint="run it again")


def still_holds(context: RunContext, decisions: list[Decision]) -> None:
    """Moved if policies or labels changed since the gates decided. Asked in the transaction of the commit."""
    if context.guards.rules is None or not decisions:
        return
    policy_digest, epoch = context.guards.rules()
    for decision in decisions:
        if decision.policy_digest != policy_digest or decision.label_epoch != epoch:
            raise Moved("policies or labels changed since the gates decided", hint="run it again")


def unmet_by(obligations: list[Obligation], version: DatasetVersion | None) -> list[str]:
    """Return the obligations of a yes that are not met. Masking happens before the plan; nothing can remove a column
    from finished bytes or count requests, so such obligations are always unmet."""
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


CHECK_FAILED = "the check itself failed: "  # and the code of the error; no rule was decided


HINTS = {  # hints for rules of which the declaration of the dataset is not the cure
    "provenance.attested": "sign it: `kfm attest {dataset} --version {version}`, and try again",
    "validation.quarantined": "`kfm quarantine {dataset}` shows the rows; have the source corrected, and run it again",
    "metadata.kept": "these bytes stay closed, however often they are built; other bytes get today's sensitivity",
}
BESIDE = {  # hints for rules that no policy decides, by their prefix
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
    if any(reason.startswith(CHECK_FAILED) for reason in decision.reasons):
        return Denied(message, hint="`kfm doctor` names what does not answer or is damaged; mend it, and try again")
    if any(reason.startswith("checksums:") for reason in decision.reasons):
        return Denied(
            message,
            hint=f"restore it from a backup, or make it again: `kfm run {context.dataset} --force --reason …`",
        )
    for begins, hint in {**HINTS, **BESIDE}.items():
        if any(rule.startswith(begins) for rule in decision.rules):
            return Denied(message, hint=hint.format(dataset=context.dataset, version=decision.subject))
    unheld = any(reason.startswith("validation:") for reason in decision.reasons)
    line = ", such as `license: CC-BY-4.0`" if "licence: license is not declared" in decision.reasons else ""
    return Denied(
        message,
        hint=f"what is missing goes into kfm.yml under datasets.{context.dataset}{line}; then "
        + (f"`kfm run {context.dataset}` holds its sources against it, and you can " if unheld else "")
        + "try again",
    )


def record_decision(context: RunContext, decision: Decision) -> None:
    """Record a decision in the receipt, once, and in the log. An operation has one for each version that it shows."""
    reached, together = context.reached, context.updater.moves_only
    others = [
        one for one in reached.decisions if one.gate != decision.gate or (together and one.subject != decision.subject)
    ]
    reached.decisions = [*others, decision]
    context.say(
        "gate.decided",
        gate=decision.gate,
        allow=decision.allow is True,
        decision_id=decision.id,
        policy_digest=decision.policy_digest,
        rules=decision.rules,
        engine=decision.engine,
    )
