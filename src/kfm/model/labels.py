"""Labels: who decides about data, and how much of it the public may see.

A label applies to a dataset, a source address, exact bytes or one record, and to everything made of them.
`label_classification` turns a steward's label into a classification on a given day; `joined` returns the classification
of something made of several inputs. Both only close: an unknown word, a missing label and an expired consent all mean
less access, never more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kfm.errors import BadInput
from kfm.model.records import Classification as Classification
from kfm.model.records import Level as Level
from kfm.model.records import Record
from kfm.parsing.dates import is_date
from kfm.parsing.documents import Document
from kfm.parsing.record_shape import into

# Every word of the vocabulary is defined here only, from open to closed; `make schemas` passes it to the policies.
# `generalised` data is published only through masking; `restricted` data is used under its custodian's key and
# never published; `closed` data is not used at all.
LEVELS: tuple[Level, ...] = ("public", "generalised", "restricted", "closed")
PUBLISHABLE: tuple[Level, ...] = LEVELS[:2]
USABLE: tuple[Level, ...] = LEVELS[:3]
COARSEST, FINEST = 0, 15

SENSITIVITY: dict[str, Level] = {level: level for level in LEVELS}
CARE: dict[str, Level] = {"open": "public", "community": "generalised", "sacred": "closed"}
ACCESS: dict[str, Level] = {
    "open": "public",
    "embargoed": "restricted",
    "restricted": "restricted",
    "closed": "closed",
}
# The fields of a label whose words are fixed.
VOCABULARIES = {"sensitivity": SENSITIVITY, "care": CARE, "access_rights": ACCESS}
# The twenty TK and ten BC labels of Local Contexts by code, with their names and the level that follows from the
# standard text of each, before a community adapts it:
# - public: it is about credit, partners, trade or a valid consent, and lets everyone see the material;
# - generalised: it requires care, or an agreement first;
# - restricted: the material is not for the public, is for a group, a season or a purpose, or was made without consent;
# - closed: the material is secret or sacred.
COMMUNITY: dict[str, tuple[str, Level]] = {
    "TK A": ("Attribution", "public"),
    "TK CL": ("Clan", "restricted"),
    "TK F": ("Family", "restricted"),
    "TK MC": ("Multiple Communities", "generalised"),
    "TK CV": ("Community Voice", "public"),
    "TK CR": ("Creative", "public"),
    "TK V": ("Verified", "public"),
    "TK NV": ("Non-Verified", "restricted"),
    "TK S": ("Seasonal", "restricted"),
    "TK WG": ("Women General", "restricted"),
    "TK MG": ("Men General", "restricted"),
    "TK MR": ("Men Restricted", "closed"),
    "TK WR": ("Women Restricted", "closed"),
    "TK CS": ("Culturally Sensitive", "generalised"),
    "TK SS": ("Secret / Sacred", "closed"),
    "TK OC": ("Open to Commercialization", "public"),
    "TK NC": ("Non-Commercial", "public"),
    "TK CO": ("Community Use Only", "restricted"),
    "TK O": ("Outreach", "restricted"),
    "TK CB": ("Open to Collaboration", "public"),
    "BC P": ("Provenance", "public"),
    "BC MC": ("Multiple Communities", "generalised"),
    "BC CB": ("Open to Collaboration", "public"),
    "BC OC": ("Open to Commercialization", "public"),
    "BC R": ("Research Use", "restricted"),
    "BC CV": ("Consent Verified", "public"),
    "BC CNV": ("Consent Non-Verified", "restricted"),
    "BC CL": ("Clan", "restricted"),
    "BC O": ("Outreach", "restricted"),
    "BC NC": ("Non-Commercial", "public"),
}
_COMMUNITY: dict[str, Level] = {code: level for code, (_, level) in COMMUNITY.items()}
_PAST = "0001-01-01"  # stands for a last day of consent that is not a date

_Word = Annotated[str, Meta(max_length=200)]


class LabelTarget(Record, frozen=True):
    """What a label applies to: a dataset, a source, exact bytes or a record. Exactly one of the fields is set."""

    dataset: Annotated[_Word, Meta(description="everything that this dataset reads and makes")] = ""
    source: Annotated[
        _Word,
        Meta(
            description="a source in every dataset that reads it: its address in any spelling, or its name in kfm.yml"
        ),
    ] = ""
    bytes_: Annotated[_Word, Meta(description="sha256:… of exact bytes from any source")] = msgspec.field(
        default="", name="bytes"
    )
    record: Annotated[_Word, Meta(description="one record, by its public id")] = ""

    def given(self) -> dict[str, str]:
        parts = {"dataset": self.dataset, "source": self.source, "bytes": self.bytes_, "record": self.record}
        return {name: value for name, value in parts.items() if value}


class Label(Record, frozen=True):
    """A steward's statement about one target. An unknown word counts as the most restrictive one."""

    of: Annotated[LabelTarget, Meta(description="what it applies to")]
    sensitivity: Annotated[_Word, Meta(description=", ".join(LEVELS))]
    care: Annotated[_Word, Meta(description=", ".join(CARE))]
    custodian: Annotated[
        _Word, Meta(description="the custodian whose key encrypts the data and derives its public ids")
    ] = ""
    authority: Annotated[
        _Word, Meta(description="the authority that decides about it, such as a nation's preservation office")
    ] = ""
    community_labels: Annotated[
        tuple[_Word, ...], Meta(description="TK and BC labels of Local Contexts, by their codes: TK CS")
    ] = ()
    access_rights: Annotated[_Word, Meta(description=", ".join(ACCESS))] = "open"
    public_resolution: Annotated[
        Annotated[int, Meta(ge=COARSEST, le=FINEST)] | None,
        Meta(description="the H3 resolution the public may see; required unless the level is public"),
    ] = None
    expires: Annotated[
        _Word, Meta(description="the last day of the consent, such as 2027-06-30; after it the data is closed")
    ] = ""


