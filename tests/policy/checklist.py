"""The least that is asked before publishing, written once more in Python: what the policies are held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfm.errors import KfmError
from kfm.model.licences import problem_of
from kfm.model.names import is_digest
from kfm.model.ports import Objects, State
from kfm.model.records import DatasetVersion, Decision, Receipt, RefMove
from kfm.policy.checksums import wrong_bytes

GATE = "promotion.checklist"
REQUIRED_METADATA = ("title", "license", "sensitivity")
LICENCES = ("MIT", "CC0-1.0")  # those that the tests use
PUBLISHABLE = ("public",)  # what may be read by anyone; other labels wait for their custodian's rules


def promotion_gate(
    state: State,
    objects: Objects,
    move: RefMove,
    declared: Mapping[str, Any] | None = None,
    *,
    read: bool = True,
) -> Decision:
    """May `move.after` be at `published/<dataset>`? Allowed only if every check says a literal yes.

    `declared` is what the configuration says of the dataset today. It decides what is declared at all; but
    a version that was made as restricted stays so: an older, more precise one must not come back. `read`: every byte
    of what is about to be published; otherwise only whether it is there.
    """
    dataset = move.ref.partition("/")[2]
    try:
        version = state.ledger.version(dataset, move.after)
        receipt = state.ledger.receipt(version.run_id) if version is not None else None
        reasons = problems(version, receipt, move.after, declared)
        if not reasons:
            reasons = wrong_bytes(objects, move.after, read=read)
    except KfmError as problem:
        reasons = [f"the check itself failed: {problem.code}"]
    return Decision(gate=GATE, allow=not reasons, subject=move.after, policy_digest="", reasons=reasons)


def problems(
    version: DatasetVersion | None, receipt: Receipt | None, digest: str, declared: Mapping[str, Any] | None = None
) -> list[str]:
    """Every line of the checklist that does not hold."""
    if version is None:
        return ["provenance: no run is known to have made this version"]
    found = []
    metadata: Mapping[str, Any] = version.metadata if declared is None else declared
    for name in REQUIRED_METADATA:
        value = metadata.get(name)
        if not isinstance(value, str) or not value.strip():
            found.append(f"{'licence' if name == 'license' else 'metadata'}: {name} is not declared")
    licence = metadata.get("license")
    if isinstance(licence, str) and licence.strip() and licence not in LICENCES:
        found.append(f"licence: {problem_of(licence)}")
    if isinstance(metadata.get("sensitivity"), str) and metadata["sensitivity"] not in PUBLISHABLE:
        found.append("metadata: its sensitivity is not public")
    elif version.metadata.get("sensitivity") not in (None, *PUBLISHABLE):
        found.append("metadata: this version was made when the sensitivity was not public, and stays so")
    validation = version.validation
    if validation.get("sources", 0) < 1 or validation.get("contracts", -1) != validation.get("sources"):
        found.append("validation: not every source was held against a data contract")
    found += [_marked(name) for name in sorted(validation) if "/" in name]
    if version.digest != digest or not is_digest(digest):
        found.append("checksums: the version record is about other bytes")
    if not is_digest(version.plan_hash) or not is_digest(version.input_hash) or not version.updater_version:
        found.append("provenance: plan, inputs or updater version are not recorded")
    if receipt is None:
        found.append("receipt: the run that made it has none")
    elif receipt.status != "SUCCESS" or receipt.dry_run:
        found.append("receipt: the run that made it did not succeed")
    elif not any(item.checksum == digest for item in receipt.outputs):
        found.append("receipt: it is about other bytes")
    return found


def _marked(name: str) -> str:
    """What a version made by parts says of one of them; without a name, of the whole that was there before them."""
    what, _, partition = name.partition("/")
    of = f"of partition {partition}" if partition else "of what was made as a whole"
    if what == "unheld":
        return f"validation: not every source {of} was held against a data contract"
    return f"metadata: something {of} was made when the sensitivity was not public, and stays so"
