"""Keyed fingerprints of protected values: they recognise a value and do not reveal it.

Without the key a fingerprint is a random number, so a list of fingerprints may be stored where the protected bytes may
not. An id is recognised in other case and punctuation, a point with fewer digits, rounded or cut off, an H3 cell
finer than the public one as a hexadecimal or decimal number, and free text by five words in a row. Reprojected
coordinates and paraphrased text are not recognised.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from kfm.errors import Denied
from kfm.masking import cells
from kfm.masking.fingerprint_set import SIZE, MarkCollector, Marks, unpacked
from kfm.masking.free_text import passages
from kfm.model.records import Record
from kfm.model.secret import SHORTEST, Secret

FEWEST, MOST = 2, 7  # decimal places at which a point is recognised: a kilometre, and a centimetre
ALONE = 4  # decimal places from which the coordinates of a column are recognised without the other column
LONGEST = 8  # most words of an id
FEWEST_WORDS = 4  # an id is searched in at least this many words: 14BO20 may be written 14-BO-20
_WORDS = re.compile(r"[^\W_]+")
_DEGREES = re.compile(r"([-+]?)([0-9]{1,3})(?:\.([0-9]*))?")
_blake2b = hashlib.blake2b
_TOGETHER = 4096  # points per batch of cells
Kind = Literal["id", "point", "latitude", "longitude", "near", "cell", "text"]


class _Stored(Record, frozen=True):
    """Fingerprints as the state stores them; the oldest states stored texts."""

    ids: bytes | frozenset[str] = b""
    points: bytes | frozenset[str] = b""
    singles: bytes | frozenset[str] = b""
    near: bytes | frozenset[str] = b""
    cells: bytes | frozenset[str] = b""
    texts: bytes = b""
    longest: int = FEWEST_WORDS
    lengths: frozenset[int] = frozenset()
    records: int = 0
    weak: int = 0
    alone: int = 5  # earlier states do not say it


class Fingerprints(NamedTuple):
    """The fingerprints of a custodian's protected records. Two sets under one key can be united."""

    ids: Marks = Marks()
    points: Marks = Marks()  # both coordinates, at each count of digits
    singles: Marks = Marks()  # one coordinate, at each count of digits that is telling alone
    near: Marks = Marks()  # at the fewest digits, alone and together: to rule out other numbers quickly
    cells: Marks = Marks()  # finer than the public ones
    texts: Marks = Marks()  # five words in a row of withheld free text
    longest: int = FEWEST_WORDS  # the most words that an id is searched in
    lengths: frozenset[int] = frozenset()  # lengths of ids in characters
    records: int = 0  # count of protected points
    weak: int = 0  # count of ids that are too short to be recognised
    alone: int = ALONE  # the fewest decimal places of `singles`
    united: tuple[Fingerprints, ...] = ()  # the sources, if these are those of several

    @property
    def sources(self) -> tuple[Fingerprints, ...]:
        """The fingerprints of each source: how much of a table is enough depends on the size of that table."""
        return self.united or (self,)

    def __or__(self, other: Fingerprints) -> Fingerprints:
        return Fingerprints(
            ids=self.ids | other.ids,
            points=self.points | other.points,
            singles=self.singles | other.singles,
            near=self.near | other.near,
            cells=self.cells | other.cells,
            texts=self.texts | other.texts,
            longest=max(self.longest, other.longest),
            lengths=self.lengths | other.lengths,
            records=self.records + other.records,
            weak=self.weak + other.weak,
            alone=max(self.alone, other.alone),
            united=tuple(one for one in (*self.sources, *other.sources) if one != _NONE),
        )

    def stored(self) -> bytes:
        """Return the stored form of one source's fingerprints, always the same bytes."""
        parts = {name: getattr(self, name).packed() for name in _SETS}
        rest = ("longest", "lengths", "records", "weak", "alone")
        return _encode(_Stored(**parts, **{name: getattr(self, name) for name in rest}))


def of_stored(body: bytes) -> Fingerprints:
    kept = msgspec.json.decode(body, type=_Stored)
    return Fingerprints(
        ids=unpacked(kept.ids),
        points=unpacked(kept.points),
        singles=unpacked(kept.singles),
        near=unpacked(kept.near),
        cells=unpacked(kept.cells),
        texts=unpacked(kept.texts),
        longest=kept.longest,
        lengths=kept.lengths,
        records=kept.records,
        weak=kept.weak,
        alone=kept.alone,
    )


