"""Turns a protected record into a public one. There is no other way, and no way back.

`prepare` binds a policy to the labels in force and to the custodian's key. `mask` takes one record, `mask_columns` a
whole table; both give the same bytes. No error here contains a value: only ids of rules and row numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Literal, NamedTuple, TypeVar

from kfm.errors import Denied, Refused
from kfm.masking import cells
from kfm.masking.first_cells import FirstCells, remembered
from kfm.masking.hmac_batch import Keyed
from kfm.masking.public_record import WITHHELD, PublicRecord
from kfm.model.labels import Classification
from kfm.model.masks import AccuracyClass, ColumnRule, MaskingPolicy, faults
from kfm.model.secret import SHORTEST, Secret
from kfm.parsing.dates import is_date, is_moment
from kfm.parsing.documents import dotted

_YEAR = re.compile(r"[0-9]{4}")
_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_DONE = {"date": "mask.date", "number": "mask.number"}


class _Place(NamedTuple):
    """The location settings for one value of the accuracy column."""

    resolution: int  # -1: no location is published
    name: str
    metres: int
    rules: tuple[str, ...]


_Shown = tuple[str, str]  # a published value, and the rule that changed or withheld it


class _Column(NamedTuple):
    source: str
    publish: Callable[[str | None], str]
    refused: str  # the rule that withholds a value
    done: str  # the rule that changes a value; empty: published unchanged

    def shown(self, value: object) -> _Shown:
        published = self.publish(_said(value))
        if published == WITHHELD:
            return published, self.refused
        return published, self.done if published else ""


class Prepared:
    """A policy bound to the labels in force and to the custodian's key. Its repr shows neither."""

    __slots__ = (
        "_keyed",
        "_unlisted",
        "accuracy",
        "columns",
        "everywhere",
        "first",
        "moved",
        "names",
        "policy",
        "resolution",
    )

    def __init__(
        self, policy: MaskingPolicy, resolution: int, key: Secret, first: FirstCells, moved: Literal["keep", "withdraw"]
    ) -> None:
        self.policy = policy
        self.resolution = resolution
        self.first = first
        self.moved = moved
        self.columns = tuple(_column(name, rule) for name, rule in policy.columns.items())
        self.names = tuple(rule.name or name for name, rule in policy.columns.items())
        self.accuracy = {value: _place(one, resolution) for value, one in policy.location.accuracy.classes.items()}
        whole = policy.location.accuracy.all
        self.everywhere = _place(whole, resolution) if whole else None
        namespace = policy.namespace.encode()
        prefix = b"kfm:public-id:1\0" + len(namespace).to_bytes(4, "big") + namespace
        self._keyed = Keyed(key, prefix)
        self._unlisted = frozenset({policy.record_id, policy.location.latitude, policy.location.longitude, "geometry"})

    def __repr__(self) -> str:
        return f"Prepared({self.policy.id})"

    def starting_from(self, first: FirstCells) -> Prepared:
        """Return the same policy with other first cells."""
        again = copy(self)
        again.first = first
        return again

    def public_id(self, record_id: object, row: int = 0) -> str:
        """Return the first 128 bits of an HMAC-SHA-256 under the custodian's key: the same in every run."""
        said = str(record_id).strip() if isinstance(record_id, (str, int)) and record_id is not True else ""
        if not said or record_id is False:
            raise Refused(f"row {row} has no record id", rule="mask.record-id-missing", row=row)
        try:
            body = said.encode()
        except UnicodeEncodeError:
            raise Refused(f"the id of row {row} is not text", rule="mask.record-id-missing", row=row) from None
        return self._keyed.digest(body)[:16].hex()

    def place_of(self, stated: object) -> _Place:
        """Return the resolution and the wording for a stated accuracy; a value that the policy does not list gets no
        location."""
        return self.everywhere or self.accuracy.get(_said(stated) or "", _UNKNOWN)

    def drops(self, columns: Sequence[str]) -> bool:
        """Return whether a column is neither published nor already listed as withheld."""
        own = self._unlisted | self.policy.columns.keys()
        return any(name not in own for name in columns)


_UNKNOWN = _Place(-1, "", 0, ("mask.accuracy-unknown",))


def prepare(
    policy: MaskingPolicy,
    standing: Classification,
    key: Secret,
    *,
    first: FirstCells | None = None,
    moved: Literal["keep", "withdraw"] = "keep",
) -> Prepared:
    """Bind a policy to the labels. Raise Denied if they forbid publication or the key is too short, and Refused if the
    policy is not valid."""
    for path, what, hint in faults(policy):
        raise Refused(f"masking policy {policy.id}: {dotted(path)} {what}", hint=hint, rule="mask.policy-wrong")
    if not standing.publishable():
        raise Denied(
            f"the labels forbid what masking policy {policy.id} would publish",
            hint="labels in force: " + ", ".join(standing.rules),
            rule="mask.label-closed",
        )
    if len(key.reveal()) < SHORTEST:
        raise Denied(
            "the custodian's key is too short to mask with",
            hint=f"give at least {SHORTEST} bytes",
            rule="mask.key-short",
        )
    resolution = policy.resolution if standing.resolution is None else min(policy.resolution, standing.resolution)
    return Prepared(policy, resolution, key, first or {}, moved)


