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
from collections.abc import Iterable, Mapping
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Literal

from kfm.contract.records import Record
from kfm.contract.secret import SHORTEST, Secret
from kfm.errors import Denied
from kfm.masking import cells

FEWEST, MOST = 2, 7  # digits of a degree that a point is known by: a kilometre, and a centimetre
ALONE = 5  # digits from which on one coordinate without the other says something
LONGEST = 8  # words of an id
FEWEST_WORDS = 4  # that an id is looked for in: 14BO20 may be written 14-BO-20
_WORDS = re.compile(r"[^\W_]+")
_ROUNDINGS = (ROUND_HALF_EVEN, ROUND_HALF_UP, ROUND_DOWN)
Kind = Literal["id", "point", "latitude", "longitude", "near", "cell"]


class Fingerprints(Record, frozen=True):
    """What is known of the protected records of a custodian. Two lists of one key may be put together."""

    ids: frozenset[str] = frozenset()
    points: frozenset[str] = frozenset()  # both coordinates, at each number of digits
    singles: frozenset[str] = frozenset()  # one coordinate, at each number of digits that says something alone
    near: frozenset[str] = frozenset()  # with the fewest digits, alone and together: to dismiss others quickly
    cells: frozenset[str] = frozenset()  # finer than the public ones
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


class Marker:
    """Makes fingerprints under one key."""

    __slots__ = ("_key",)

    def __init__(self, key: Secret) -> None:
        if len(key.reveal()) < SHORTEST:
            raise Denied(
                "the key of the fingerprints is too short", hint=f"give {SHORTEST} bytes", rule="gate.key-short"
            )
        self._key = hashlib.sha256(b"kfm:fingerprint:1\0" + key.reveal()).digest()

    def mark(self, kind: Kind, text: str) -> str:
        body = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(body, key=self._key, digest_size=12).hexdigest()

    def of(self, ids: Iterable[str], points: Iterable[tuple[str, str]], *, finer_than: int) -> Fingerprints:
        """Of protected ids, and of points as the texts of latitude and longitude; `finer_than` is what is public."""
        known: set[str] = set()
        lengths: set[int] = set()
        longest, weak = FEWEST_WORDS, 0
        for one in ids:
            words = words_of(one)[:LONGEST]  # the rest of a very long one is not looked for
            plain = "".join(words)
            if is_weak(plain):
                weak += 1
                continue
            known.add(self.mark("id", plain))
            lengths.add(len(plain))
            longest = max(longest, len(words))
        pairs = {pair for pair in points if all(decimal_of(text) is not None for text in pair)}
        found: dict[str, set[str]] = {"points": set(), "singles": set(), "near": set(), "cells": set()}
        for latitude, longitude in pairs:
            self._add_point(decimal_of(latitude) or Decimal(0), decimal_of(longitude) or Decimal(0), found, finer_than)
        return Fingerprints(
            ids=frozenset(known),
            **{name: frozenset(marks) for name, marks in found.items()},
            longest=longest,
            lengths=frozenset(lengths),
            records=len(pairs),
            weak=weak,
        )

    def _add_point(self, latitude: Decimal, longitude: Decimal, found: Mapping[str, set[str]], finer_than: int) -> None:
        for digits in range(FEWEST, MOST + 1):
            lats, lngs = forms(latitude, digits), forms(longitude, digits)
            found["points"] |= {self.mark("point", f"{digits}:{a}:{b}") for a in lats for b in lngs}
            if digits >= ALONE:
                found["singles"] |= {self.mark("latitude", f"{digits}:{a}") for a in lats}
                found["singles"] |= {self.mark("longitude", f"{digits}:{b}") for b in lngs}
        lat_cuts, lng_cuts = _cuts(latitude), _cuts(longitude)
        found["near"] |= {self.mark("near", f"lat:{a}") for a in lat_cuts}
        found["near"] |= {self.mark("near", f"lng:{b}") for b in lng_cuts}
        found["near"] |= {self.mark("near", f"{a}:{b}") for a in lat_cuts for b in lng_cuts}
        if abs(latitude) <= 90 and abs(longitude) <= 180:
            for resolution in range(finer_than + 1, 16):
                cell = cells.cell_of(float(latitude), float(longitude), resolution)
                found["cells"] |= {self.mark("cell", f"{cell:x}"), self.mark("cell", str(cell))}


def words_of(text: str) -> list[str]:
    """The words of an id in small letters: 14-BO-20, 14BO20 and 14bo20 have the same letters in a row."""
    return _WORDS.findall(unicodedata.normalize("NFKC", text).casefold())


def is_weak(plain: str) -> bool:
    """So short that it would be found in anything: those are protected by their points and their neighbours alone."""
    return len(plain) < 4 or (plain.isdigit() and len(plain) < 6)


def decimal_of(text: str) -> Decimal | None:
    """A number as written, or None; never by way of a float, which would change its digits."""
    plain = text.strip()
    if not plain or len(plain) > 40 or not re.fullmatch(r"[-+]?[0-9]{1,3}(?:\.[0-9]*)?", plain):
        return None
    return Decimal(plain)


def forms(value: Decimal, digits: int) -> frozenset[int]:
    """What a number becomes with so many digits, rounded either way or cut off; as whole numbers of the last digit."""
    unit = Decimal(1).scaleb(-digits)
    return frozenset(int(value.quantize(unit, rounding=way).scaleb(digits)) for way in _ROUNDINGS)


def cut(value: Decimal) -> str:
    """A number cut off after the fewest digits, with its sign: what all forms of a number are looked up by."""
    return str(value.quantize(Decimal(1).scaleb(-FEWEST), rounding=ROUND_DOWN))


def _cuts(value: Decimal) -> set[str]:
    return {
        cut(Decimal(form).scaleb(-digits)) for digits in range(FEWEST, MOST + 1) for form in forms(value, digits)
    } | {cut(value)}
