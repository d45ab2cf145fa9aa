"""Rewrites coordinates of other notations as plain decimal degrees, so that one search finds them all.

It knows exponents, hemisphere letters, degrees with minutes and seconds, packed minutes (NMEA) and seconds, scaled
integers (five to seven decimals), decimal commas, digits of other scripts, geohashes, and binary floating-point numbers
of either byte order. The sign is not kept where a notation has none: the search compares both.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata
from collections.abc import Callable, Iterator

RAW = 1 << 25  # bytes of a binary file that are searched for floating-point numbers
# Each begins with a character class, which the engine finds quickly; what is before a match is compared afterwards.
_DMS = re.compile(
    r"[0-9]{1,3}\s?(?:[°º:]|\s|d(?:eg)?\s?)\s?[0-5]?[0-9]"
    r"(?:\s?(?:['\u2032\u2019:]|\s|m(?:in)?\s?)\s?[0-5]?[0-9](?:\.[0-9]{1,9})?(?![0-9])|\.[0-9]{1,9})"
)
_PARTS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_EXPONENT = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,25})?[eE][-+]?[0-9]{1,2}(?![0-9])")
_COMMA = re.compile(r"[0-9]{1,3},[0-9]{4,25}(?![\w,.])")
_GEOHASH = re.compile(r"[0-9b-hjkmnp-zB-HJKMNP-Z]{8,12}(?!\w)")
_SCALED = re.compile(r"[0-9]{7,10}(?:\.0)?(?!\.?\w)")
_PACKED = re.compile(r"[0-9]{4,7}(?:\.[0-9]{1,9}|(?=[NSEWnsew]\b))")
_ZEROS = re.compile(r"0+[0-9]{2,3}\.[0-9]{2,25}(?![0-9])")
_AFTER_LETTER = re.compile(r"[A-Za-z_][-+]?[0-9]{1,3}\.[0-9]{2,25}(?![0-9])")
_BEFORE_LETTER = re.compile(r"[0-9]{1,3}\.[0-9]{2,25}(?=[A-Za-z_])")
_ANY = re.compile(r"[0-9]")
_HAS_DMS = re.compile(r"[0-9](?:[°º:' d]|\s)\s?(?:eg\s?)?[0-5]?[0-9](?:['\u2032\u2019:.m]|\s)")
_HAS_EXPONENT = re.compile(r"[0-9.][eE][-+]?[0-9]")
_HAS_LETTER = re.compile(r"[0-9][A-Za-z_]")
_PUNCTUATION = frozenset("+-.,:;'\"&#%")
_MINUS = {0x2212: "-", 0x2010: "-", 0x2011: "-", 0x2012: "-", 0x2013: "-", 0x66B: ".", 0x2032: "'", 0x2033: '"'}
_BASE32 = {character: n for n, character in enumerate("0123456789bcdefghjkmnpqrstuvwxyz")}


def ascii_numbers(text: str) -> str:
    """Return the text with digits and signs of every script as those of ASCII."""
    if text.isascii():
        return text
    changed: dict[int, str] = {}
    for character in set(text):
        if character.isascii():
            continue
        if (known := _MINUS.get(ord(character))) is not None:
            changed[ord(character)] = known
        elif (digit := unicodedata.decimal(character, None)) is not None:
            changed[ord(character)] = str(digit)
        elif (plain := unicodedata.normalize("NFKC", character)) in _PUNCTUATION:
            changed[ord(character)] = plain
    return text.translate(changed) if changed else text


def decimal_degrees(text: str) -> Iterator[str]:
    """Yield, for each other notation that occurs, its numbers as plain decimals in their order, one to a line."""
    for hint, pattern, refused, read in _READERS:
        if not hint.search(text):
            continue
        found = [
            plain
            for match in pattern.finditer(text)
            if not (match.start() and refused(text[match.start() - 1]))
            for plain in read(match[0])
        ]
        if found:
            yield "\n".join(found)


def _in_number(before: str) -> bool:
    return before.isdigit() or before == "."


def _in_word(before: str) -> bool:
    return before.isalnum() or before in "._"


def _in_list(before: str) -> bool:
    return before.isalnum() or before in "._,"


def _of_dms(text: str) -> Iterator[str]:
    degrees, minutes, *seconds = _PARTS.findall(text)
    value = int(degrees) + float(minutes) / 60 + (float(seconds[0]) / 3600 if seconds else 0)
    if value <= 360 and float(minutes) < 60:
        places = 3 + len(seconds[0].partition(".")[2]) if seconds else 2 + len(minutes.partition(".")[2])
        yield f"{value:.{min(places, 7)}f}"


def _of_exponent(text: str) -> Iterator[str]:
    number, _, power = text.lower().partition("e")
    value, places = float(text), len(number.partition(".")[2]) - int(power)
    if value <= 360:
        yield f"{value:.{min(max(places, 0), 9)}f}"


def _of_comma(text: str) -> Iterator[str]:
    yield text.replace(",", ".")


def _of_scaled(text: str) -> Iterator[str]:
    number = int(text.partition(".")[0])
    for places in (5, 6, 7):
        if 1 <= number / 10**places <= 360:
            yield f"{number / 10**places:.{places}f}"


def _of_packed(text: str) -> Iterator[str]:
    """Degrees and minutes without marks (DDMM.m), or with seconds too (DDMMSS.s)."""
    whole, _, fraction = text.partition(".")
    last = float(f"{whole[-2:]}.{fraction or 0}")
    degrees, minutes, seconds, places = int(whole[:-2]), last, 0.0, 2 + len(fraction)
    if len(whole) > 5:
        degrees, minutes, seconds, places = int(whole[:-4]), float(whole[-4:-2]), last, 3 + len(fraction)
    if minutes < 60 and seconds < 60 and degrees <= 180:
        yield f"{degrees + minutes / 60 + seconds / 3600:.{min(places, 7)}f}"


def _of_zeros(text: str) -> Iterator[str]:
    whole, _, fraction = text.partition(".")
    yield f"{int(whole)}.{fraction}"


def _of_joined(text: str) -> Iterator[str]:
    yield _PARTS.findall(text)[0]


def _of_geohash(text: str) -> Iterator[str]:
    """The centre of the cell, with as many decimals as its size supports."""
    if text.isdigit() or text.isalpha():
        return
    sides = [[-180.0, 180.0], [-90.0, 90.0]]
    side = 0
    for character in text.lower():
        value = _BASE32.get(character)
        if value is None:
            return
        for bit in (16, 8, 4, 2, 1):
            low, high = sides[side]
            sides[side][0 if value & bit else 1] = (low + high) / 2
            side = 1 - side
    places = {8: 3, 9: 4, 10: 5}.get(len(text), 6)
    (west, east), (south, north) = sides
    yield f"{(south + north) / 2:.{places}f} {(west + east) / 2:.{places}f}"


_READERS: tuple[tuple[re.Pattern[str], re.Pattern[str], Callable[[str], bool], Callable[[str], Iterator[str]]], ...] = (
    (_HAS_DMS, _DMS, _in_number, _of_dms),
    (_HAS_EXPONENT, _EXPONENT, _in_word, _of_exponent),
    (_ANY, _COMMA, _in_list, _of_comma),
    (_ANY, _GEOHASH, _in_word, _of_geohash),
    (_ANY, _SCALED, _in_word, _of_scaled),
    (_ANY, _PACKED, _in_number, _of_packed),
    (_ANY, _ZEROS, _in_word, _of_zeros),
    (_ANY, _AFTER_LETTER, _in_number, _of_joined),
    (_HAS_LETTER, _BEFORE_LETTER, _in_number, _of_joined),
)

_DOUBLE = {
    "<": re.compile(rb"(?=([\xf0-\xff][\x3f\xbf]|[\x00-\x76][\x40\xc0]))"),
    ">": re.compile(rb"(?=([\x3f\xbf][\xf0-\xff]|[\x40\xc0][\x00-\x76]))"),
}
_SINGLE = {
    "<": re.compile(rb"(?=([\x80-\xff][\x3f\xbf]|[\x00-\xff][\x40-\x42\xc0-\xc2]|[\x00-\xb4][\x43\xc3]))"),
    ">": re.compile(rb"(?=([\x3f\xbf][\x80-\xff]|[\x40-\x42\xc0-\xc2][\x00-\xff]|[\x43\xc3][\x00-\xb4]))"),
}


def binary_numbers(body: bytes) -> Iterator[str]:
    """Yield, as text, the numbers between 1 and 360 that are in these bytes at any place: as doubles and as floats of
    either byte order, each kind as a text of its own, so that the two coordinates of a point stay together."""
    body = body[:RAW]
    for order in "<>":
        for size, letter, pattern in ((8, "d", _DOUBLE[order]), (4, "f", _SINGLE[order])):
            unpack = struct.Struct(order + letter).unpack_from
            found = []
            for match in pattern.finditer(body):
                start = match.start() if order == ">" else match.start() + 2 - size
                if 0 <= start <= len(body) - size:
                    value = unpack(body, start)[0]
                    if math.isfinite(value) and 1 <= abs(value) <= 360:
                        found.append(repr(value) if size == 8 else f"{value:.6f}")
            if found:
                yield "\n".join(found)
