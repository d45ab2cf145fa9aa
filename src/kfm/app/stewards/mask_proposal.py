"""Proposes a masking policy for a table, and measures it: cells by resolution, and records that their columns single
out. It shows counts only, never a record."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kfm.app.stewards.column_survey import Survey
from kfm.delivery.masked_tables import box_around
from kfm.errors import BadInput
from kfm.masking.cells import EDGES
from kfm.masking.mask import Prepared, mask_columns, prepare
from kfm.masking.public_record import WITHHELD
from kfm.masking.public_table import PublicTable, public_table
from kfm.masking.small_groups import group_columns, group_sizes
from kfm.model.labels import Classification
from kfm.model.masks import FARTHEST, Accuracy, AccuracyClass, ColumnRule, Location, MaskingPolicy, faults, read_policy
from kfm.model.secret import SHORTEST, Secret
from kfm.parsing import documents
from kfm.parsing.characters import printable
from kfm.parsing.documents import dotted
from kfm.parsing.lazy_regex import pattern
from kfm.parsing.yaml_edit import flow, scalar

RESOLUTION = 6  # about 6 kilometres across
_CLASS = pattern("[a-z][a-z -]{0,39}")
_CLASSES = {"point": 500, "section": 3_000, "township": 15_000, "county": 80_000, "region": FARTHEST}  # metres
SHOWN = (4, 5, 6, 7)  # resolutions that are compared


class CellCount(msgspec.Struct, frozen=True):
    """How a table would look in cells of one resolution."""

    resolution: int
    kilometres: float  # across a cell
    cells: int
    alone: int  # records whose cell holds no other record
    bare: int  # records of which readers get nothing but the cell, because too few others are like them


class Uniqueness(msgspec.Struct, frozen=True):
    """How many records their cell and these columns together single out, before and after small groups become
    coarser."""

    k: int
    columns: list[str]  # public names of the quasi-identifiers
    records: int
    unique: int
    below_k: int  # records in groups of fewer than k, the unique ones among them
    published_below_k: int  # the same in what readers get; 0 if the policy names its quasi-identifiers


def accuracy_of(text: str, survey: Survey) -> Accuracy:
    """Return the accuracy that a caller gives as METRES, or as COLUMN:VALUE=METRES,VALUE=METRES. Without a text it
    follows from the decimal places of the coordinates. Raise BadInput for anything else."""
    if not text:
        metres = max(10, round(111_000 / 10**survey.digits))
        return Accuracy(all=AccuracyClass(name="point", metres=metres))
    column, colon, listed = text.partition(":")
    try:
        if not colon:
            return Accuracy(all=AccuracyClass(name=_word("", float(text)), metres=float(text)))
        if column not in {one.name for one in survey.columns}:
            raise BadInput(f"the table has no column {printable(column)}", hint="look at --accuracy")
        pairs = [(value, float(metres)) for value, _, metres in (part.rpartition("=") for part in listed.split(","))]
        return Accuracy(
            column=column,
            classes={value: AccuracyClass(name=_word(value, metres), metres=metres) for value, metres in pairs},
        )
    except (ValueError, StopIteration):
        raise BadInput(
            f"{printable(text)} is no accuracy", hint="write metres, or COLUMN:VALUE=METRES,VALUE=METRES"
        ) from None


def _word(value: str, metres: float) -> str:
    """Return the value if readers may see it as it is, or else a word for so many metres."""
    if _CLASS.fullmatch(value):
        return value
    return next(word for word, most in _CLASSES.items() if metres <= most)


def propose(survey: Survey, *, id: str, resolution: int, accuracy: Accuracy, k: int) -> MaskingPolicy:
    """Return a policy that publishes one cell for each record and the columns that may be seen."""
    location = Location(
        accuracy=accuracy,
        latitude=survey.latitude,
        longitude=survey.longitude,
        geometry=not survey.latitude,
    )
    columns = {one.name: one.rule for one in survey.columns if one.rule and one.name != accuracy.column}
    policy = MaskingPolicy(
        id=id, version="1", namespace=id, record_id=survey.record_id, resolution=resolution, location=location,
        columns={name: _coarser_below_k(rule) for name, rule in columns.items()}, k=k,
        quasi_identifiers=tuple(columns),
    )  # fmt: skip
    for path, what, hint in faults(policy):
        raise BadInput(f"the masking policy would be wrong: {dotted(path)} {what}", hint=hint)
    return policy


def _coarser_below_k(rule: ColumnRule) -> ColumnRule:
    """Return a rule with the form that is tried before a value of a small group is withheld."""
    if rule.kind == "number" and rule.step:
        return msgspec.structs.replace(rule, below_k=rule.step * 10)
    return msgspec.structs.replace(rule, below_k="century") if rule.kind == "date" else rule


def policy_text(policy: MaskingPolicy, withheld: Iterable[str]) -> bytes:
    """Return the policy as YAML, a line for each published column, with the names of withheld columns in a comment."""
    place: dict[str, Any] = {"geometry": True}
    if policy.location.latitude:
        place = {"latitude": policy.location.latitude, "longitude": policy.location.longitude}
    lines = [
        "# What the public may see. A column that is not listed under `columns` is not published.",
        f"id: {scalar(policy.id)}",
        f'version: "{policy.version}"',
        f"namespace: {scalar(policy.namespace)}",
        f"record_id: {scalar(policy.record_id)}",
        f"resolution: {policy.resolution}",
        "location:",
        *(f"  {name}: {flow(value)}" for name, value in place.items()),
        f"  accuracy: {flow(_plain(policy.location.accuracy))}",
        "columns:" if policy.columns else "columns: {}",
        *(f"  {scalar(name)}: {flow(_plain(rule))}" for name, rule in policy.columns.items()),
    ]
    lines += [
        "# Where fewer than k records of a cell share these columns, they become coarser, the last one first.",
        f"k: {policy.k}",
        f"quasi_identifiers: {flow(list(policy.recognised_by))}",
    ]
    if names := ", ".join(printable(name)[1:-1] for name in withheld):
        lines.append(f"# Withheld: {names}")
    body = ("\n".join(lines) + "\n").encode()
    read_policy(documents.read(body, "the masking policy", json=False))
    return body


def _plain(record: msgspec.Struct) -> Any:
    """Return a record without the fields that have their default value."""
    shown = {}
    for field in msgspec.structs.fields(record):
        value = getattr(record, field.name)
        if value != field.default and value not in ("", (), {}, None, msgspec.UNSET):
            shown[field.name] = msgspec.to_builtins(value)
    return _whole(shown)


def _whole(value: Any) -> Any:
    """Return a value in which whole numbers have no decimal point."""
    if isinstance(value, Mapping):
        return {name: _whole(each) for name, each in value.items() if each not in ("", (), {}, None)}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


# ---------------------------------------------------------------------------------------------- measures


def _bound(policy: MaskingPolicy) -> Prepared:
    import os

    return prepare(policy, Classification(level="generalised"), Secret(os.urandom(SHORTEST)))


def cells_by_resolution(table: Mapping[str, Sequence[Any]], policy: MaskingPolicy) -> list[CellCount]:
    """Return the counts for the policy's resolution and for those that are usual."""
    found = []
    for resolution in sorted({*SHOWN, policy.resolution}):
        records = _public(table, msgspec.structs.replace(policy, resolution=resolution)).records
        counts = Counter({one.id: one.cell for one in records if one.cell}.values())
        names = group_columns(policy)
        bare = {one.id for one in records if one.cell and all(one.attributes[name] == WITHHELD for name in names)}
        alone = sum(count == 1 for count in counts.values())
        across = round(EDGES[resolution] * 2 / 1000, 1)
        found.append(CellCount(resolution, across, len(counts), alone, len(bare)))
    return found