_NONE = Fingerprints()
_SETS = ("ids", "points", "singles", "near", "cells", "texts")
_encode = msgspec.json.Encoder(order="deterministic").encode


class Marker:
    """Makes fingerprints under one key."""

    __slots__ = ("_key",)

    def __init__(self, key: Secret) -> None:
        if len(key.reveal()) < SHORTEST:
            raise Denied(
                "the key for fingerprints is too short", hint=f"give at least {SHORTEST} bytes", rule="gate.key-short"
            )
        self._key = hashlib.sha256(b"kfm:fingerprint:1\0" + key.reveal()).digest()

    def mark(self, kind: Kind, text: str) -> int:
        body = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
        return int.from_bytes(_blake2b(body, key=self._key, digest_size=12).digest()[:SIZE], "big")

    def of(
        self,
        ids: Iterable[str],
        points: Iterable[tuple[str, str]],
        *,
        finer_than: int,
        texts: Iterable[str] = (),
    ) -> Fingerprints:
        """Return the fingerprints of protected ids, of points, given as texts of latitude and longitude, and of free
        text; `finer_than` is the public resolution. All are read once, and only fingerprints stay in memory."""
        known, waiting = MarkCollector(), iter(ids)
        lengths: set[int] = set()
        longest, weak = FEWEST_WORDS, 0
        while some := list(islice(waiting, _TOGETHER)):
            bodies = []
            for one in some:
                words = words_of(one)[:LONGEST]  # the rest of a very long id is not searched
                plain = "".join(words)
                if is_weak(plain):
                    weak += 1
                    continue
                bodies.append(f"id\0{plain}".encode("utf-8", "surrogatepass"))
                lengths.add(len(plain))
                longest = max(longest, len(words))
            self._keep(bodies, known)
        places = self._places(iter(points), finer_than)
        said, reading = MarkCollector(), (passage for text in texts for passage in passages(text))
        while some := list(islice(reading, _TOGETHER)):
            self._keep([f"text\0{one}".encode("utf-8", "surrogatepass") for one in some], said)
        return Fingerprints(
            ids=known.sorted(),
            points=places.points.sorted(),
            singles=places.singles.sorted(),
            near=places.near.sorted(),
            cells=places.cells.sorted(),
            texts=said.sorted(),
            longest=longest,
            lengths=frozenset(lengths),
            records=len(places.pairs.sorted()),
            weak=weak,
        )

    def _keep(self, bodies: list[bytes], heap: MarkCollector) -> None:
        """Add the fingerprints of many texts at once. The code is inline, because a call would cost as much as the
        hash."""
        key, blake2b = self._key, hashlib.blake2b
        heap.add(b"".join([blake2b(body, key=key, digest_size=12).digest()[:SIZE] for body in bodies]))

    def _places(self, points: Iterator[tuple[str, str]], finer_than: int) -> _Places:
        found = _Places(MarkCollector(), MarkCollector(), MarkCollector(), MarkCollector(), MarkCollector())
        while some := set(islice(points, _TOGETHER)):
            pairs = []
            written = []
            for latitude, longitude in some:
                lat, lng = degrees_of(latitude), degrees_of(longitude)
                if lat is not None and lng is not None:
                    pairs.append((lat, lng))
                    written.append(f"{latitude}\0{longitude}".encode())
            bodies: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
            for lat, lng in pairs:
                _bodies(lat, lng, *bodies)
            self._keep(bodies[0], found.points)
            self._keep(bodies[1], found.singles)
            self._keep(bodies[2], found.near)
            self._keep(written, found.pairs)
            self._keep(_cells_of(pairs, finer_than), found.cells)
        return found


class _Places(NamedTuple):
    points: MarkCollector
    singles: MarkCollector
    near: MarkCollector
    cells: MarkCollector
    pairs: MarkCollector  # the points themselves, for counting


def _bodies(
    latitude: Degrees, longitude: Degrees, points: list[bytes], singles: list[bytes], near: list[bytes]
) -> None:
    """Append the texts whose fingerprints identify a point: all forms of its latitude and longitude, alone and
    together."""
    lat_cuts, lng_cuts = {latitude.cut()}, {longitude.cut()}
    for digits in range(FEWEST, MOST + 1):
        lats, lngs = latitude.forms(digits), longitude.forms(digits)
        below = 10 ** (digits - FEWEST)
        lat_cuts.update([cut_of(form, below) for form in lats])
        lng_cuts.update([cut_of(form, below) for form in lngs])
        points += [b"point\0%d:%d:%d" % (digits, a, b) for a in lats for b in lngs]
        if digits >= ALONE:
            singles += [b"latitude\0%d:%d" % (digits, a) for a in lats]
            singles += [b"longitude\0%d:%d" % (digits, b) for b in lngs]
    near += [b"near\0lat:" + a for a in lat_cuts]
    near += [b"near\0lng:" + b for b in lng_cuts]
    near += [b"near\0" + a + b":" + b for a in lat_cuts for b in lng_cuts]


