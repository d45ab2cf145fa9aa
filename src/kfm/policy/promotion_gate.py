"""The gates of the zones, decided by the policies. Any doubt is a no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kfm.errors import KfmError
from kfm.model import records, refs
from kfm.model.names import is_digest
from kfm.model.ports import Objects, State
from kfm.model.records import DatasetVersion, Receipt, RefMove, Run
from kfm.model.zone_requests import PUBLISHED_GATE as GATE
from kfm.model.zone_requests import Asking, Correction, StepUp
from kfm.parsing.characters import printable
from kfm.policy.checksums import intact_checksums, wrong_bytes
from kfm.policy.decision import Decider, embedded
from kfm.policy.question_builder import (
    NO_EVIDENCE,
    UNSAID,
    Evidence,
    VersionFacts,
    closed_parts,
    gaps_of,
    level_of,
    licence_problem,
    made_as,
    masked_as,
    step_up,
    to_published,
    unheld_parts,
)
from kfm.policy.questions import MadeFacts, MadeReceipt, PolicyDecision, PolicyQuestion

_BYTES = "checksums.read"
_DETAILED = frozenset(
    {"checksums.intact", "metadata.parts", "validation.parts", "validation.columns", "licence.known"}
)  # reported with their places
NO_REQUEST = Asking(who="nobody", what="look", when_ms=(1 << 53) - 1, why="nobody said so")  # no consent lasts so long


def promotion_gate(
    state: State,
    objects: Objects,
    move: RefMove,
    declared: Mapping[str, Any] | None = None,
    *,
    asking: Asking = NO_REQUEST,
    correction: Correction | None = None,
    read: bool = True,
    decider: Decider | None = None,
    evidence: Evidence = NO_EVIDENCE,
) -> records.Decision:
    """Decide whether `move.after` may be published. The minimum rules are checked first, then every byte is read, then
    all rules must hold.

    `declared` is today's declaration of the dataset, and it wins over the one in the version. A version that was made
    as restricted stays restricted: an older, more precise version must not become public again. The texts of a
    `correction` win over both; none of them is the sensitivity. With `read` False the
    objects are only looked up, not read.
    """
    point = decider or embedded()
    dataset = refs.parse(move.ref).dataset
    try:
        version = state.ledger.version(dataset, move.after)
        if correction is not None and version is not None:
            declared = correction.of(version.metadata if declared is None else declared)
        receipt = state.ledger.receipt(version.run_id) if version is not None else None
        held_by = state.runs.get(version.validated_by or version.run_id) if version is not None else None
        made = made_of(version, receipt, declared, evidence, held_by)
        decision = point.decide(PolicyQuestion(gate="minimum", subjects=[move.after], made=made))
        if version is None or decision.rules != [_BYTES]:
            return _recorded(decision, move, _details(decision, made, version, declared, gaps_of(held_by, evidence)))
        # The bytes are read last, because there may be many.
        damaged = "; ".join(wrong_bytes(objects, move.after, read=read))
        if damaged:
            made = msgspec.structs.replace(made, looked_at=True, damaged=damaged[:1000])
            decision = point.decide(PolicyQuestion(gate="minimum", subjects=[move.after], made=made))
            return _recorded(decision, move, [("checksums.intact", damaged)])
        known = VersionFacts(version, receipt, held_by, state.ledger.telemetry(version.run_id))
        sums = intact_checksums(version)
        decision = point.decide(to_published(known, declared, asking, sums, evidence))
        return decision.recorded(GATE, move.after)
    except KfmError as problem:
        reasons = [f"the check itself failed: {problem.code}"]
        return records.Decision(
            gate=GATE, allow=False, subject=move.after, policy_digest=point.policy_digest, reasons=reasons
        )


def step_gate(step: StepUp, *, decider: Decider | None = None, evidence: Evidence = NO_EVIDENCE) -> records.Decision:
    """Decide whether a run's data may enter Work or Processed."""
    decision = (decider or embedded()).decide(step_up(step, evidence))
    return decision.recorded(f"{step.to}.checklist", step.subject)


