"""Questions to the policies and their answers, typed: a missing or wrongly typed fact is a no before any rule runs.

A question holds facts about a version, never its content: digests, counts, names and label words. For a protected
dataset the digests are those of the encrypted bytes, and the extent is that of the masked records.

The annotations are not postponed, because msgspec would evaluate each of them again, as text, in every process.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from kfm.clock import parse_instant
from kfm.model import records
from kfm.model.labels import Classification
from kfm.model.records import Record

Gate = Literal["promotion", "faircare", "telemetry", "zone", "operation", "minimum", "serve"]
GATES: tuple[Gate, ...] = ("promotion", "faircare", "telemetry", "zone", "operation", "minimum", "serve")

Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
DigestOrNone = Annotated[str, Meta(pattern=r"^(sha256:[0-9a-f]{64})?\Z")]  # empty: no digest
Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Instant = Annotated[int, Meta(ge=1, le=(1 << 53) - 1)]  # milliseconds since 1970
Name = Annotated[str, Meta(max_length=4096)]


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A part of a question. A field with its default value is left out, and a rule that needs it says no."""


class RequestFacts(Part, frozen=True):
    who: Name
    what: Name
    when: Instant
    why: Name


class Identity(Part, frozen=True):
    dataset: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}\Z")]
    title: Name
    version: Digest
    description: Name = ""


class Schema(Part, frozen=True):
    """The schema of the rows or features: the data contract, or the schema it names."""

    name: Name
    digest: Digest


class ExtentFacts(Part, frozen=True, rename={"from_": "from"}):
    bbox: list[float]  # west, south, east, north in degrees; empty if `no_place` says why
    from_: int | None = None  # milliseconds since 1970, negative before; None: not declared
    until: int | Literal["open"] | None = None
    no_place: Name = ""


class Licence(Part, frozen=True):
    id: Name
    known: bool  # an SPDX expression, or a custom licence with its text
    checked: bool
    redistribution: bool
    checked_by: Name


class LabelFacts(Part, frozen=True):
    """The label, in the words of kfm.model.labels; `label_of` builds it. The rules treat an unknown word as the most
    closed one.
    """

    sensitivity: Name = ""
    care: Name = ""
    access: Name = ""
    authority: Name = ""
    custodian: Name = ""
    expires: Instant | Literal["never"] | None = None  # end of the consent
    public_resolution: Annotated[int, Meta(ge=0, le=15)] | None = None  # resolution of the H3 cell
    withhold: list[Name] = []  # columns that are not published
    per_minute: Count | None = None
    closed_parts: Count | None = None  # partitions made under a more closed level than the present one


def label_of(
    standing: Classification,
    *,
    closed_parts: int | None = None,
    withhold: Iterable[str] = (),
    per_minute: int | None = None,
) -> LabelFacts:
    """Return the label facts of a classification. Several custodians are joined in one text, so one custodian's
    approval does not count for all; the keys in force require each.
    """
    return LabelFacts(
        sensitivity=standing.level,
        care=standing.care,
        access=standing.access,
        authority=", ".join(standing.authorities),
        custodian=", ".join(standing.custodians),
        expires=_end_of(standing.expires) if standing.expires else "never",
        public_resolution=standing.resolution,
        withhold=sorted(withhold),
        per_minute=per_minute,
        closed_parts=closed_parts,
    )


def _end_of(day: str) -> int:
    return max(1, parse_instant(f"{day}T00:00:00Z", "the last day of a consent") + 86_400_000)


class QaResult(Part, frozen=True):
    check: Name
    value: float
    at_least: float
    at_most: float


class Quality(Part, frozen=True):
    sources: Count
    contracts: Count  # sources that were checked against a contract
    thin: Count  # contracts that name neither columns nor variables
    unheld_parts: Count
    results: list[QaResult]


class InputFacts(Part, frozen=True):
    uri: Name
    digest: Digest


class Tools(Part, frozen=True):
    """The versions of the tools that made a version."""

    kfm: Name
    runtime: Name
    others: dict[str, Name] = {}


class Provenance(Part, frozen=True):
    inputs: list[InputFacts]
    run_id: Name
    updater: Name
    updater_version: Name
    plan_hash: Digest
    input_hash: Digest
    code_hash: DigestOrNone  # empty for versions made before it was recorded
    attestation: Name  # verified, missing, or not required
    tools: Tools


class Checksums(Part, frozen=True):
    algorithm: Name
    manifest: Digest
    objects: Count
    intact: Count
    damaged: Count


class ReceiptFacts(Part, frozen=True):
    run_id: Name
    who: Name
    what: Name
    when: Instant
    why: Name
    status: Name
    dry_run: bool
    outputs: list[Digest]
    inputs: Count
    sensitivity: Name
    decisions: Count


class Review(Part, frozen=True):
    subject: Digest
    outcome: Name
    by: Name
    at: Instant


class Consent(Part, frozen=True):
    """The community's own signatures, verified before they are counted."""

    subject: Digest
    threshold: Count
    signatures: Count
    until: Instant


class MaskingFacts(Part, frozen=True):
    subject: Digest
    resolution: Count
    leaks: Count
    finer_than_source: bool


class Emission(Part, frozen=True):
    recorded: bool
    run_id: Name
    fields: list[Name]
    energy_method: Name
    unmasked: Count  # values that may not be shown
    slo_ok: bool | None = None


class ZoneStep(Part, frozen=True, rename={"from_": "from"}):
    from_: Name
    to: Name
    sealed: bool = False
    labelled: bool = True  # False: the installation has no labels, and so no custodian's key


class Move(Part, frozen=True):
    ref: Name
    after: DigestOrNone


