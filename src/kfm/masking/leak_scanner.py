"""The leak scanner compares bytes with the fingerprints, and checks the one-cell rule, before anything is published.

`scan` searches any text (CSV, JSON, GeoJSON, NDJSON, prose) for protected ids, points and fine cells. A file that
cannot be read is denied. `over_masked` reports values that were hidden without need, because data that hides everything
is useless.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from kfm.masking import cells
from kfm.masking.fingerprints import ALONE, FEWEST, MOST, Degrees, Fingerprints, Marker, degrees_of, is_weak, words_of
from kfm.masking.mask import Prepared
from kfm.masking.public_record import WITHHELD, PublicRecord
from kfm.model.records import Record

Verdict = Literal["clean", "review", "deny"]
LARGEST = 1 << 30  # bytes that a decompressed file may have
_FINE = 4  # decimal places from which a single match is not a coincidence
_SHARE = 0.2  # share of protected or scanned points from which rough matches are not a coincidence
_FEW = 3
_BACK = 16  # how many numbers back the other coordinate may be
_APART = 4096  # characters that may be between the two
_NUMBER = re.compile(r"(?<![\w.])[-+\u2212]?[0-9]{1,3}(?:\.[0-9]{1,25})?(?![\w.]*[\w])")
_CELL = re.compile(r"(?<![0-9a-fA-F])(?:8[0-9a-fA-F]{14}|[0-9]{18,19})(?![0-9a-fA-F])")
_BETWEEN = re.compile(r"[\s,;:\"'{}\[\]()<>]")
_STRETCH = 1 << 20  # characters that are split into words at once
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|%([0-9a-fA-F]{2})")


class Leak(Record, frozen=True):
    """A rule and how often it was broken; never the place or the value."""

    rule: str
    count: int


class ScanReport(Record, frozen=True):
    verdict: Verdict
    leaks: tuple[Leak, ...] = ()


class _Matches(NamedTuple):
    ids: set[int]
    cells: set[int]
    points: dict[int, set[int]]  # by digits
    singles: set[int]
    numbers: int  # count of different numbers with a decimal point


def scan(body: bytes, known: Fingerprints, marker: Marker) -> ScanReport:
    """Return whether these bytes contain anything protected. The name of the file plays no part."""
    text = _text(body)
    if text is None:
        return ScanReport(verdict="deny", leaks=(Leak(rule="gate.unreadable", count=1),))
    return _judged(_search(text, known, marker), known)


def _text(body: bytes) -> str | None:
    """Return the file as text; None if it is not text."""
    if body[:2] == b"\x1f\x8b":
        body = _unpacked(body) or b"\0"
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            text = body.decode("utf-16")
        except UnicodeDecodeError:
            return None
    elif b"\0" in body:
        return None
    else:
        text = body.decode("utf-8", "replace")
    return _ESCAPED.sub(lambda found: chr(int(found[1] or found[2], 16)), text)


def _unpacked(body: bytes) -> bytes | None:
    """Return the content of all members of a gzip file; None if it is broken, cut off or too large."""
    out = bytearray()
    while body:
        reader = zlib.decompressobj(wbits=31)
        try:
            out += reader.decompress(body, LARGEST - len(out))
        except zlib.error:
            return None
        if not reader.eof or len(out) >= LARGEST:
            return None
        body = reader.unused_data.lstrip(b"\0")
    return bytes(out)


# ---------------------------------------------------------------------------------------------- search


def _search(text: str, known: Fingerprints, marker: Marker) -> _Matches:
    points: dict[int, set[int]] = {}
    singles: set[int] = set()
    numbers = _numbers(text, known, marker, points, singles) if known.near else 0
    fine = set()
    if known.cells:
        marks = (marker.mark("cell", f"{cell:x}") for cell in {_cell(found[0]) for found in _CELL.finditer(text)})
        fine = {mark for mark in marks if mark in known.cells}
    ids = set(_ids(text, known, marker)) if known.ids else set()
    return _Matches(ids, fine, points, singles, numbers)


def _cell(token: str) -> int:
    return int(token, 16 if len(token) == 15 else 10)


def _ids(text: str, known: Fingerprints, marker: Marker) -> Iterator[int]:
    """Yield marks of protected ids: every sequence of words that is as long as one of them. Words take many times the
    memory of the text, so the text is split in stretches, each with the last words of the one before."""
    words: list[str] = []
    for stretch in _stretches(text):
        words = words[1 - known.longest :] + words_of(stretch)
        yield from _ids_of(words, known, marker)


def _stretches(text: str) -> Iterator[str]:
    """Yield the text in parts that end between words."""
    start = 0
    while start < len(text):
        found = _BETWEEN.search(text, min(start + _STRETCH, len(text)))
        end = found.end() if found else len(text)
        yield text[start:end]
        start = end


def _ids_of(words: list[str], known: Fingerprints, marker: Marker) -> Iterator[int]:
    lengths, longest, most = known.lengths, max(known.lengths), known.longest
    sizes = [len(word) for word in words] + [longest + 1]  # longer than any id: ends every sequence
    tried: set[str] = set()
    for at, size in enumerate(sizes):
        end = at + 1
        while size <= longest:
            if size in lengths:
                plain = "".join(words[at:end])
                if plain not in tried and not is_weak(plain):
                    tried.add(plain)
                    mark = marker.mark("id", plain)
                    if mark in known.ids:
                        yield mark
            if end - at == most:
                break
            size += sizes[end]
            end += 1


class _Number(NamedTuple):
    value: Degrees
    digits: int
    at: int
    cut: str
    latitude: bool  # at the fewest digits it matches a protected latitude
    longitude: bool


class _Near:
    """Decides, with a cache, which numbers and pairs of numbers may belong to a protected point."""

    def __init__(self, known: Fingerprints, marker: Marker) -> None:
        self.known, self.marker = known.near, marker
        self.numbers: dict[str, tuple[str, bool, bool]] = {}
        self.pairs: dict[tuple[str, str], bool] = {}

    def number(self, short: str) -> tuple[str, bool, bool]:
        found = self.numbers.get(short)
        if found is None:
            value = degrees_of(short)
            said = value.cut().decode() if value is not None else ""
            found = self.numbers[short] = (said, self._has(f"lat:{said}"), self._has(f"lng:{said}"))
        return found

    def pair(self, lat: str, lng: str) -> bool:
        found = self.pairs.get((lat, lng))
        if found is None:
            found = self.pairs[lat, lng] = self._has(f"{lat}:{lng}")
        return found

    def _has(self, text: str) -> bool:
        return self.marker.mark("near", text) in self.known


def _numbers(text: str, known: Fingerprints, marker: Marker, points: dict[int, set[int]], singles: set[int]) -> int:
    """Search for points: each number near a protected one, together with each number shortly before it."""
    near = _Near(known, marker)
    last: deque[_Number] = deque(maxlen=_BACK)
    different: set[str] = set()
    for found in _NUMBER.finditer(text):
        said = found[0].replace("\u2212", "-")
        whole, _, fraction = said.partition(".")
        short, latitude, longitude = near.number(f"{whole}.{fraction[:FEWEST]}")
        new = bool(fraction) and said not in different
        if new:
            different.add(said)
        if not (latitude or longitude):
            continue
        value = degrees_of(said)
        if value is None:
            continue
        number = _Number(value, len(fraction), found.start(), short, latitude, longitude)
        if new and number.digits >= ALONE:
            singles |= _alone(number, known, marker)
        for other in last:
            if number.at - other.at > _APART:
                continue
            if other.latitude and longitude and near.pair(other.cut, short):
                _pair(other, number, known, marker, points)
            if latitude and other.longitude and near.pair(short, other.cut):
                _pair(number, other, known, marker, points)
        last.append(number)
    return len(different)


def _alone(number: _Number, known: Fingerprints, marker: Marker) -> set[int]:
    digits = min(number.digits, MOST)
    marks = {marker.mark(kind, f"{digits}:{form}") for form in number.value.forms(digits) for kind in _KINDS}
    return {mark for mark in marks if mark in known.singles}


_KINDS: tuple[Literal["latitude"], Literal["longitude"]] = ("latitude", "longitude")


def _pair(lat: _Number, lng: _Number, known: Fingerprints, marker: Marker, points: dict[int, set[int]]) -> None:
    """Compare a pair at the digits of the longer and of the shorter number, because a final zero is often omitted."""
    for digits in {_between(max(lat.digits, lng.digits)), _between(min(lat.digits, lng.digits))}:
        for a in lat.value.forms(digits):
            for b in lng.value.forms(digits):
                mark = marker.mark("point", f"{digits}:{a}:{b}")
                if mark in known.points:
                    points.setdefault(digits, set()).add(mark)


def _between(digits: int) -> int:
    return max(FEWEST, min(digits, MOST))


def _judged(found: _Matches, known: Fingerprints) -> ScanReport:
    """Return the verdict. Ids, fine cells and fine points are never a coincidence; rough points are, unless there are
    many."""
    exact = {mark for digits, marks in found.points.items() if digits >= _FINE for mark in marks}
    rough = {mark for digits, marks in found.points.items() if digits < _FINE for mark in marks}
    leaks = [
        Leak(rule=rule, count=len(marks))
        for rule, marks in (
            ("gate.id", found.ids),
            ("gate.cell", found.cells),
            ("gate.point", exact),
            ("gate.point-rounded", rough),
            ("gate.coordinate", found.singles),
        )
        if marks
    ]
    if not leaks:
        return ScanReport(verdict="clean")
    certain = found.ids or found.cells or exact
    many = any(_many(len(marks), known.records, found.numbers) for marks in (rough, found.singles))
    return ScanReport(verdict="deny" if certain or many else "review", leaks=tuple(leaks))


def _many(hits: int, protected: int, numbers: int) -> bool:
    if hits < min(_FEW, protected):
        return False
    return hits >= _SHARE * protected or hits >= _SHARE * math.ceil(numbers / 2)


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
