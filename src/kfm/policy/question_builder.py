"""Build questions from what the state and a run know. Nothing is searched for or decided here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import Struct

from kfm import __version__
from kfm.clock import parse_instant
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.format_rules import TABLES, gap_of
from kfm.model.keys import digest
from kfm.model.labels import LEVELS, joined
from kfm.model.names import is_digest
from kfm.model.operation_target import REF
from kfm.model.records import Classification, DataContract, DatasetVersion, Receipt, Run, RunTelemetry, SourceRef
from kfm.model.source_formats import GRIDS, Format
from kfm.model.zone_requests import Asking, StepUp
from kfm.policy.questions import (
    Checksums,
    Consent,
    Emission,
    ExtentFacts,
    Identity,
    InputFacts,
    LabelFacts,
    Licence,
    MaskingFacts,
    PolicyQuestion,
    Provenance,
    QaResult,
    Quality,
    ReceiptFacts,
    RequestFacts,
    Review,
    Schema,
    Tools,
    ZoneStep,
    label_of,
)

if TYPE_CHECKING:
    from kfm.model.licences import LicenceProblem

UNSAID = "unsaid"
NOT_REQUIRED = "not required"
ONLY_GENERALISED = 2  # mark of a partition that was made as generalised; other marks are more closed
_MOST = float((1 << 53) - 1)
# Licences under which everyone may pass the data on. Others may allow it too; until a person has checked, the gate
# warns.
FREE = frozenset(
    {
        "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC-BY-1.0", "CC-BY-2.0", "CC-BY-2.5", "CC-BY-3.0", "CC-BY-4.0",
        "CC-BY-SA-3.0", "CC-BY-SA-4.0", "CC-PDDC", "CC-PDM-1.0", "CC0-1.0", "CDLA-Permissive-1.0",
        "CDLA-Permissive-2.0", "MIT", "ODC-By-1.0", "ODbL-1.0", "OGL-UK-3.0", "PDDL-1.0",
    }
)  # fmt: skip


class Evidence(Struct, frozen=True):
    """What stewards and the community say about a version. Missing evidence is a no where a rule requires it."""

    review: Review | None = None
    consent: Consent | None = None
    standing: Classification | None = None  # today's classification of its dataset by labels
    epoch: int = 0  # epoch of the labels
    labelled: bool = False  # the installation has labels
    gaps: tuple[tuple[str, str], ...] = ()  # sources whose declared contract says too little, and what it lacks
    attestation: str = NOT_REQUIRED  # verified or missing, if the installation signs statements


NO_EVIDENCE = Evidence()


class VersionFacts(Struct, frozen=True):
    """What the state knows about a committed version."""

    version: DatasetVersion
    receipt: Receipt | None
    run: Run | None  # the run that checked its sources last: it made the version, or made the same version again
    telemetry: RunTelemetry | None


def to_published(
    known: VersionFacts, declared: Mapping[str, Any] | None, asking: Asking, sums: Checksums, evidence: Evidence
) -> PolicyQuestion:
    """Return the full question about the step from Processed to Published. Today's declaration wins over the one it was
    made under, but the restriction it was made under stays.
    """
    version, receipt = known.version, known.receipt
    said: Mapping[str, Any] = version.metadata if declared is None else declared
    level = level_of(version, said, evidence)
    inputs, made = known.run.inputs if known.run is not None else [], made_as(version)
    return PolicyQuestion(
        gate="zone",
        subjects=[version.digest],
        label_epoch=evidence.epoch,
        asked=_asked(asking),
        identity=_identity(version.dataset, version.digest, said),
        schema=_schema(version.dataset, inputs),
        extent=_extent(said),
        licence=_licence(said),
        label=_label(_standing_of(version, evidence), level, len(closed_parts(version, level))),
        quality=_quality(version, len(gaps_of(known.run, evidence))),
        provenance=_provenance(known, evidence.attestation),
        checksums=sums,
        receipt=None if receipt is None else _receipt(receipt, level if made == UNSAID else made),
        review=evidence.review,
        consent=evidence.consent,
        masking=masked_as(version.digest, version.standing),
        emission=None if known.telemetry is None else _emission(known.telemetry),
        step=ZoneStep(from_="processed", to="published", labelled=evidence.labelled),
    )


def step_up(step: StepUp, evidence: Evidence) -> PolicyQuestion:
    """Return the question about the step from Raw to Work or from Work to Processed, from the facts of the run and its
    future receipt.
    """
    run, version, said = step.run, step.version, step.run.metadata
    level = step.standing.level if step.standing is not None else _text(said.get("sensitivity")) or UNSAID
    sealed = all(source.sealed_with or _was_masked(source) for source in step.inputs if not _is_public(source))
    question = PolicyQuestion(
        gate="zone",
        subjects=[step.subject],
        label_epoch=evidence.epoch,
        asked=_asked(step.asking),
        identity=_identity(run.dataset, step.subject, said),
        label=_label(step.standing, level, 0 if version is None else len(closed_parts(version, level))),
        provenance=_provenance_of(run, step.inputs, version),
        # The digests were computed when the bytes arrived or were made; other bytes are refused when they are read.
        checksums=_sums(step.subject, len(step.inputs) if version is None else version.entries),
        masking=masked_as(step.subject, step.standing) if version is not None else None,
        step=ZoneStep(
            from_="raw" if step.to == "work" else "work",
            to=step.to,
            sealed=sealed and bool(step.inputs),
            labelled=evidence.labelled or step.standing is not None,
        ),
    )
    if version is None:
        return question
    return msgspec.structs.replace(
        question,
        schema=_schema(run.dataset, step.inputs),
        extent=_extent(said),
        licence=_licence(said),
        quality=_quality(version, len(gaps_of(msgspec.structs.replace(run, inputs=step.inputs), evidence))),
        receipt=ReceiptFacts(
            run_id=run.run_id,
            who=step.asking.who,
            what=step.asking.what,
            when=step.asking.when_ms,
            why=step.asking.why,
            status="SUCCESS",
            dry_run=False,
            outputs=[version.digest],
            inputs=len(step.inputs),
            sensitivity=level,
            decisions=0,
        ),
    )


def masked_as(subject: str, standing: Classification | None) -> MaskingFacts | None:
    """Return the masking facts of a generalised version: it was masked on entry at the resolution of its labels or
    coarser, and it was compared with the fingerprints before. None for any other version.
    """
    if standing is None or standing.level != "generalised" or standing.resolution is None:
        return None
    return MaskingFacts(subject=subject, resolution=standing.resolution, leaks=0, finer_than_source=False)


def level_of(version: DatasetVersion, said: Mapping[str, Any], evidence: Evidence) -> str:
    """Return the most closed level of the labels, the version and today's declaration."""
    declared = _text(said.get("sensitivity"))
    standing = _standing_of(version, evidence)
    if standing is None or declared not in LEVELS:
        return declared or (standing.level if standing is not None else UNSAID)
    return LEVELS[max(LEVELS.index(standing.level), LEVELS.index(declared))]