def _cells_of(pairs: list[tuple[Degrees, Degrees]], finer_than: int) -> list[bytes]:
    places = [(lat.value(), lng.value()) for lat, lng in pairs]
    on_earth = [(lat, lng) for lat, lng in places if abs(lat) <= 90 and abs(lng) <= 180]
    if not on_earth:
        return []
    latitudes, longitudes = zip(*on_earth, strict=True)
    return [
        b"cell\0%x" % cell
        for resolution in range(finer_than + 1, 16)
        for cell in cells.cells_of(latitudes, longitudes, resolution)
    ]


def words_of(text: str) -> list[str]:
    """Return the words of an id in lower case: 14-BO-20, 14BO20 and 14bo20 then have the same characters in
    sequence."""
    return _WORDS.findall(unicodedata.normalize("NFKC", text).casefold())


def is_weak(plain: str) -> bool:
    """Return whether an id is so short that it occurs in any text: only its point and its neighbours protect such a
    record."""
    return len(plain) < 4 or (plain.isdigit() and len(plain) < 6)


class Degrees(NamedTuple):
    """A number of degrees as it was written. It is never converted to a float, which would change its digits."""

    negative: bool
    number: int  # all its digits, without decimal point and sign
    places: int  # count of decimal places

    def forms(self, digits: int) -> tuple[int, ...]:
        """Return the number at this count of decimal places, rounded either way or cut off, as integers of the last
        digit."""
        if digits >= self.places:
            exact = self.number * 10 ** (digits - self.places)
            return (-exact if self.negative else exact,)
        unit = 10 ** (self.places - digits)
        down, rest = divmod(self.number, unit)
        # A half is rounded up or to the even digit; both are among the two results.
        if 2 * rest < unit:
            return (-down if self.negative else down,)
        return (-down, -down - 1) if self.negative else (down, down + 1)

    def nearest(self, digits: int) -> int:
        """Return the number rounded to this count of decimal places, as an integer of the last digit."""
        rounded: int
        if digits >= self.places:
            rounded = self.number * 10 ** (digits - self.places)
        else:
            unit = 10 ** (self.places - digits)
            rounded = (self.number + unit // 2) // unit
        return -rounded if self.negative else rounded

    def common_form(self, digits: int) -> int:
        """Return the number cut off at this count of decimal places, or rounded up if the next place is a nine: among
        the forms of every number that is within a tenth of the last digit."""
        unit: int = 10 ** max(self.places - digits, 0)
        down, rest = divmod(self.number, unit)
        form = down + (10 * rest >= 9 * unit)
        return -form if self.negative else form

    def cut(self) -> bytes:
        """Return the number cut off after the fewest digits, with its sign: the lookup key of all its forms."""
        scaled = self.number * 10**FEWEST // 10**self.places
        return b"%s%d.%02d" % (b"-" if self.negative else b"", *divmod(scaled, 10**FEWEST))

    def value(self) -> float:
        value: float = self.number / 10**self.places
        return -value if self.negative else value


def degrees_of(text: str) -> Degrees | None:
    """Return the parsed number of degrees; None if it is not one."""
    plain = text.strip()
    if len(plain) > 40:
        return None
    found = _DEGREES.fullmatch(plain)
    if found is None:
        return None
    sign, whole, fraction = found[1], found[2], found[3] or ""
    return Degrees(sign == "-", int(whole + fraction), len(fraction))


@lru_cache(maxsize=1 << 16)
def _written(scaled: int) -> bytes:
    return b"%s%d.%02d" % (b"-" if scaled < 0 else b"", *divmod(abs(scaled), 10**FEWEST))


def cut_of(form: int, below: int) -> bytes:
    """Return a number of degrees, cut off to the fewest decimal places that are compared. `form` counts units of the
    last decimal place, and `below` of them are one unit of the result."""
    return _written(form // below if form >= 0 else -(-form // below))