def _public(table: Mapping[str, Sequence[Any]], policy: MaskingPolicy) -> PublicTable:
    """Return the table as readers would see its first version, under a throw-away key."""
    return public_table(table, _bound(policy), lambda bound: mask_columns(table, bound))


def uniqueness(table: Mapping[str, Sequence[Any]], policy: MaskingPolicy) -> Uniqueness:
    """Return how many records share cell and quasi-identifiers with fewer than k - 1 others."""
    made = _public(table, policy)
    before, after = (group_sizes(records, policy) for records in (made.as_masked, made.records))
    return Uniqueness(
        k=policy.k,
        columns=group_columns(policy),
        records=len(made.records),
        unique=before.unique,
        below_k=before.below_k,
        published_below_k=after.below_k,
    )


def extent_of(table: Mapping[str, Sequence[Any]], policy: MaskingPolicy) -> dict[str, Any]:
    """Return the extent of what readers get, for kfm.yml: a box around the cells, outwards to a tenth of a degree, and
    the time from the first date as it is published. It knows nothing of exact places and dates."""
    records = _public(table, policy).records
    box = box_around([shape.bbox for one in records if (shape := one.shape())])
    found: dict[str, Any] = {}
    if box:
        low = [math.floor(degrees * 10) / 10 for degrees in box[:2]]
        found["bbox"] = [*low, *(math.ceil(degrees * 10) / 10 for degrees in box[2:])]
    names = [rule.name or name for name, rule in policy.columns.items() if rule.kind == "date"]
    years = [one.attributes[name][:4] for one in records for name in names if one.attributes[name][:4].isdecimal()]
    if years:
        found["interval"] = [f"{min(years)}-01-01T00:00:00Z", None]
    return found
