"""The gates before the zones, decided by the policies. Any doubt is a no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kfm.errors import KfmError
from kfm.model import records, refs
from kfm.model.names import is_digest
from kfm.model.ports import Objects, State
from kfm.model.records import DatasetVersion, Receipt, RefMove
from kfm.model.zone_requests import Asking, StepUp
from kfm.policy.checksums import counted, wrong_bytes
from kfm.policy.decision import Decider, embedded
from kfm.policy.question_builder import (
    NO_EVIDENCE,
    UNSAID,
    Evidence,
    Known,
    closed_parts,
    level_of,
    made_as,
    masked_as,
    step_up,
    to_published,
    unheld_parts,
)
from kfm.policy.questions import Decision, Made, MadeReceipt, Question

GATE = "promotion.checklist"  # as receipts have always called it
_BYTES = "checksums.read"
_DETAILED = frozenset({"checksums.intact", "metadata.parts", "validation.parts"})  # told with their places
NOBODY = Asking(who="nobody", what="look", when_ms=(1 << 53) - 1, why="nobody said so")  # when no consent runs any more


def promotion_gate(
    state: State,
    objects: Objects,
    move: RefMove,
    declared: Mapping[str, Any] | None = None,
    *,
    asking: Asking = NOBODY,
    read: bool = True,
    decider: Decider | None = None,
    evidence: Evidence = NO_EVIDENCE,
) -> records.Decision:
    """May `move.after` be at `published/<dataset>`? Allowed only if every rule holds: the least first, and then, with
    every byte read, all of them.

    `declared` is what the configuration says of the dataset today. It decides what is declared at all; but
    a version that was made as restricted stays so: an older, more precise one must not come back. `read`: every byte
    of what is about to be published; otherwise only whether it is there.
    """
    point = decider or embedded()
    dataset = refs.parse(move.ref).dataset
    try:
        version = state.ledger.version(dataset, move.after)
        receipt = state.ledger.receipt(version.run_id) if version is not None else None
        made = made_of(version, receipt, declared, evidence)
        decision = point.decide(Question(gate="minimum", subjects=[move.after], made=made))
        if version is None or decision.rules != [_BYTES]:
            return _recorded(decision, move, [_part(name) for name in [*made.unheld_parts, *made.closed_parts]])
        # Bytes are read only where nothing else stands against it: they may be many.
        damaged = "; ".join(wrong_bytes(objects, move.after, read=read))
        if damaged:
            made = msgspec.structs.replace(made, looked_at=True, damaged=damaged[:1000])
            decision = point.decide(Question(gate="minimum", subjects=[move.after], made=made))
            return _recorded(decision, move, [("checksums.intact", damaged)])
        held_by = state.runs.get(version.validated_by or version.run_id)
        known = Known(version, receipt, held_by, state.ledger.telemetry(version.run_id))
        sums = counted(version)
        decision = point.decide(to_published(known, declared, asking, sums, evidence))
        return decision.recorded(GATE, move.after)
    except KfmError as problem:
        reasons = [f"the check itself failed: {problem.code}"]
        return records.Decision(
            gate=GATE, allow=False, subject=move.after, policy_digest=point.policy_digest, reasons=reasons
        )


def step_gate(step: StepUp, *, decider: Decider | None = None, evidence: Evidence = NO_EVIDENCE) -> records.Decision:
    """May this go up to Work, or to Processed?"""
    decision = (decider or embedded()).decide(step_up(step, evidence))
    return decision.recorded(f"{step.to}.checklist", step.subject)


def _recorded(decision: Decision, move: RefMove, details: list[tuple[str, str]]) -> records.Decision:
    """With the places of what does not hold, which the rules do not name: they decide, they do not search. That the
    bytes were not read is said only where nothing else kept anybody from reading them."""
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
) -> Made:
    """What the state says of a version, today's declaration before the one it was made under."""
    if version is None:
        return _NOTHING
    said: Mapping[str, Any] = version.metadata if declared is None else declared
    level = level_of(version, said, evidence)
    return Made(
        title=_text(said.get("title")),
        licence=_text(said.get("license")),
        sensitivity="" if level == UNSAID else level,
        made_as=made_as(version),
        closed_parts=closed_parts(version, level),
        unheld_parts=unheld_parts(version),
        sources=version.validation.get("sources", 0),
        contracts=version.validation.get("contracts", -1),
        version=version.digest,
        plan_hash=version.plan_hash if is_digest(version.plan_hash) else "",
        input_hash=version.input_hash if is_digest(version.input_hash) else "",
        updater_version=version.updater_version,
        run_id=version.run_id,
        looked_at=False,
        damaged="",
        masked=masked_as(version.digest, version.standing) is not None,
        receipt=None if receipt is None else _receipt(receipt),
    )


def _receipt(receipt: Receipt) -> MadeReceipt:
    outputs = [item.checksum for item in receipt.outputs]
    return MadeReceipt(status=receipt.status, dry_run=receipt.dry_run, outputs=outputs)


_NOTHING = Made(
    title="",
    licence="",
    sensitivity="",
    made_as="",
    closed_parts=[],
    unheld_parts=[],
    sources=0,
    contracts=0,
    version="",
    plan_hash="",
    input_hash="",
    updater_version="",
    run_id="",
    looked_at=False,
    damaged="",
)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _part(name: str) -> tuple[str, str]:
    what, _, partition = name.partition("/")
    of = f"of partition {partition}" if partition else "of what was made as a whole"
    if what == "unheld":
        return "validation.parts", f"validation: not every source {of} was held against a data contract"
    return "metadata.parts", f"metadata: something {of} was made when the sensitivity was not public, and stays so"
