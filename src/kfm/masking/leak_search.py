"""Searches text for protected ids, cells, coordinates and passages, and counts what matches. It does not judge.

A number is compared as latitude and as longitude, with either sign, and from 0 to 360. Two numbers near each other in
a text are compared as a point within 1e-4 degrees, or rounded to two or three decimals where no more are written. All
numbers of all texts are also compared as columns (within 1e-5 degrees), and, while they are few, as points whose two
coordinates may be anywhere.

A search with a shift adds a small constant to every number. A copy no longer matches then; what still matches shows how
much matches by chance.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from kfm.masking.fingerprint_set import Marks
from kfm.masking.fingerprints import (
    ALONE,
    FEWEST,
    MOST,
    Degrees,
    Fingerprints,
    Kind,
    Marker,
    cut_of,
    is_weak,
    words_of,
)
from kfm.masking.free_text import passages
from kfm.masking.notations import decimal_degrees
from kfm.masking.tile_grid import Places

FINE = 4  # decimal places from which a point is compared within one unit of the fourth place
EXACT = 5  # decimal places from which one equal point is no coincidence
MOST_APART = 800  # different latitudes and longitudes that are compared each with each
MOST_DIFFERENT = 1 << 19  # different numbers that are counted
_BACK = 6  # how many possible coordinates back the other one may be
_APART = 4096  # characters that may be between the two
_STRETCH = 1 << 20  # characters that are searched at once
_NUMBER = re.compile(r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,25})?(?!\.?\w)")
_CELL = re.compile(r"(?<![0-9a-fA-F])(?:8[0-9a-fA-F]{14}|[0-9]{18,19})(?![0-9a-fA-F])")
_BETWEEN = re.compile(r"[\s,;:\"'{}\[\]()<>]")
_EDGES = frozenset(("00", "99"))  # third and fourth decimal: the neighbour at two decimals is as near
_KEPT = 1 << 16  # numbers whose readings are kept
_PLACES = 9  # decimal places of a coordinate that was computed
_WRITTEN = 24  # characters of a point, if it were text

Hits = dict[tuple[int, ...], frozenset[int]]  # what was scanned: the fingerprints that it matched


def distinct(hits: Hits, among: Marks) -> int:
    """Return how many different protected values matched. One value has several fingerprints, and several scanned
    numbers may match it."""
    seen: set[int] = set()
    count = 0
    for marks in hits.values():
        own = [mark for mark in marks if mark in among]
        count += bool(own) and seen.isdisjoint(own)
        seen.update(own)
    return count


class _Reading(NamedTuple):
    """One way in which a number may be a coordinate."""

    negative: bool
    wraps: bool  # written from 0 to 360
    cuts: tuple[str, ...]  # at the fewest digits, as the fingerprints have them


class _Coordinate(NamedTuple):
    value: Degrees
    digits: int
    cuts: tuple[str, ...]


class _Number(NamedTuple):
    latitudes: tuple[_Coordinate, ...]
    longitudes: tuple[_Coordinate, ...]


class _Last:
    """The last possible coordinates of a text, with where they are."""

    def __init__(self) -> None:
        self.latitudes: deque[tuple[int, tuple[_Coordinate, ...]]] = deque(maxlen=_BACK)
        self.longitudes: deque[tuple[int, tuple[_Coordinate, ...]]] = deque(maxlen=_BACK)


class Search:
    """What matched in the texts that were added."""

    def __init__(self, known: Fingerprints, marker: Marker, shift: int = 0, every: int = 1) -> None:
        """With `every`, only each so-manieth stretch of the texts is searched: enough to estimate chance."""
        self.known, self.marker, self.shift, self.every = known, marker, shift, every
        self.size = 0  # characters that were added
        self._stretches = 0
        self.ids: set[int] = set()
        self.cells: set[int] = set()
        self.exact: Hits = {}
        self.fine: Hits = {}
        self.rough: Hits = {}
        self.latitudes: Hits = {}
        self.longitudes: Hits = {}
        self.alone: Hits = {}
        self.texts: Hits = {}
        self.passages: set[int] = set()
        self._different: set[str] = set()
        self._near: dict[str, tuple[tuple[_Reading, ...], tuple[_Reading, ...]] | None] = {}
        self._pairs: dict[tuple[str, str], bool] = {}
        self._read: dict[str, _Number] = {}
        self._snapped: dict[tuple[str, float, int], _Coordinate | None] = {}
        self._apart: tuple[dict[int, _Coordinate], dict[int, _Coordinate]] = ({}, {})

    @property
    def numbers(self) -> int:
        """Count of different numbers with a decimal point."""
        return len(self._different)

    def add(self, text: str) -> None:
        last = _Last()
        words: list[str] = []
        start = 0
        for stretch in _stretches(text):
            self.size += len(stretch)
            self._stretches += 1
            if self._stretches % self.every:
                continue
            if self.known.near:
                self._numbers(stretch, start, last)
                for other in decimal_degrees(stretch):
                    self._numbers(other, 0, _Last())
            if not self.shift:
                words = words[1 - self.known.longest :] + (words_of(stretch) if self.known.ids else [])
                self._words(stretch, words)
            start += len(stretch)

    def _words(self, stretch: str, words: list[str]) -> None:
        known, marker = self.known, self.marker
        if known.ids:
            self.ids.update(_ids_of(words, known, marker))
        if known.cells:
            for cell in {_cell(found[0]) for found in _CELL.finditer(stretch)}:
                if (mark := marker.mark("cell", f"{cell:x}")) in known.cells:
                    self.cells.add(mark)
        if known.texts:
            for passage in passages(stretch):
                mark = marker.mark("text", passage)
                self.passages.add(mark)
                if mark in known.texts:
                    self.texts[mark,] = frozenset((mark,))

    # -- places of map tiles

    def add_places(self, places: Places) -> None:
        """Compare points that are known to so many digits as points of that many decimal places."""
        self.size += _WRITTEN * len(places.points)
        self._stretches += 1
        if self._stretches % self.every or not self.known.near:
            return
        for latitude, longitude in places.points:
            lat = self._placed("lat", latitude, places.digits)
            lng = self._placed("lng", longitude, places.digits)
            if lat and lng:
                self._point((lat,), (lng,))

    def _placed(self, kind: str, degrees: float, digits: int) -> _Coordinate | None:
        """Return one coordinate of a place; None if no protected one is near it."""
        key = kind, degrees, digits
        if key in self._snapped:
            return self._snapped[key]
        number = round(degrees * 10**_PLACES) + self.shift * 10 ** (_PLACES - min(digits, FINE))
        value = Degrees(number < 0, abs(number), _PLACES)
        forms = [(form, digits) for form in value.forms(digits)]
        if digits >= FINE:
            forms += [(value.nearest(FINE) + by, FINE) for by in (-1, 1)]
        cuts = {cut_of(form, 10 ** (places - FEWEST)).decode() for form, places in forms}
        own = tuple(cut for cut in sorted(cuts) if self.marker.mark("near", f"{kind}:{cut}") in self.known.near)
        found = _Coordinate(value, digits, own) if own else None
        if len(self._different) < MOST_DIFFERENT:
            self._different.add(f"{kind}{digits}:{value.nearest(digits)}")
        if found is not None:
            is_lat = kind == "lat"
            hits, apart = (self.latitudes, self._apart[0]) if is_lat else (self.longitudes, self._apart[1])
            self._column((found,), "latitude" if is_lat else "longitude", hits, apart)
        if len(self._snapped) < _KEPT:
            self._snapped[key] = found
        return found

    # -- numbers

    def _numbers(self, text: str, start: int, last: _Last) -> None:
        near, different, shift = self._near, self._different, self.shift
        for found in _NUMBER.finditer(text):
            said = found[0]
            if shift:
                said = _shifted(said, shift)
            whole, _, fraction = said.partition(".")
            key = f"{whole}.{fraction[: 4 if fraction[2:4] in _EDGES else 2]}"
            try:
                readings = near[key]
            except KeyError:
                readings = near[key] = self._readings(key)
            if fraction and len(different) < MOST_DIFFERENT:
                different.add(said)
            if readings is None:
                continue
            at = start + found.start()
            number = self._read.get(said) or self._number(said, readings)
            if number.latitudes:
                for place, others in last.longitudes:
                    if at - place <= _APART:
                        self._point(number.latitudes, others)
                last.latitudes.append((at, number.latitudes))
            if number.longitudes:
                for place, others in last.latitudes:
                    if at - place <= _APART:
                        self._point(others, number.longitudes)
                last.longitudes.append((at, number.longitudes))

    def _readings(self, key: str) -> tuple[tuple[_Reading, ...], tuple[_Reading, ...]] | None:
        """Return how a number that begins like this may be a latitude and a longitude that is protected; None if it
        cannot."""
        whole, _, fraction = key.partition(".")
        low = high = int(whole + fraction.ljust(4, "0"))
        if len(fraction) == 2:
            high += 99
        elif len(fraction) == 4:
            low, high = max(low - 1, 0), high + 2
        latitudes = self._kind("lat", low, high, False) if low <= 90_0000 else []
        longitudes = self._kind("lng", low, high, False) if low <= 180_0000 else []
        if high > 180_0000 and low <= 360_0000:
            longitudes += self._kind("lng", max(360_0000 - high, 0), 360_0000 - low, True)
        return (tuple(latitudes), tuple(longitudes)) if latitudes or longitudes else None

    def _kind(self, kind: str, low: int, high: int, wraps: bool) -> list[_Reading]:
        found = []
        for sign in ("", "-"):
            cuts = [f"{sign}{cut // 100}.{cut % 100:02d}" for cut in range(low // 100, high // 100 + 1)]
            own = tuple(cut for cut in cuts if self.marker.mark("near", f"{kind}:{cut}") in self.known.near)
            if own:
                found.append(_Reading(sign == "-", wraps, own))
        return found

    def _number(self, said: str, readings: tuple[tuple[_Reading, ...], tuple[_Reading, ...]]) -> _Number:
        whole, _, fraction = said.partition(".")
        number, digits = int(whole + fraction), len(fraction)
        latitudes, longitudes = (
            tuple([_Coordinate(_value(number, digits, one), digits, one.cuts) for one in side]) for side in readings
        )
        found = _Number(latitudes, longitudes)
        self._column(latitudes, "latitude", self.latitudes, self._apart[0])
        self._column(longitudes, "longitude", self.longitudes, self._apart[1])
        if len(self._read) < _KEPT:
            self._read[said] = found
        return found

    def _column(self, side: tuple[_Coordinate, ...], kind: Kind, hits: Hits, apart: dict[int, _Coordinate]) -> None:
        """Compare one number with the protected values of a column."""
        for value, digits, cuts in side:
            if len(apart) <= MOST_APART:
                apart.setdefault(value.nearest(MOST), _Coordinate(value, digits, cuts))
            if digits < ALONE or not self._is_in_column(value, digits, kind):
                continue
            if digits > ALONE:
                nearest = value.nearest(ALONE + 1)
                tried = [f"{ALONE + 1}:{nearest + by}" for by in (-1, 0, 1)]
            else:
                nearest = value.nearest(ALONE)
                tried = [f"{ALONE}:{nearest}"]
            if marks := self._single(kind, tried):
                hits[digits > ALONE, nearest] = marks
                if digits > ALONE + 1 and (same := self._single(kind, [_exactly(value, min(digits, MOST))])):
                    self.alone[value.nearest(MOST),] = same

    def _is_in_column(self, value: Degrees, digits: int, kind: Kind) -> bool:
        """Return whether a value may be protected: one look at four decimals rules out most others. Fingerprints of
        earlier states do not have that many decimals."""
        if digits <= ALONE or self.known.alone > ALONE:
            return True
        form = value.common_form(ALONE)
        return self.marker.mark(kind, f"{ALONE}:{form}") in self.known.singles

    def _single(self, kind: Kind, tried: list[str]) -> frozenset[int]:
        marks = [self.marker.mark(kind, one) for one in tried]
        return frozenset(mark for mark in marks if mark in self.known.singles)

    # -- points

    def _point(self, latitudes: tuple[_Coordinate, ...], longitudes: tuple[_Coordinate, ...]) -> None:
        for lat in latitudes:
            for lng in longitudes:
                if self._may_be(lat.cuts, lng.cuts):
                    self._compare(lat, lng, self.exact, self.fine, self.rough)

    def _may_be(self, lats: tuple[str, ...], lngs: tuple[str, ...]) -> bool:
        pairs = self._pairs
        for pair in [(lats[0], lngs[0])] if len(lats) == len(lngs) == 1 else product(lats, lngs):
            known = pairs.get(pair)
            if known is None:
                known = pairs[pair] = self.marker.mark("near", f"{pair[0]}:{pair[1]}") in self.known.near
            if known:
                return True
        return False

    def _compare(self, lat: _Coordinate, lng: _Coordinate, exact: Hits, fine: Hits, rough: Hits) -> None:
        most, least = max(lat.digits, lng.digits), min(lat.digits, lng.digits)
        if most < FINE:
            if most < FEWEST or not least:
                return  # such numbers are in every table
            for digits in {max(FEWEST, most), max(FEWEST, least)}:
                for a, b in product(lat.value.forms(digits), lng.value.forms(digits)):
                    self._match(digits, [(a, b)], (digits, a, b), rough)
            return
        a, b = lat.value.nearest(FINE), lng.value.nearest(FINE)
        around = [(a + i, b + j) for i in (0, -1, 1) for j in (0, -1, 1)]
        if self._match(FINE, around, (a, b), fine) and most >= EXACT and least >= FINE:
            digits = min(most, MOST)
            forms = list(product(lat.value.forms(digits), lng.value.forms(digits)))
            self._match(digits, forms, (digits, *forms[0]), exact)

    def _match(self, digits: int, points: list[tuple[int, int]], key: tuple[int, ...], hits: Hits) -> bool:
        marks = [self.marker.mark("point", f"{digits}:{a}:{b}") for a, b in points]
        found = frozenset(mark for mark in marks if mark in self.known.points)
        if found:
            hits[key] = found
        return bool(found)

    def apart(self) -> Hits:
        """Return the points whose two coordinates are anywhere in the texts; none if there are too many numbers to
        compare each with each. The columns are compared in any case."""
        latitudes, longitudes = self._apart
        hits: Hits = {}
        if len(latitudes) > MOST_APART or len(longitudes) > MOST_APART:
            return hits
        for lat in latitudes.values():
            for lng in longitudes.values():
                if self._may_be(lat.cuts, lng.cuts):
                    self._compare(lat, lng, {}, hits, hits)
        return hits


def _value(number: int, places: int, reading: _Reading) -> Degrees:
    return Degrees(reading.negative, 360 * 10**places - number if reading.wraps else number, places)


def _exactly(value: Degrees, digits: int) -> str:
    return f"{digits}:{value.nearest(digits)}"


def _shifted(said: str, shift: int) -> str:
    """Return a number some units of its last place away, or of the fourth place if it has more."""
    whole, _, fraction = said.partition(".")
    places = len(fraction)
    moved = int(whole + fraction) + shift * 10 ** (places - min(places, 4))
    units, rest = divmod(abs(moved), 10**places)
    return f"{units}.{rest:0{places}d}" if places else str(units)


def _cell(token: str) -> int:
    return int(token, 16 if len(token) == 15 else 10)


def _stretches(text: str) -> Iterator[str]:
    """Yield parts of a text that end between words."""
    start = 0
    while start < len(text):
        found = _BETWEEN.search(text, min(start + _STRETCH, len(text)))
        end = found.end() if found else len(text)
        yield text[start:end]
        start = end


def _ids_of(words: list[str], known: Fingerprints, marker: Marker) -> Iterator[int]:
    """Yield marks of protected ids: every sequence of words that is as long as one of them."""
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