def made_as(version: DatasetVersion) -> str:
    """Return the level under which the version was made."""
    if version.standing is not None:
        return version.standing.level
    said = version.metadata.get("sensitivity")
    return UNSAID if said is None else said if isinstance(said, str) else "odd"


def closed_parts(version: DatasetVersion, level: str) -> list[str]:
    """Return the marks of partitions that were made under a more closed level than `level`."""
    return [
        name
        for name, mark in sorted(version.validation.items())
        if "/" in name and not name.startswith("unheld/") and not (level == "generalised" and mark == ONLY_GENERALISED)
    ]


def unheld_parts(version: DatasetVersion) -> list[str]:
    return [name for name in sorted(version.validation) if name.startswith("unheld/")]


def _standing_of(version: DatasetVersion, evidence: Evidence) -> Classification | None:
    known = [standing for standing in (version.standing, evidence.standing) if standing is not None]
    return joined(known) if known else None


def _is_public(source: SourceRef) -> bool:
    return source.standing is None or source.standing.level == "public"


def _was_masked(source: SourceRef) -> bool:
    """Say whether a source is a generalised version of another dataset, which was masked when it was made."""
    return source.uri.startswith(REF) and source.standing is not None and source.standing.level == "generalised"


def _asked(asking: Asking) -> RequestFacts:
    return RequestFacts(who=asking.who, what=asking.what, when=max(1, asking.when_ms), why=asking.why)


