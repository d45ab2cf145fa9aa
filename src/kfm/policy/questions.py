"""What is asked of a policy, and what is answered: typed, so that a missing or retyped thing is a no before any rule.

A question carries facts about a version, never its content: digests, counts, names, words of labels. Of a protected
dataset the digests are those of the sealed bytes and the extent is that of the masked records.

Its annotations are not postponed: msgspec would evaluate each of them again, as text, in every process that asks.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from kfm.clock import parse_instant
from kfm.model import records
from kfm.model.labels import Standing
from kfm.model.records import Record

Gate = Literal["promotion", "faircare", "telemetry", "zone", "operation", "minimum"]
GATES: tuple[Gate, ...] = ("promotion", "faircare", "telemetry", "zone", "operation", "minimum")

Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
DigestOrNone = Annotated[str, Meta(pattern=r"^(sha256:[0-9a-f]{64})?\Z")]  # none: empty
Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Instant = Annotated[int, Meta(ge=1, le=(1 << 53) - 1)]  # milliseconds since 1970
Name = Annotated[str, Meta(max_length=4096)]


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A part of a question. What has a default is left out where it has it, and a rule that asks for it says no."""


class Asked(Part, frozen=True):
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
    """What its rows or features look like: the data contract, or the schema it names."""

    name: Name
    digest: Digest


class Extent(Part, frozen=True, rename={"from_": "from"}):
    bbox: list[float]  # west, south, east, north in degrees; empty where `no_place` says why
    from_: int | None = None  # milliseconds since 1970, before it negative; none: nobody said so
    until: int | Literal["open"] | None = None
    no_place: Name = ""


class Licence(Part, frozen=True):
    id: Name
    checked: bool
    redistribution: bool
    checked_by: Name


class Label(Part, frozen=True):
    """In the words of kfm.model.labels; `label_of` makes it. The rules take one nobody knows for the last."""

    sensitivity: Name = ""
    care: Name = ""
    access: Name = ""
    authority: Name = ""
    custodian: Name = ""
    expires: Instant | Literal["never"] | None = None  # of the consent
    public_resolution: Annotated[int, Meta(ge=0, le=15)] | None = None  # of the H3 cell
    withhold: list[Name] = []  # columns that are not published
    per_minute: Count | None = None
    closed_parts: Count | None = None  # partitions that were made under a more closed level than it has now


def label_of(
    standing: Standing,
    *,
    closed_parts: int | None = None,
    withhold: Iterable[str] = (),
    per_minute: int | None = None,
) -> Label:
    """What labels mean, as it is asked about. Several custodians are named together: an approval by one of them is none
    by all, and the keys in force ask each."""
    return Label(
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
    contracts: Count  # sources that were held against one
    unheld_parts: Count
    results: list[QaResult]


class Source(Part, frozen=True):
    uri: Name
    digest: Digest


class Tools(Part, frozen=True):
    """Their versions."""

    kfm: Name
    runtime: Name
    others: dict[str, Name] = {}


class Provenance(Part, frozen=True):
    inputs: list[Source]
    run_id: Name
    updater: Name
    updater_version: Name
    plan_hash: Digest
    input_hash: Digest
    code_hash: DigestOrNone  # nobody wrote it down before it was asked for
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


class Masking(Part, frozen=True):
    subject: Digest
    resolution: Count
    leaks: Count
    finer_than_source: bool


class Emission(Part, frozen=True):
    recorded: bool
    run_id: Name
    fields: list[Name]
    energy_method: Name
    unmasked: Count  # values in it that may not be told
    slo_ok: bool | None = None


class Step(Part, frozen=True, rename={"from_": "from"}):
    from_: Name
    to: Name
    sealed: bool = False
    labelled: bool = True  # false: nobody keeps labels here, so that there is no custodian's key


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
    verified: bool  # the signature, and that the key is that person's today


class OperationFacts(Part, frozen=True):
    name: Name
    role: Name  # of who asks, as the list of keys has it; `single` where there is no list
    request: Digest
    moves: list[Move]
    approvals: list[Approval] = []


class MadeReceipt(Part, frozen=True):
    status: Name
    dry_run: bool
    outputs: list[Name]


class Made(Part, frozen=True):
    """What the state says of a version, for the least checklist."""

    title: Name
    licence: Name
    sensitivity: Name
    made_as: Name  # the sensitivity when it was made; `unsaid`
    closed_parts: list[Name]
    unheld_parts: list[Name]
    sources: int
    contracts: int
    version: Name
    plan_hash: Name
    input_hash: Name
    updater_version: Name
    run_id: Name
    looked_at: bool
    damaged: Name  # why its objects are not what they should be; empty: they are
    masked: bool = False  # on its way in
    receipt: MadeReceipt | None = None


class Question(Part, frozen=True):
    """May this be done with exactly these bytes? Each gate reads the parts it needs, and misses what is absent."""

    gate: Gate
    subjects: list[Digest]
    label_epoch: Count = 0  # of the labels the facts were read under; compared again in the commit
    asked: Asked | None = None
    identity: Identity | None = None
    schema: Schema | None = None
    extent: Extent | None = None
    licence: Licence | None = None
    label: Label | None = None
    quality: Quality | None = None
    provenance: Provenance | None = None
    checksums: Checksums | None = None
    receipt: ReceiptFacts | None = None
    review: Review | None = None
    consent: Consent | None = None
    masking: Masking | None = None
    emission: Emission | None = None
    step: Step | None = None
    operation: OperationFacts | None = None
    made: Made | None = None


class Mask(Record, frozen=True, tag_field="do", tag="mask"):
    """Nothing finer than one H3 cell of this resolution."""

    resolution: Annotated[int, Meta(ge=0, le=15)]


class Withhold(Record, frozen=True, tag_field="do", tag="withhold"):
    field: str


class Throttle(Record, frozen=True, tag_field="do", tag="throttle"):
    per_minute: Annotated[int, Meta(ge=1)]


Obligation = Mask | Withhold | Throttle


class Reason(Record, frozen=True):
    rule: str
    msg: str


class Verdict(Record, frozen=True):
    """What an engine answers. An obligation nobody knows cannot be obeyed: the whole answer is refused."""

    allow: bool
    deny: list[Reason]
    warn: list[Reason]
    obligations: list[Obligation]
    subjects: list[str]
    question: str
    policy: str


class Decision(Record, frozen=True):
    """The answer of the decision point. Only a literal true about exactly the digests asked for opens anything."""

    id: str
    gate: str
    allow: bool
    subjects: list[str]
    policy_digest: str
    label_epoch: int
    engine: str
    rules: list[str]  # that did not hold
    reasons: list[str]
    warnings: list[str]
    obligations: list[Obligation]

    def is_yes(self, *digests: str) -> bool:
        return self.allow is True and self.subjects == list(digests)

    def recorded(self, gate: str = "", subject: str = "") -> records.Decision:
        """As receipts have it: about one digest, under the name that receipts call the gate by."""
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
_QUESTION = msgspec.json.Decoder(Question)
_VERDICT = msgspec.json.Decoder(Verdict)


def encoded(question: Question) -> bytes:
    """The bytes an engine is asked with; raises if the record was put together from things of other types."""
    body = _ENCODER.encode(question)
    _QUESTION.decode(body)
    return body


def verdict_from(answer: bytes | str) -> Verdict:
    return _VERDICT.decode(answer)