def both_gates(
    work: StepUp, processed: StepUp, *, decider: Decider | None = None, evidence: Evidence = NO_EVIDENCE
) -> records.Decision | None:
    """Decide about Work and Processed in one evaluation. Return the decision about Processed if both are a yes; None
    if each gate must be asked alone."""
    found = (decider or embedded()).allows_both(step_up(work, evidence), step_up(processed, evidence))
    return found.recorded(f"{processed.to}.checklist", processed.subject) if found is not None else None


def _recorded(decision: PolicyDecision, move: RefMove, details: list[tuple[str, str]]) -> records.Decision:
    """Return the decision with the places of failed rules, which the rules themselves do not name. That the bytes were
    not read is reported only if nothing else failed.
    """
    found = decision.recorded(GATE, move.after)
    told = list(zip(decision.rules, decision.reasons, strict=True))
    plain = [(rule, why) for rule, why in told if rule not in _DETAILED and (rule != _BYTES or len(told) == 1)]
    rules, reasons = zip(*plain, *details, strict=True) if plain or details else ((), ())
    return msgspec.structs.replace(found, rules=list(rules), reasons=list(reasons)) if not found.allow else found


def made_of(
    version: DatasetVersion | None,
    receipt: Receipt | None,
    declared: Mapping[str, Any] | None,
    evidence: Evidence = NO_EVIDENCE,
    held_by: Run | None = None,
) -> MadeFacts:
    """Return the facts about how a version was made. Today's declaration of the dataset wins over the one it was made
    under."""
    if version is None:
        return _NOTHING
    said: Mapping[str, Any] = version.metadata if declared is None else declared
    level = level_of(version, said, evidence)
    return MadeFacts(
        title=_text(said.get("title")),
        licence=_text(said.get("license")),
        licence_known=bool(_text(said.get("license")).strip()) and licence_problem(said) is None,
        sensitivity="" if level == UNSAID else level,
        made_as=made_as(version),
        closed_parts=closed_parts(version, level),
        unheld_parts=unheld_parts(version),
        thin=[name[:200] for name, _ in gaps_of(held_by, evidence)],
        sources=version.validation.get("sources", 0),
        contracts=version.validation.get("contracts", -1),
        version=version.digest,
        plan_hash=version.plan_hash if is_digest(version.plan_hash) else "",
        input_hash=version.input_hash if is_digest(version.input_hash) else "",
        updater_version=version.updater_version,
        run_id=version.run_id,
        looked_at=False,
        damaged="",
        attestation=evidence.attestation,
        masked=masked_as(version.digest, version.standing) is not None,
        receipt=None if receipt is None else _receipt(receipt),
    )


def _details(
    decision: PolicyDecision,
    made: MadeFacts,
    version: DatasetVersion | None,
    declared: Mapping[str, Any] | None,
    gaps: list[tuple[str, str]],
) -> list[tuple[str, str]]:
    """Return what the failed rules are about, in place of their own words."""
    found = [_part(name) for name in [*made.unheld_parts, *made.closed_parts]]
    if "validation.columns" in decision.rules:
        found += [
            (
                "validation.columns",
                f"validation: the contract of source {printable(name, 80)} says too little; add {gap}",
            )
            for name, gap in gaps
        ]
    if "licence.known" in decision.rules and version is not None:
        problem = licence_problem(version.metadata if declared is None else declared)
        found.append(("licence.known", f"licence: {problem}"))
    return found


def _receipt(receipt: Receipt) -> MadeReceipt:
    outputs = [item.checksum for item in receipt.outputs]
    return MadeReceipt(status=receipt.status, dry_run=receipt.dry_run, outputs=outputs)


_NOTHING = MadeFacts(
    title="",
    licence="",
    licence_known=False,
    sensitivity="",
    made_as="",
    closed_parts=[],
    unheld_parts=[],
    thin=[],
    sources=0,
    contracts=0,
    version="",
    plan_hash="",
    input_hash="",
    updater_version="",
    run_id="",
    looked_at=False,
    damaged="",
    attestation="missing",
)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _part(name: str) -> tuple[str, str]:
    what, _, partition = name.partition("/")
    of = f"of partition {partition}" if partition else "of what was made as a whole"
    if what == "unheld":
        return "validation.parts", f"validation: not every source {of} was held against a data contract"
    return "metadata.parts", f"metadata: something {of} was made when the sensitivity was not public, and stays so"