def _identity(dataset: str, subject: str, said: Mapping[str, Any]) -> Identity:
    title, description = _text(said.get("title")), _text(said.get("description"))
    return Identity(dataset=dataset, title=title[:4096], version=subject, description=description[:4096])


def _schema(dataset: str, inputs: list[SourceRef]) -> Schema | None:
    """Return the data contracts that the sources were checked against, as one digest; None if there are none."""
    held = [source.contract_hash for source in inputs if source.contract_hash]
    if not held:
        return None
    alone = len(held) == 1 and is_digest(held[0])
    return Schema(name=f"{dataset}/contracts", digest=held[0] if alone else digest(canonical(held)))


def _extent(said: Mapping[str, Any]) -> ExtentFacts | None:
    declared = said.get("extent")
    if not isinstance(declared, Mapping):
        return None
    box, interval = declared.get("bbox") or [], declared.get("interval") or []
    start, end = (_instant(text) for text in interval) if len(interval) == 2 else (None, None)
    ends = interval[1] is None if len(interval) == 2 else False
    return ExtentFacts(bbox=[float(number) for number in box], from_=start, until="open" if ends else end)


def _instant(text: object) -> int | None:
    try:
        return parse_instant(text, "an extent") if isinstance(text, str) else None
    except BadInput:
        return None


def _licence(said: Mapping[str, Any]) -> Licence:
    name = _text(said.get("license"))
    if not name.strip():
        return Licence(id="", known=False, checked=False, redistribution=False, checked_by="")
    from kfm.model.licences import expression_of  # only decisions about licences need the list of SPDX ids

    found = expression_of(name)
    enough = any if found is not None and found.offers_choice else all
    free = found is not None and enough(each in FREE for each in found.ids)
    return Licence(
        id=name[:4096],
        known=licence_problem(said) is None,
        checked=free,
        redistribution=free,
        checked_by="the list of licences" if free else "",
    )


def licence_problem(said: Mapping[str, Any]) -> LicenceProblem | None:
    """Return what is wrong with the declared licence; None if nothing is."""
    from kfm.model.licences import problem_of

    return problem_of(_text(said.get("license")), _text(said.get("license_text")))


def gaps_of(run: Run | None, evidence: Evidence) -> list[tuple[str, str]]:
    """Return each source whose contract says too little, and what it lacks: sources with such a contract in the
    configuration today, and sources that the run checked against nothing but a format."""
    found = dict(evidence.gaps)
    for source in run.inputs if run is not None else ():
        gap = _bare_contracts().get(source.contract_hash) if not source.uri.startswith(REF) else None
        if gap:
            found.setdefault(source.name or source.uri, gap)
    return sorted(found.items())


@lru_cache(maxsize=1)
def _bare_contracts() -> dict[str, str]:
    """Return what is missing in the contract that names only a format, by the digest of that contract."""
    contracts = (DataContract(format=form) for form in get_args(Format) if form in TABLES or form in GRIDS)
    return {digest(canonical(contract)): gap_of(contract) for contract in contracts}


def _label(standing: Classification | None, level: str, closed: int) -> LabelFacts:
    if standing is None:
        return LabelFacts(sensitivity=level, care="open", access="open", expires="never", closed_parts=closed)
    return msgspec.structs.replace(label_of(standing, closed_parts=closed), sensitivity=level)