class Labels(Record, frozen=True):
    """A label file."""

    version: Literal[1]
    labels: tuple[Label, ...] = ()


UNLABELLED = Classification(level="restricted", care="sacred", access="closed", rules=("label.missing",))


def read_labels(document: Document) -> Labels:
    """Return the labels of a document. Raise BadInput if it is not valid; unknown words of a vocabulary are accepted
    here, and `label_classification` treats them as closed."""
    found = into(document, Labels)
    for index, label in enumerate(found.labels):
        at = ("labels", index)
        if len(label.of.given()) != 1:
            document.refuse((*at, "of"), "must name exactly one target", "give one of dataset, source, bytes, record")
        if label.expires and not is_date(label.expires):
            document.refuse((*at, "expires"), "is not a date", "write it as 2027-06-30")
    return found


def label_classification(label: Label | None, today: str) -> Classification:
    """Return the classification that a label gives on a day (`2026-11-16`)."""
    if label is None:
        return UNLABELLED
    if not is_date(today):
        raise BadInput("the day for the labels is not a date", hint="give it as 2026-11-16")
    found = _holds(label, today)
    return Classification(
        level=_most_closed(level for level, _ in found),
        care=_last(CARE, [label.care]),
        access=_last(ACCESS, [label.access_rights]),
        expires=label.expires if not label.expires or is_date(label.expires) else _PAST,
        resolution=label.public_resolution,
        custodians=(label.custodian,) if label.custodian else (),
        authorities=(label.authority,) if label.authority else (),
        community_labels=tuple(sorted(set(label.community_labels))),
        rules=tuple(sorted({rule for level, rule in found if level != "public"})),
    )


def _holds(label: Label, today: str) -> list[tuple[Level, str]]:
    """Return each word of a label as the level that it holds, with its rule."""
    found: list[tuple[Level, str]] = [
        _meaning(SENSITIVITY, label.sensitivity, "label.sensitivity"),
        _meaning(CARE, label.care, "label.care"),
        _meaning(ACCESS, label.access_rights, "label.access-rights"),
        *(_meaning(_COMMUNITY, code, "label.community") for code in label.community_labels),
    ]
    if label.public_resolution is not None:
        found.append(("generalised", "label.resolution"))
    if label.expires and (not is_date(label.expires) or label.expires < today):
        found.append(("closed", "label.expired"))
    if _most_closed(level for level, _ in found) != "public":
        if not label.custodian:
            found.append(("restricted", "label.custodian-missing"))
        if label.public_resolution is None:
            found.append(("restricted", "label.resolution-missing"))
    return found


def opens(before: Iterable[Label], after: Iterable[Label], today: str) -> bool:
    """Return whether one word of these labels becomes more open, even if another word still holds the level: the next
    change would then look small."""
    was, will = (_by_rule(labels, today) for labels in (before, after))
    return any(LEVELS.index(will.get(rule, "public")) < LEVELS.index(level) for rule, level in was.items())