def mask(record: Mapping[str, Any], policy: Prepared) -> PublicRecord:
    """Mask one record. A feature is passed as one mapping of its properties, its `id` and its `geometry`."""
    place = policy.place_of(record.get(policy.policy.location.accuracy.column))
    point = _point_of(record, policy)
    cell = cells.cell_of(*point, place.resolution) if point and place.resolution >= 0 else 0
    shown = [column.shown(record.get(column.source)) for column in policy.columns]
    rules = _rules(place, bool(cell), policy.drops(list(record)), [rule for _, rule in shown])
    identity = policy.public_id(record.get(policy.policy.record_id))
    return _assembled(policy, identity, cell, place, rules, [value for value, _ in shown], policy.first)


def mask_columns(table: Mapping[str, Sequence[Any]], policy: Prepared) -> list[PublicRecord]:
    """Mask a whole table by columns; the result is in row order. Rows with the same id get the same cell."""
    ids = table.get(policy.policy.record_id, ())
    count = len(ids)
    if any(len(column) != count for column in table.values()):
        raise Refused(
            "the columns of a table are not of one length, or it has no column of record ids", rule="mask.table"
        )
    nothing = [None] * count
    places = _each(policy.place_of, table.get(policy.policy.location.accuracy.column, nothing))
    found = _cells(table, policy, places)
    shown = [_each(column.shown, table.get(column.source, nothing)) for column in policy.columns]
    value_rows = zip(*([value for value, _ in column] for column in shown), strict=True) if shown else ((),) * count
    rule_rows = zip(*([rule for _, rule in column] for column in shown), strict=True) if shown else ((),) * count
    drops = policy.drops(list(table))
    known: dict[Any, tuple[str, ...]] = {}
    identities = [policy.public_id(record_id, row) for row, record_id in enumerate(ids, 1)]
    one_each = _one_each(identities, found)
    out: list[PublicRecord] = []
    rows = zip(identities, found, places, value_rows, rule_rows, strict=True)
    for identity, cell, place, values, marks in rows:
        key = (place, cell == 0, marks)
        rules = known.get(key)
        if rules is None:
            rules = known[key] = _rules(place, bool(cell), drops, marks)
        shared = one_each[identity] if cell else 0
        out.append(_assembled(policy, identity, shared, place, rules, values, policy.first))
    return out


def _one_each(identities: Sequence[str], found: Sequence[int]) -> dict[str, int]:
    """Return one cell for each id over all its rows: the first of the coarsest cells."""
    out: dict[str, int] = {}
    for identity, cell in zip(identities, found, strict=True):
        before = out.setdefault(identity, cell)
        if before != cell and cell and (not before or cells.resolution_of(cell) < cells.resolution_of(before)):
            out[identity] = cell
    return out


def _rules(place: _Place, located: bool, drops: bool, marks: Sequence[str]) -> tuple[str, ...]:
    """Return the rules that were applied to a record, sorted."""
    found = set(place.rules) if located or place.resolution < 0 else {"mask.location-unreadable"}
    if drops:
        found.add("mask.column-unlisted")
    return tuple(sorted(found.union(marks) - {""}))


def _assembled(
    policy: Prepared,
    identity: str,
    cell: int,
    place: _Place,
    rules: tuple[str, ...],
    values: Sequence[str],
    first: FirstCells,
) -> PublicRecord:
    text = cells.text_of(cell) if cell else ""
    before = first.get(identity)
    if before is not None and before != text:
        text = remembered(before, text, moved=policy.moved).cell
    return PublicRecord(
        id=identity,
        cell=text,
        accuracy=place.name if text else "",
        metres=place.metres if text else 0,
        attributes=dict(zip(policy.names, values, strict=True)),
        rules=rules,
    )


T = TypeVar("T")


def _each(take: Callable[[Any], T], values: Sequence[Any]) -> list[T]:
    """Apply a function to each value, once per distinct text. Other types are not cached: 1 and True are equal keys,
    and a list is not hashable."""
    known: dict[str, T] = {}
    out: list[T] = []
    for value in values:
        if type(value) is not str:
            out.append(take(value))
            continue
        found = known.get(value)
        if found is None:
            found = known[value] = take(value)
        out.append(found)
    return out


# ---------------------------------------------------------------------------------------------- places


def _place(one: AccuracyClass, resolution: int) -> _Place:
    allowed = cells.coarse_enough(one.metres)
    if allowed < 0:
        return _Place(-1, "", 0, ("mask.accuracy-too-coarse",))
    rules = ("mask.accuracy", "mask.location") if allowed < resolution else ("mask.location",)
    return _Place(min(resolution, allowed), one.name, math.ceil(one.metres), rules)


