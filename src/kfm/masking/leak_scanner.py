"""The leak scanner compares bytes with the fingerprints, and checks the one-cell rule, before anything is published.

`scan` searches a file for protected ids, points, columns, cells and passages, and `scan_all` several files together.
Both open archives and encodings; what cannot be read is for a person to review. `over_masked` reports values that were
hidden without need, because data that hides everything is useless.

A file is denied for one id, one fine cell, or one point that is equal to five or more decimals. Every other match may
be chance, so it counts against the size of the protected table and against chance, measured with shifted numbers:

- three points within 1e-4 degrees (or all, if fewer are protected) deny; one or two are for a person to review;
- rounded points deny if they are a fifth of the protected or of the scanned points;
- one column alone denies from five values and a fifth of the protected column, within 1e-5 degrees;
- points whose coordinates are apart deny from three points and a fifth of the protected ones;
- five passages and a fifth of the protected or of the scanned ones deny; three are for a person to review.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from kfm.masking import cells
from kfm.masking.contents import LARGEST as LARGEST
from kfm.masking.contents import Contents
from kfm.masking.fingerprints import Fingerprints, Marker
from kfm.masking.leak_search import Hits, Search, distinct
from kfm.masking.mask import Prepared
from kfm.masking.public_record import WITHHELD, PublicRecord
from kfm.model.records import Record

Verdict = Literal["clean", "review", "deny"]
_SHARE = 0.2  # share of a protected column, or of what was scanned, from which matches are not a coincidence
_FEW = 3
_COLUMN = 5
_SHIFTS = (13, -22, 37)  # units of the last decimal, of the fourth if there are more
_SAMPLE = 1 << 22  # characters in which chance is measured
_BY_CHANCE = 3  # times as much as chance explains is not chance


class Leak(Record, frozen=True):
    """A rule and how often it was broken; never the place or the value."""

    rule: str
    count: int


class ScanReport(Record, frozen=True):
    verdict: Verdict
    leaks: tuple[Leak, ...] = ()


def scan(body: bytes, known: Fingerprints, marker: Marker) -> ScanReport:
    """Return whether these bytes contain anything protected. The name of the file plays no part."""
    return scan_all(lambda: (body,), known, marker)


def scan_all(
    bodies: Callable[[], Iterable[bytes]], known: Fingerprints, marker: Marker, finest: int | None = None
) -> ScanReport:
    """Return whether these files together contain anything protected. `bodies` is called again if something matches, to
    measure how much matches by chance. `finest` is the resolution of the cells that map tiles may show, if they are of
    masked data."""
    found, contents = _searched(bodies, known, marker, finest=finest)
    counts = _counted(found, known)
    control: list[list[_Counts]] = []
    every = math.ceil(found.size / _SAMPLE)
    size = _Size(found.numbers, len(found.passages), every)
    certain = found.ids or found.cells or found.exact
    if not certain and any(True for own in counts for _ in _judged(own, [], size)):
        for shift in _SHIFTS if every <= 1 else _SHIFTS[:2]:
            control.append(_counted(_searched(bodies, known, marker, shift, every, finest)[0], known))
    leaks: dict[str, int] = {}
    verdicts: set[Verdict] = set()
    for at, own in enumerate(counts):
        for rule, verdict, count in _judged(own, [each[at] for each in control], size):
            leaks[rule] = max(leaks.get(rule, 0), count)
            verdicts.add(verdict)
    for rule, marks in (("gate.id", found.ids), ("gate.cell", found.cells)):
        if marks:
            leaks[rule] = len(marks)
            verdicts.add("deny")
    if contents.faults:
        leaks |= contents.faults
        verdicts.add("deny")
    if contents.unreadable:
        leaks["gate.unreadable"] = contents.unreadable
        verdicts.add("review")
    worst: Verdict = "deny" if "deny" in verdicts else "review" if verdicts else "clean"
    return ScanReport(
        verdict=worst, leaks=tuple(Leak(rule=rule, count=leaks[rule]) for rule in _RULES if rule in leaks)
    )


_RULES = (
    "gate.id",
    "gate.cell",
    "gate.point",
    "gate.point-rounded",
    "gate.point-apart",
    "gate.column",
    "gate.coordinate",
    "gate.text",
    "gate.cell-too-fine",
    "gate.place-beside-the-cell",
    "gate.unreadable",
)


def _searched(
    bodies: Callable[[], Iterable[bytes]],
    known: Fingerprints,
    marker: Marker,
    shift: int = 0,
    every: int = 1,
    finest: int | None = None,
) -> tuple[Search, Contents]:
    search, contents = Search(known, marker, shift, every), Contents(finest)
    for body in bodies():
        for part in contents.texts(body):
            if isinstance(part, str):
                search.add(part)
            else:
                search.add_places(part)
    return search, contents


class _Counts(NamedTuple):
    """How many protected values of one source matched."""

    records: int
    passages: int  # count of protected passages
    exact: int
    fine: int
    rough: int
    column: int  # the larger of the two columns
    apart: int
    alone: int
    texts: int


class _Size(NamedTuple):
    """How much was scanned."""

    numbers: int
    passages: int
    every: int  # chance was measured in each so-manieth stretch


def _counted(found: Search, known: Fingerprints) -> list[_Counts]:
    apart: Hits = found.apart()
    return [
        _Counts(
            records=one.records,
            passages=len(one.texts),
            exact=distinct(found.exact, one.points),
            fine=distinct(found.fine, one.points),
            rough=distinct(found.rough, one.points),
            column=max(distinct(found.latitudes, one.singles), distinct(found.longitudes, one.singles)),
            apart=distinct(apart, one.points),
            alone=distinct(found.alone, one.singles),
            texts=distinct(found.texts, one.texts),
        )
        for one in known.sources
    ]


def _judged(own: _Counts, control: list[_Counts], size: _Size) -> Iterator[tuple[str, Verdict, int]]:
    """Yield each rule that matches of one source break, with the verdict and the count."""
    few = min(_FEW, own.records)
    share = _SHARE * own.records
    points = math.ceil(size.numbers / 2)

    def by_chance(name: str) -> float:
        counts = [getattr(one, name) for one in control]
        if size.every > 1 and control:  # a sample without a match does not mean that there is none by chance
            return float(size.every * (sum(counts) + 1) / len(control))
        return float(max(counts, default=0))

    def exceeds_chance(name: str) -> bool:
        """What was measured in a sample is uncertain, so twice as much is still chance there."""
        return bool(getattr(own, name) > by_chance(name) * (2 if size.every > 1 else 1))

    def beyond(name: str, least: float) -> bool:
        return bool(getattr(own, name) >= least + _BY_CHANCE * by_chance(name))

    if own.exact:
        yield "gate.point", "deny", own.exact
    elif exceeds_chance("fine"):
        yield "gate.point", "deny" if beyond("fine", few) else "review", own.fine
    if exceeds_chance("rough"):
        many = beyond("rough", few) and own.rough >= min(share, _SHARE * points)
        yield "gate.point-rounded", "deny" if many else "review", own.rough
    if own.column and beyond("column", max(_COLUMN, share)):
        yield "gate.column", "deny", own.column
    if own.apart > max(own.exact, own.fine, own.rough) and beyond("apart", max(few, share)):
        yield "gate.point-apart", "deny", own.apart
    if own.alone and beyond("alone", 2 if own.alone < _SHARE * size.numbers else 1):
        yield "gate.coordinate", "review", own.alone
    if own.texts >= min(_FEW, own.passages) and own.texts:
        many = own.texts >= min(_COLUMN, own.passages) and own.texts >= _SHARE * min(own.passages, size.passages)
        yield "gate.text", "deny" if many else "review", own.texts


# ---------------------------------------------------------------------------------------------- the one-cell rule


def one_cell(body: bytes, resolution: int) -> ScanReport:
    """Return whether all geography of each masked feature comes from its one cell, and the cell is coarse enough.

    An id that occurs in two cells is found too. Anything but a feature collection, a feature or lines of features is
    denied.
    """
    found: dict[str, int] = {}
    shown: dict[str, str] = {}
    try:
        features = list(_features(body))
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, AttributeError, KeyError):
        return ScanReport(verdict="deny", leaks=(Leak(rule="gate.unreadable", count=1),))
    for one in features:
        rule = _fault_of(one, resolution, shown)
        if rule:
            found[rule] = found.get(rule, 0) + 1
    leaks = tuple(Leak(rule=rule, count=count) for rule, count in sorted(found.items()))
    return ScanReport(verdict="deny" if leaks else "clean", leaks=leaks)


def _features(body: bytes) -> Iterator[dict[str, Any]]:
    text = body.strip()
    lines = [text] if b"\n" not in text else text.splitlines()
    try:
        whole = msgspec.json.decode(text)
        lines = []
    except msgspec.DecodeError:
        whole = None
    for one in [whole] if not lines else map(msgspec.json.decode, lines):
        if one["type"] == "FeatureCollection":
            yield from one["features"]
        elif one["type"] == "Feature":
            yield one
        else:
            raise TypeError


def _fault_of(feature: Any, resolution: int, shown: dict[str, str]) -> str:
    """Return the rule that a feature breaks, or an empty text."""
    if not isinstance(feature, dict) or not isinstance(own := feature.get("properties"), dict):
        return "gate.unreadable"
    if set(feature) - {"type", "id", "bbox", "geometry", "properties"}:
        return "gate.member-unknown"
    cell = own.get("cell")
    identity = feature.get("id")
    if not isinstance(identity, str) or not isinstance(cell, str):
        return "gate.cell-missing"
    if shown.setdefault(identity, cell) != cell:
        return "gate.two-cells"
    if cell == WITHHELD:
        places = (feature.get("geometry"), feature.get("bbox"), own.get("centroid"))
        return "gate.place-beside-the-cell" if any(place is not None for place in places) else ""
    if not re.fullmatch(r"8[0-9a-f]{14}", cell) or not cells.library().is_valid_cell(number := int(cell, 16)):
        return "gate.cell-missing"
    if cells.resolution_of(number) > resolution or own.get("resolution") != cells.resolution_of(number):
        return "gate.cell-too-fine"
    shape = cells.shape_of(number)
    geometry = msgspec.json.decode(shape.geometry)
    same = (
        feature.get("geometry") == geometry
        and feature.get("bbox") == list(shape.bbox)
        and own.get("centroid") == list(shape.centroid)
    )
    return "" if same else "gate.place-beside-the-cell"


# ---------------------------------------------------------------------------------------------- too much hidden


class Hidden(Record, frozen=True):
    """How much of a table is hidden, by rule, and what was hidden beyond what the policy requires."""

    records: int
    by_rule: dict[str, int]
    values: dict[str, int]  # by public column: count of withheld values
    without_location: int
    coarser_than_needed: int  # count of cells coarser than policy, labels and the source's accuracy require


def over_masked(records: Iterable[PublicRecord], policy: Prepared) -> Hidden:
    """Return what a steward should review if masking hides more than intended."""
    count, nowhere, coarser = 0, 0, 0
    by_rule: dict[str, int] = {}
    values: dict[str, int] = {}
    for record in records:
        count += 1
        nowhere += not record.cell
        needed = min(policy.resolution, cells.coarse_enough(record.metres))
        coarser += record.resolution is not None and record.resolution < needed
        for rule in record.rules:
            by_rule[rule] = by_rule.get(rule, 0) + 1
        for name, value in record.attributes.items():
            if value == WITHHELD:
                values[name] = values.get(name, 0) + 1
    return Hidden(
        records=count,
        by_rule=dict(sorted(by_rule.items())),
        values=dict(sorted(values.items())),
        without_location=nowhere,
        coarser_than_needed=coarser,
    )