def _by_rule(labels: Iterable[Label], today: str) -> dict[str, Level]:
    found: dict[str, Level] = {}
    for level, rule in (hold for label in labels for hold in _holds(label, today)):
        rule = rule.removesuffix("-unknown")
        found[rule] = _most_closed([level, found.get(rule, "public")])
    return found


def joined(standings: Iterable[Classification]) -> Classification:
    """Return the classification of something made of all these: the most closed level, the coarsest resolution, and all
    custodians and authorities."""
    every = list(standings)
    if not every:
        return UNLABELLED
    resolutions = [one.resolution for one in every if one.resolution is not None]
    return Classification(
        level=_most_closed(one.level for one in every),
        care=_last(CARE, (one.care for one in every)),
        access=_last(ACCESS, (one.access for one in every)),
        expires=min((one.expires for one in every if one.expires), default=""),
        resolution=min(resolutions) if resolutions else None,
        custodians=_union(one.custodians for one in every),
        authorities=_union(one.authorities for one in every),
        community_labels=_union(one.community_labels for one in every),
        rules=_union(one.rules for one in every),
    )


def source_classification(
    labels: Labels, *, dataset: str, source: str, digest: str, today: str, declared: Level | None = None
) -> Classification:
    """Return the classification of a source that a dataset reads, from the labels on the dataset, the address and the
    bytes, and from `declared`, the `sensitivity` in the dataset's settings.

    So a dataset declared public makes an unlabelled source public, but never a source whose address or bytes have
    another label.
    """
    subject = {"dataset": dataset, "source": source, "bytes": digest}
    found = [label_classification(one, today) for one in labels.labels if _is_on(one.of, subject)]
    if declared is not None:
        found.append(Classification(level=declared, rules=() if declared == "public" else ("dataset.sensitivity",)))
    return _complete(joined(found))


def _complete(standing: Classification) -> Classification:
    """Restrict a generalised classification without a custodian or a resolution: settings can declare the level, but
    only a label names the key and the resolution."""
    if standing.level != "generalised":
        return standing
    lacks = [rule for rule, said in _NEEDED.items() if getattr(standing, said) in (None, ())]
    if not lacks:
        return standing
    return msgspec.structs.replace(standing, level="restricted", rules=_union([standing.rules, tuple(lacks)]))


_NEEDED = {"label.custodian-missing": "custodians", "label.resolution-missing": "resolution"}


def standing_of_record(labels: Labels, record: str, around: Classification, today: str) -> Classification:
    """Return the classification of one record inside data classified as `around`."""
    own = [label_classification(one, today) for one in labels.labels if _is_on(one.of, {"record": record})]
    return joined([around, *own])


def loosens(before: Classification, after: Classification) -> bool:
    """Return whether a change gives anyone more access. One person alone may not make such a change."""
    if LEVELS.index(after.level) < LEVELS.index(before.level):
        return True
    if any(words.index(new) < words.index(old) for words, old, new in _words(before, after)):
        return True
    if before.expires and (not after.expires or after.expires > before.expires):
        return True
    if before.resolution is not None and (after.resolution is None or after.resolution > before.resolution):
        return True
    kept = (set(before.custodians) <= set(after.custodians), set(before.authorities) <= set(after.authorities))
    return not all((*kept, set(before.community_labels) <= set(after.community_labels)))


def _meaning(words: dict[str, Level], said: str, rule: str) -> tuple[Level, str]:
    known = words.get(said)
    return ("closed", f"{rule}-unknown") if known is None else (known, rule)


def _words(before: Classification, after: Classification) -> Iterator[tuple[list[str], str, str]]:
    yield list(CARE), _last(CARE, [before.care]), _last(CARE, [after.care])
    yield list(ACCESS), _last(ACCESS, [before.access]), _last(ACCESS, [after.access])


def _last(words: dict[str, Level], said: Iterable[str]) -> str:
    """Return the most closed of these words; an unknown word counts as the last."""
    order = list(words)
    return order[max(order.index(one) if one in words else len(order) - 1 for one in said)]


def _most_closed(levels: Iterable[Level]) -> Level:
    return LEVELS[max(LEVELS.index(level) for level in levels)]


def _union(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({item for part in parts for item in part}))


def _is_on(target: LabelTarget, subject: dict[str, str]) -> bool:
    given = target.given()
    # `read_labels` refuses a target that names several things or none; here it applies to all that it names.
    return any(subject.get(name) == value for name, value in given.items())