def _point_of(record: Mapping[str, Any], policy: Prepared) -> tuple[float, float] | None:
    location = policy.policy.location
    if location.geometry:
        return _point_of_geometry(record.get("geometry"))
    return _point(record.get(location.latitude), record.get(location.longitude))


def _point_of_geometry(geometry: object) -> tuple[float, float] | None:
    """Return the point of a Point. Other geometries have none: the cell of a line or an area would show too little or
    too much."""
    if not isinstance(geometry, dict) or geometry.get("type") != "Point":
        return None
    at = geometry.get("coordinates")
    if not isinstance(at, (list, tuple)) or len(at) not in (2, 3):
        return None
    return _point(at[1], at[0])


def _point(latitude: object, longitude: object) -> tuple[float, float] | None:
    lat, lng = _degrees(latitude), _degrees(longitude)
    return (lat, lng) if -90.0 <= lat <= 90.0 and -180.0 <= lng <= 180.0 else None


def _degrees(value: object) -> float:
    """Return a value as a number of degrees; NaN if it is not a number, so that every comparison with it fails."""
    if type(value) is float:
        return value
    if type(value) is str and "_" not in value:
        try:
            return float(value)
        except ValueError:
            return math.nan
    return float(value) if type(value) is int and abs(value) <= 180 else math.nan


def _cells(table: Mapping[str, Sequence[Any]], policy: Prepared, places: Sequence[_Place]) -> list[int]:
    """Return the cell of every row, 0 for none; rows of one resolution are computed together."""
    count = len(places)
    points = points_of(table, policy, count)
    rows: dict[int, list[int]] = {}
    for row, (place, point) in enumerate(zip(places, points, strict=True)):
        if point and place.resolution >= 0:
            rows.setdefault(place.resolution, []).append(row)
    found = [0] * count
    for resolution, of in rows.items():
        chosen = [point for row in of if (point := points[row])]
        latitudes, longitudes = zip(*chosen, strict=True)
        for row, cell in zip(of, cells.cells_of(latitudes, longitudes, resolution), strict=True):
            found[row] = cell
    return found


def points_of(table: Mapping[str, Sequence[Any]], policy: Prepared, count: int) -> list[tuple[float, float] | None]:
    """Return latitude and longitude of every row; None where they cannot be read, or are not on the earth."""
    location = policy.policy.location
    nothing = [None] * count
    if location.geometry:
        return [_point_of_geometry(one) for one in table.get("geometry", nothing)]
    lats, lngs = (_all_degrees(table.get(name, nothing)) for name in (location.latitude, location.longitude))
    return [
        (lat, lng) if -90.0 <= lat <= 90.0 and -180.0 <= lng <= 180.0 else None
        for lat, lng in zip(lats, lngs, strict=True)
    ]


def _all_degrees(values: Sequence[Any]) -> list[float]:
    """Return a column of degrees. Python reads `1_0` as ten, so a column with such a value is parsed one by one."""
    if all(type(value) is str for value in values) and "_" not in "".join(values):
        try:
            return list(map(float, values))
        except ValueError:
            pass
    return [_degrees(value) for value in values]


# ---------------------------------------------------------------------------------------------- values


def _column(name: str, rule: ColumnRule) -> _Column:
    if rule.kind == "code":
        listed = frozenset(rule.values)
        return _Column(name, lambda said: _code(said, listed), "mask.value-unlisted", "")
    if rule.kind == "number":
        done = _DONE["number"] if rule.step else ""
        return _Column(name, lambda said: _number(said, rule.step), "mask.value-unreadable", done)
    if rule.kind == "date":
        return _Column(name, lambda said: _date(said, rule.to), "mask.value-unreadable", _DONE["date"])
    reviewed = bool(rule.reviewed_by.strip())
    return _Column(name, lambda said: _text(said, reviewed), "mask.text-unreviewed", "")


def _said(value: object) -> str | None:
    """Return a value as text, empty for None; None if it is not one plain value."""
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, (int, float)) else None


def _code(said: str | None, listed: frozenset[str]) -> str:
    return said if said is not None and (not said or said in listed) else WITHHELD


def _number(said: str | None, step: float | None) -> str:
    if said == "":
        return ""
    if said is None or len(said) > 40 or not _NUMBER.fullmatch(said) or not math.isfinite(float(said)):
        return WITHHELD
    if not step:
        return said
    rounded = round(float(said) / step) * step
    return f"{rounded:.12g}"


def _date(said: str | None, to: str) -> str:
    if said == "":
        return ""
    month = ""
    if said is None:
        return WITHHELD
    if is_date(said) or is_moment(said):
        month = said[5:7]
    elif found := _MONTH.fullmatch(said):
        month = found[2]
    elif not _YEAR.fullmatch(said):
        return WITHHELD
    year = said[:4]
    if to == "quarter":
        return f"{year}-Q{(int(month) + 2) // 3}" if month else year
    if to == "decade":
        return f"{year[:3]}0s"
    return year if to == "year" else f"{year[:2]}00s"


def _text(said: str | None, reviewed: bool) -> str:
    return said if said == "" or (said is not None and reviewed) else WITHHELD