def _quality(version: DatasetVersion, thin: int) -> Quality:
    said = version.validation
    rows, held = max(0, said.get("rows", 0)), max(0, said.get("held_rows", 0))
    return Quality(
        sources=max(0, said.get("sources", 0)),
        contracts=max(0, said.get("contracts", 0)),
        thin=thin,
        unheld_parts=len(unheld_parts(version)),
        results=[
            QaResult(check="rows", value=rows, at_least=1, at_most=_MOST),
            QaResult(check="held_share", value=held / rows if rows else 0.0, at_least=0, at_most=0.1),
        ],
    )


def _sums(subject: str, objects: int) -> Checksums:
    return Checksums(algorithm="sha256", manifest=subject, objects=objects, intact=objects, damaged=0)


def _provenance_of(run: Run, inputs: list[SourceRef], version: DatasetVersion | None) -> Provenance | None:
    plan_hash = version.plan_hash if version is not None else run.input_hash  # before Work there is no plan
    if not is_digest(run.input_hash) or not is_digest(plan_hash):
        return None
    return Provenance(
        inputs=[
            InputFacts(uri=source.uri[:4096], digest=source.content_hash)
            for source in inputs
            if is_digest(source.content_hash)
        ],
        run_id=run.run_id,
        updater=run.updater_id,
        updater_version=run.updater_version,
        plan_hash=plan_hash,
        input_hash=run.input_hash,
        code_hash=run.code_hash if is_digest(run.code_hash) else "",
        attestation=NOT_REQUIRED,  # the statements are signed in the commit
        tools=Tools(kfm=__version__, runtime="python"),
    )


def _provenance(known: VersionFacts, attestation: str) -> Provenance | None:
    version, receipt = known.version, known.receipt
    if not is_digest(version.plan_hash) or not is_digest(version.input_hash) or receipt is None:
        return None
    tools = dict(known.telemetry.tool_versions) if known.telemetry is not None else {}
    inputs = [item for item in receipt.inputs if is_digest(item.checksum)]
    kfm = tools.pop("kfm", "") or _text(receipt.provenance.get("tool_versions", {}).get("kfm"))
    return Provenance(
        inputs=[InputFacts(uri=item.id[:4096], digest=item.checksum) for item in inputs],
        run_id=version.run_id,
        updater=version.updater_id,
        updater_version=version.updater_version,
        plan_hash=version.plan_hash,
        input_hash=version.input_hash,
        code_hash=version.code_hash if is_digest(version.code_hash) else "",
        attestation=attestation,
        tools=Tools(kfm=kfm, runtime=" ".join(f"{name} {number}" for name, number in sorted(tools.items()))),
    )


def _receipt(receipt: Receipt, sensitivity: str) -> ReceiptFacts:
    return ReceiptFacts(
        run_id=receipt.run_id,
        who=receipt.actor or receipt.trigger,
        what=receipt.job_type,
        when=max(1, _instant(receipt.finished_at) or 0),
        why=receipt.reason or receipt.trigger,
        status=receipt.status,
        dry_run=receipt.dry_run,
        outputs=[item.checksum for item in receipt.outputs if is_digest(item.checksum)],
        inputs=sum(1 for item in receipt.inputs if is_digest(item.checksum)),
        sensitivity=sensitivity,
        decisions=len(receipt.policy_decisions),
    )


def _emission(telemetry: RunTelemetry) -> Emission:
    """Return the telemetry facts. The fields hold ids, counts and codes; sizes are withheld where the record is
    written.
    """
    return Emission(
        recorded=True,
        run_id=telemetry.run_id,
        fields=list(telemetry.__struct_fields__),
        energy_method=telemetry.energy_method,
        unmasked=0,
        slo_ok=telemetry.slo_ok,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
