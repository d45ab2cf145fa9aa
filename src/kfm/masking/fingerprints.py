"""Keyed fingerprints of what is protected: enough to know it again, nothing to read it from.

Without the key a fingerprint is a random number; so a list of them may lie where the protected bytes may not. An id is
known again in other letters and with other marks in it, a point with fewer digits, rounded or cut off, and an H3 cell
finer than what is public as hexadecimal or decimal number. Reprojected coordinates and what was typed anew in other
words are not known again.
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
from kfm.masking.fingerprint_set import SIZE, Heap, Marks, unpacked
from kfm.model.records import Record
from kfm.model.secret import SHORTEST, Secret

FEWEST, MOST = 2, 7  # digits of a degree that a point is known by: a kilometre, and a centimetre
ALONE = 5  # digits from which on one coordinate without the other says something
LONGEST = 8  # words of an id
FEWEST_WORDS = 4  # that an id is looked for in: 14BO20 may be written 14-BO-20
_WORDS = re.compile(r"[^\W_]+")
_DEGREES = re.compile(r"([-+]?)([0-9]{1,3})(?:\.([0-9]*))?")
_TOGETHER = 4096  # points whose cells are asked for at once
Kind = Literal["id", "point", "latitude", "longitude", "near", "cell"]


class _Stored(Record, frozen=True):
    """Fingerprints as the state keeps them; the first states kept texts."""

    ids: bytes | frozenset[str] = b""
    points: bytes | frozenset[str] = b""
    singles: bytes | frozenset[str] = b""
    near: bytes | frozenset[str] = b""
    cells: bytes | frozenset[str] = b""
    longest: int = FEWEST_WORDS
    lengths: frozenset[int] = frozenset()
    records: int = 0
    weak: int = 0


class Fingerprints(NamedTuple):
    """What is known of the protected records of a custodian. Two lists of one key may be put together."""

    ids: Marks = Marks()
    points: Marks = Marks()  # both coordinates, at each number of digits
    singles: Marks = Marks()  # one coordinate, at each number of digits that says something alone
    near: Marks = Marks()  # with the fewest digits, alone and together: to dismiss others quickly
    cells: Marks = Marks()  # finer than the public ones
    longest: int = FEWEST_WORDS  # words that an id is looked for in
    lengths: frozenset[int] = frozenset()  # of ids, in letters
    records: int = 0  # how many protected points there are
    weak: int = 0  # ids that are too short to be known again

    def __or__(self, other: Fingerprints) -> Fingerprints:
        return Fingerprints(
            ids=self.ids | other.ids,
            points=self.points | other.points,
            singles=self.singles | other.singles,
            near=self.near | other.near,
            cells=self.cells | other.cells,
            longest=max(self.longest, other.longest),
            lengths=self.lengths | other.lengths,
            records=self.records + other.records,
            weak=self.weak + other.weak,
        )

    def stored(self) -> bytes:
        """Of one source; the same bytes each time."""
        parts = {name: getattr(self, name).packed() for name in ("ids", "points", "singles", "near", "cells")}
        rest = _Stored(**parts, longest=self.longest, lengths=self.lengths, records=self.records, weak=self.weak)
        return _encode(rest)


def of_stored(body: bytes) -> Fingerprints:
    kept = msgspec.json.decode(body, type=_Stored)
    return Fingerprints(
        ids=unpacked(kept.ids),
        points=unpacked(kept.points),
        singles=unpacked(kept.singles),
        near=unpacked(kept.near),
        cells=unpacked(kept.cells),
        longest=kept.longest,
        lengths=kept.lengths,
        records=kept.records,
        weak=kept.weak,
    )


_encode = msgspec.json.Encoder(order="deterministic").encode


class Marker:
    """Makes fingerprints under one key."""

    __slots__ = ("_key",)

    def __init__(self, key: Secret) -> None:
        if len(key.reveal()) < SHORTEST:
            raise Denied(
                "the key of the fingerprints is too short", hint=f"give {SHORTEST} bytes", rule="gate.key-short"
            )
        self._key = hashlib.sha256(b"kfm:fingerprint:1\0" + key.reveal()).digest()

    def mark(self, kind: Kind, text: str) -> int:
        return self._of(f"{kind}\0{text}".encode("utf-8", "surrogatepass"))

    def _of(self, body: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(body, key=self._key, digest_size=12).digest()[:SIZE], "big")

    def of(self, ids: Iterable[str], points: Iterable[tuple[str, str]], *, finer_than: int) -> Fingerprints:
        """Of protected ids, and of points as the texts of latitude and longitude; `finer_than` is what is public. Both
        are read once, and what is held of each is its fingerprints."""
        known, waiting = Heap(), iter(ids)
        lengths: set[int] = set()
        longest, weak = FEWEST_WORDS, 0
        while some := list(islice(waiting, _TOGETHER)):
            bodies = []
            for one in some:
                words = words_of(one)[:LONGEST]  # the rest of a very long one is not looked for
                plain = "".join(words)
                if is_weak(plain):
                    weak += 1
                    continue
                bodies.append(f"id\0{plain}".encode("utf-8", "surrogatepass"))
                lengths.add(len(plain))
                longest = max(longest, len(words))
            self._keep(bodies, known)
        places = self._places(iter(points), finer_than)
        return Fingerprints(
            ids=known.sorted(),
            points=places.points.sorted(),
            singles=places.singles.sorted(),
            near=places.near.sorted(),
            cells=places.cells.sorted(),
            longest=longest,
            lengths=frozenset(lengths),
            records=len(places.pairs.sorted()),
            weak=weak,
        )

    def _keep(self, bodies: list[bytes], heap: Heap) -> None:
        """Many at once: all in place, because each costs as much as a call."""
        key, blake2b = self._key, hashlib.blake2b
        heap.add(b"".join([blake2b(body, key=key, digest_size=12).digest()[:SIZE] for body in bodies]))

    def _places(self, points: Iterator[tuple[str, str]], finer_than: int) -> _Places:
        found = _Places(Heap(), Heap(), Heap(), Heap(), Heap())
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
    points: Heap
    singles: Heap
    near: Heap
    cells: Heap
    pairs: Heap  # the points themselves, to be counted


def _bodies(
    latitude: Degrees, longitude: Degrees, points: list[bytes], singles: list[bytes], near: list[bytes]
) -> None:
    """What a point is marked by: in all its forms, alone and together."""
    lat_cuts, lng_cuts = {latitude.cut()}, {longitude.cut()}
    for digits in range(FEWEST, MOST + 1):
        lats, lngs = latitude.forms(digits), longitude.forms(digits)
        below = 10 ** (digits - FEWEST)
        lat_cuts.update([_cut(form, below) for form in lats])
        lng_cuts.update([_cut(form, below) for form in lngs])
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
    """The words of an id in small letters: 14-BO-20, 14BO20 and 14bo20 have the same letters in a row."""
    return _WORDS.findall(unicodedata.normalize("NFKC", text).casefold())


def is_weak(plain: str) -> bool:
    """So short that it would be found in anything: those are protected by their points and their neighbours alone."""
    return len(plain) < 4 or (plain.isdigit() and len(plain) < 6)


class Degrees(NamedTuple):
    """A number as written: never by way of a float, which would change its digits."""

    negative: bool
    number: int  # all its digits, without point and sign
    places: int  # how many of them stand behind the point

    def forms(self, digits: int) -> tuple[int, ...]:
        """What it becomes with so many digits, rounded either way or cut off; as whole numbers of the last digit."""
        if digits >= self.places:
            exact = self.number * 10 ** (digits - self.places)
            return (-exact if self.negative else exact,)
        unit = 10 ** (self.places - digits)
        down, rest = divmod(self.number, unit)
        # Half of the last digit goes up, or to the even one, which is one of the two that are given.
        if 2 * rest < unit:
            return (-down if self.negative else down,)
        return (-down, -down - 1) if self.negative else (down, down + 1)

    def cut(self) -> bytes:
        """Cut off after the fewest digits, with its sign: what all forms of a number are looked up by."""
        scaled = self.number * 10**FEWEST // 10**self.places
        return b"%s%d.%02d" % (b"-" if self.negative else b"", *divmod(scaled, 10**FEWEST))

    def value(self) -> float:
        value: float = self.number / 10**self.places
        return -value if self.negative else value


def degrees_of(text: str) -> Degrees | None:
    """None: it is no number of degrees."""
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


def _cut(form: int, below: int) -> bytes:
    """A form cut off after the fewest digits."""
    return _written(form // below if form >= 0 else -(-form // below))