class Approval(Part, frozen=True):
    by: Name
    role: Name
    key: Name
    custodian: Name
    request: Digest
    until: Instant
    verified: bool  # the signature is right, and the key belongs to that person today


class OperationFacts(Part, frozen=True):
    name: Name
    role: Name  # role of the requester in the list of keys; `single` if there is no list
    request: Digest
    moves: list[Move]
    approvals: list[Approval] = []


class ServingFacts(Part, frozen=True):
    """Who is about to see a version over HTTP, and whether it is public now. The rules refuse an unknown word."""

    audience: Name  # public, single, or a role of the key list
    status: Name  # current or superseded; withdrawn, rolled back and none are shown to nobody


class MadeReceipt(Part, frozen=True):
    status: Name
    dry_run: bool
    outputs: list[Name]


class MadeFacts(Part, frozen=True):
    """The state's facts about a version, for the minimum checklist."""

    title: Name
    licence: Name
    licence_known: bool
    sensitivity: Name
    made_as: Name  # sensitivity when it was made; `unsaid` if there was none
    closed_parts: list[Name]
    unheld_parts: list[Name]
    thin: list[Name]  # sources whose contract names neither columns nor variables
    sources: int
    contracts: int
    version: Name
    plan_hash: Name
    input_hash: Name
    updater_version: Name
    run_id: Name
    looked_at: bool
    damaged: Name  # why an object is damaged; empty: all are intact
    attestation: Name  # verified, missing, or not required
    masked: bool = False  # on entry
    receipt: MadeReceipt | None = None


class PolicyQuestion(Part, frozen=True):
    """May this be done with exactly these bytes? Each gate reads the parts it needs; a missing part is a no."""

    gate: Gate
    subjects: list[Digest]
    label_epoch: Count = 0  # epoch of the labels that the facts came from; compared again in the commit
    asked: RequestFacts | None = None
    identity: Identity | None = None
    schema: Schema | None = None
    extent: ExtentFacts | None = None
    licence: Licence | None = None
    label: LabelFacts | None = None
    quality: Quality | None = None
    provenance: Provenance | None = None
    checksums: Checksums | None = None
    receipt: ReceiptFacts | None = None
    review: Review | None = None
    consent: Consent | None = None
    masking: MaskingFacts | None = None
    emission: Emission | None = None
    step: ZoneStep | None = None
    operation: OperationFacts | None = None
    made: MadeFacts | None = None
    serving: ServingFacts | None = None


class Mask(Record, frozen=True, tag_field="do", tag="mask"):
    """The obligation to show nothing finer than one H3 cell of this resolution."""

    resolution: Annotated[int, Meta(ge=0, le=15)]


class Withhold(Record, frozen=True, tag_field="do", tag="withhold"):
    field: str


class Throttle(Record, frozen=True, tag_field="do", tag="throttle"):
    per_minute: Annotated[int, Meta(ge=1)]


Obligation = Mask | Withhold | Throttle


class EngineReason(Record, frozen=True):
    rule: str
    msg: str


class EngineVerdict(Record, frozen=True):
    """An engine's answer. An unknown obligation cannot be obeyed, so the whole answer is refused."""

    allow: bool
    deny: list[EngineReason]
    warn: list[EngineReason]
    obligations: list[Obligation]
    subjects: list[str]
    question: str
    policy: str


class BothVerdicts(Record, frozen=True):
    """An engine's answers to the questions about Work and Processed, from one evaluation."""

    work: EngineVerdict
    processed: EngineVerdict


class PolicyDecision(Record, frozen=True):
    """The decision point's answer. Only a literal true about exactly the requested digests allows anything."""

    id: str
    gate: str
    allow: bool
    subjects: list[str]
    policy_digest: str
    label_epoch: int
    engine: str
    rules: list[str]  # rules that did not hold
    reasons: list[str]
    warnings: list[str]
    obligations: list[Obligation]

    def is_yes(self, *digests: str) -> bool:
        return self.allow is True and self.subjects == list(digests)

    def recorded(self, gate: str = "", subject: str = "") -> records.Decision:
        """Return the decision in the form that receipts store: about one digest, with the name of the gate."""
        about = subject or (self.subjects[0] if len(self.subjects) == 1 else "")
        return records.Decision(
            gate=gate or self.gate,
            allow=self.is_yes(about),
            subject=about,
            policy_digest=self.policy_digest,
            reasons=self.reasons,
            id=self.id,
            subjects=self.subjects,
            rules=self.rules,
            warnings=self.warnings,
            obligations=[_duty(one) for one in self.obligations],
            label_epoch=self.label_epoch,
            engine=self.engine,
        )


def _duty(obligation: Obligation) -> records.Obligation:
    if isinstance(obligation, Mask):
        return records.Obligation(do="mask", resolution=obligation.resolution)
    if isinstance(obligation, Withhold):
        return records.Obligation(do="withhold", field=obligation.field)
    return records.Obligation(do="throttle", per_minute=obligation.per_minute)


_ENCODER = msgspec.json.Encoder(order="deterministic")
_QUESTION = msgspec.json.Decoder(PolicyQuestion)
_VERDICT = msgspec.json.Decoder(EngineVerdict)
_BOTH = msgspec.json.Decoder(BothVerdicts)


def encode_question(question: PolicyQuestion) -> bytes:
    """Return the bytes of a question for an engine. Raise if its fields have wrong types."""
    body = _ENCODER.encode(question)
    _QUESTION.decode(body)
    return body


def verdict_from(answer: bytes | str) -> EngineVerdict:
    return _VERDICT.decode(answer)


def both_from(answer: bytes | str) -> BothVerdicts:
    return _BOTH.decode(answer)
