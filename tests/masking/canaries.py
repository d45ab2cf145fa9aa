"""Searches any bytes for protected places, written in more than twenty ways and packed in most formats."""

from __future__ import annotations

import base64
import binascii
import bz2
import lzma
import math
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import h3
import numpy as np

_KEY = 6  # bytes; no form is shorter


class Canary(NamedTuple):
    latitude: float
    longitude: float
    trinomial: str  # a site number, such as 14BO20


@lru_cache(maxsize=4096)
def needles(canary: Canary) -> dict[str, set[bytes]]:
    """Everything that would give the place away, by the name of the way it is written."""
    lat, lng, name = canary
    found: dict[str, set[bytes]] = {f"decimal {digits}": _decimal(lat, lng, digits) for digits in range(3, 9)}
    found["decimal comma"] = _texts(f"{lat:.5f}".replace(".", ","), f"{lng:.5f}".replace(".", ","))
    found["degrees minutes seconds"] = _texts(*_dms(lat, "NS", "°", "'", '"'), *_dms(lng, "EW", "°", "'", '"'))
    found["degrees minutes seconds, spaced"] = _texts(*_dms(lat, "NS", " ", " ", ""), *_dms(lng, "EW", " ", " ", ""))
    found["degrees and minutes"] = _texts(_ddm(lat), _ddm(lng))
    for zone in (14, 15):
        east, north = utm(lat, lng, zone)
        found[f"UTM {zone}N"] = _joined(str(round(east)), str(round(north))) | _joined(str(int(east)), str(int(north)))
        found[f"MGRS {zone}"] = _texts(mgrs(east, north, zone, lat, " "), mgrs(east, north, zone, lat, ""))
    x, y = mercator(lat, lng)
    found["Web Mercator"] = _joined(str(round(x)), str(round(y))) | _joined(str(int(x)), str(int(y)))
    found["geohash"] = _texts(*(geohash(lat, lng, length) for length in range(7, 13)))
    fine = [h3.latlng_to_cell(lat, lng, resolution) for resolution in range(8, 16)]
    found["H3"] = _texts(*fine)
    found["H3 as number"] = _texts(*(str(int(cell, 16)) for cell in fine))
    found["quadkey"] = _texts(quadkey(x, y, 17))
    found["plus code"] = _texts(plus_code(lat, lng))
    found["polyline"] = {_polyline(lat) + _polyline(lng)}
    found["scaled by ten million"] = _texts(str(round(lat * 1e7)), str(round(lng * 1e7)))
    for order, word in (("<", "little"), (">", "big")):
        found[f"WKB {word} endian"] = {struct.pack(f"{order}dd", lng, lat)}
        found[f"double {word} endian"] = {struct.pack(f"{order}d", lat), struct.pack(f"{order}d", lng)}
        found[f"single {word} endian"] = {struct.pack(f"{order}ff", lat, lng), struct.pack(f"{order}ff", lng, lat)}
        whole = (round(lat * 1e7), round(lng * 1e7))
        found[f"integer {word} endian"] = {struct.pack(f"{order}ii", *whole), struct.pack(f"{order}ii", *whole[::-1])}
    found["trinomial"] = _texts(name, name.lower())
    for coding in ("utf-16-le", "utf-16-be"):
        found[coding] = {text.encode(coding) for text in (f"{lat:.5f}", f"{lng:.5f}", name)}
    return found


@lru_cache(maxsize=4096)
def encodings(canary: Canary) -> dict[str, set[bytes]]:
    """The needles, and latitude, longitude and site number as other programs encode text: 116 ways in all."""
    found = dict(needles(canary))
    texts = {"latitude": _cut(canary.latitude), "longitude": _cut(canary.longitude), "site": canary.trinomial}
    for what, text in texts.items():
        for name, how in _CODINGS.items():
            found[f"{what} as {name}"] = how(text)
    for what, value in (("latitude", canary.latitude), ("longitude", canary.longitude)):
        found[f"{what} as digits alone"] = {_cut(abs(value)).replace(".", "").encode()}
    return found


def _cut(value: float) -> str:
    """The number with six decimals, cut and not rounded: so it is the beginning of the same number with more."""
    return f"{value:.9f}"[:-3]


def _each(pattern: str, between: str = "") -> Callable[[str], set[bytes]]:
    """Every character by its number."""
    return lambda text: {between.join(pattern.format(ord(letter)) for letter in text).encode()}


def _digits(zero: str) -> Callable[[str], set[bytes]]:
    """The digits of another script."""
    return lambda text: {
        "".join(chr(ord(zero) + int(letter)) if letter.isdigit() else letter for letter in text).encode()
    }


def _grouped(encode: Callable[[bytes], bytes], size: int, long: int) -> Callable[[str], set[bytes]]:
    """The whole groups of an encoding that packs `size` bytes into `long` letters, wherever the text begins."""

    def forms(text: str) -> set[bytes]:
        body = text.encode()
        found = set()
        for start in range(size):
            part = body[start : start + (len(body) - start) // size * size]
            if len(part) // size * long >= _KEY:
                found.add(encode(part))
        return found

    return forms


_CODINGS: dict[str, Callable[[str], set[bytes]]] = {
    "utf-32-le": lambda text: {text.encode("utf-32-le")},
    "utf-32-be": lambda text: {text.encode("utf-32-be")},
    "EBCDIC": lambda text: {text.encode("cp500")},
    "reversed": lambda text: {text[::-1].encode()},
    "percent": _each("%{:02X}"),
    "percent in small letters": _each("%{:02x}"),
    "entities": _each("&#{};"),
    "hexadecimal entities": _each("&#x{:x};"),
    "unicode escapes": _each("\\u{:04x}"),
    "byte escapes": _each("\\x{:02x}"),
    "octal escapes": _each("\\{:03o}"),
    "quoted-printable": _each("={:02X}"),
    "a list of numbers": _each("{}", ","),
    "a spaced list of numbers": _each("{}", ", "),
    "a list of hexadecimal numbers": _each("0x{:02x}", ", "),
    "a hexadecimal dump": _each("{:02x}", " "),
    "binary digits": _each("{:08b}"),
    "letters with spaces": lambda text: {" ".join(text).encode()},
    "letters with zero-width spaces": lambda text: {"\u200b".join(text).encode()},
    "full-width digits": _digits("\uff10"),
    "Arabic-Indic digits": _digits("\u0660"),
    "Devanagari digits": _digits("\u0966"),
    "mathematical digits": _digits("\U0001d7ce"),
    "base32": _grouped(base64.b32encode, 5, 8),
    "base85": _grouped(base64.b85encode, 4, 5),
    "ascii85": _grouped(base64.a85encode, 4, 5),
    "uuencode": _grouped(lambda part: binascii.b2a_uu(part)[1:].rstrip(b"\n"), 3, 4),
}


Needles = Callable[[Canary], dict[str, set[bytes]]]


@lru_cache(maxsize=8)
def _wanted(canaries: tuple[Canary, ...], ways: Needles) -> tuple[dict[int, list[tuple[bytes, int, str]]], Any]:
    """Every form by its first bytes, with the number of its canary and how it is written; and the first bytes."""
    wanted: dict[int, list[tuple[bytes, int, str]]] = {}
    for number, canary in enumerate(canaries):
        for way, forms in ways(canary).items():
            for form in forms:
                wanted.setdefault(int.from_bytes(form[:_KEY], "little"), []).append((form, number, way))
    return wanted, np.array(sorted(wanted), dtype=np.uint64)


def hits(body: bytes, canaries: Iterable[Canary], ways: Needles = needles) -> set[tuple[int, str]]:
    """Which canary was found, and how it was written."""
    wanted, beginnings = _wanted(tuple(canaries), ways)
    seen: set[bytes] = set()
    hay = b"\xff\0\xff".join(views(body, seen)) + bytes(16)
    found = set()
    for start in range(8):  # the first six bytes from every place on, looked up all at once
        words = np.frombuffer(hay[start : start + (len(hay) - start) // 8 * 8], dtype="<u8") & np.uint64(
            (1 << 8 * _KEY) - 1
        )
        for at in np.flatnonzero(np.isin(words, beginnings)).tolist():
            place = start + at * 8
            for form, number, way in wanted[int(words[at])]:
                if hay.startswith(form, place):
                    found.add((number, way))
    return found


def views(body: bytes, seen: set[bytes], depth: int = 3) -> Iterator[bytes]:
    """The bytes, and whatever is packed in them: gzip, zlib, bz2, xz, base64, hexadecimal, each in each."""
    if body in seen:
        return
    seen.add(body)
    yield body
    if depth:
        for inside in (*_packed(body), *_armoured(body)):
            if len(inside) >= _KEY:
                yield from views(inside, seen, depth - 1)


def _packed(body: bytes) -> Iterator[bytes]:
    for found in re.finditer(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]", body):
        reader = zlib.decompressobj(wbits=47)
        try:
            yield reader.decompress(body[found.start() :], 1 << 24)
        except zlib.error:
            continue
    for found in re.finditer(rb"PK\x03\x04", body):  # a member of a zip archive
        lengths = struct.unpack_from("<HH", body[found.start() : found.start() + 30].ljust(30, b"\0"), 26)
        try:
            yield zlib.decompressobj(wbits=-15).decompress(body[found.start() + 30 + sum(lengths) :], 1 << 24)
        except zlib.error:
            continue
    for mark, opener in ((b"BZh", bz2.BZ2Decompressor), (b"\xfd7zXZ\0", lzma.LZMADecompressor)):
        for found in re.finditer(re.escape(mark), body):
            try:
                yield opener().decompress(body[found.start() :], 1 << 24)
            except (OSError, EOFError, lzma.LZMAError):
                continue


def _armoured(body: bytes) -> Iterator[bytes]:
    for found in re.finditer(rb"[A-Za-z0-9+/_-]{12,}", body):
        run = found[0].translate(bytes.maketrans(b"-_", b"+/"))
        for start in range(4):
            part = run[start:]
            part = part[: len(part) - (len(part) % 4 == 1)]
            yield base64.b64decode(part + b"=" * (-len(part) % 4))
    for found in re.finditer(rb"(?:[0-9a-fA-F]{2}){8,}", body):
        yield binascii.unhexlify(found[0])


# ---------------------------------------------------------------------------------------- ways to write a place


def _texts(*texts: str) -> set[bytes]:
    return {text.encode() for text in texts}


def _joined(a: str, b: str) -> set[bytes]:
    return {
        f"{one}{between}{other}".encode() for one, other in ((a, b), (b, a)) for between in (",", ", ", " ", ";", "\t")
    }


def _decimal(lat: float, lng: float, digits: int) -> set[bytes]:
    """With few digits only both together say something."""
    a, b = f"{lat:.{digits}f}", f"{lng:.{digits}f}"
    return _texts(a, b) if digits >= 5 else _joined(a, b)


def _dms(value: float, letters: str, degree: str, minute: str, second: str) -> list[str]:
    whole = abs(value)
    minutes = (whole - int(whole)) * 60
    seconds = (minutes - int(minutes)) * 60
    text = f"{int(whole)}{degree}{int(minutes):02d}{minute}{seconds:05.2f}{second}"
    return [text, text + letters[value < 0]]


def _ddm(value: float) -> str:
    whole = abs(value)
    return f"{int(whole)} {(whole - int(whole)) * 60:.4f}"


def utm(lat: float, lng: float, zone: int) -> tuple[float, float]:
    """Easting and northing after Krueger, to the millimetre within the zone and next to it."""
    a, f = 6378137.0, 1 / 298.257223563
    n = f / (2 - f)
    big = a / (1 + n) * (1 + n**2 / 4 + n**4 / 64)
    alpha = (n / 2 - 2 * n**2 / 3 + 5 * n**3 / 16, 13 * n**2 / 48 - 3 * n**3 / 5, 61 * n**3 / 240)
    phi, lam = math.radians(lat), math.radians(lng - (zone * 6 - 183))
    e = 2 * math.sqrt(n) / (1 + n)
    t = math.sinh(math.atanh(math.sin(phi)) - e * math.atanh(e * math.sin(phi)))
    xi, eta = math.atan2(t, math.cos(lam)), math.atanh(math.sin(lam) / math.sqrt(1 + t * t))
    east = eta + sum(c * math.cos(2 * j * xi) * math.sinh(2 * j * eta) for j, c in enumerate(alpha, 1))
    north = xi + sum(c * math.sin(2 * j * xi) * math.cosh(2 * j * eta) for j, c in enumerate(alpha, 1))
    return 500000 + 0.9996 * big * east, 0.9996 * big * north


def mgrs(east: float, north: float, zone: int, lat: float, between: str) -> str:
    band = "CDEFGHJKLMNPQRSTUVWX"[int((lat + 80) // 8)]
    column = ("ABCDEFGH", "JKLMNPQR", "STUVWXYZ")[(zone - 1) % 3][(int(east // 100000) - 1) % 8]
    row = "ABCDEFGHJKLMNPQRSTUV"[(int(north // 100000) + (0 if zone % 2 else 5)) % 20]
    return between.join((f"{zone}{band}", column + row, f"{int(east) % 100000:05d}", f"{int(north) % 100000:05d}"))


def mercator(lat: float, lng: float) -> tuple[float, float]:
    radius = 6378137.0
    return math.radians(lng) * radius, math.log(math.tan(math.pi / 4 + math.radians(lat) / 2)) * radius


def quadkey(x: float, y: float, zoom: int) -> str:
    half = math.pi * 6378137.0
    column, row = (int((half + part) / (2 * half) * 2**zoom) for part in (x, -y))
    return "".join(str((column >> bit & 1) + 2 * (row >> bit & 1)) for bit in range(zoom - 1, -1, -1))


def geohash(lat: float, lng: float, length: int) -> str:
    letters = "0123456789bcdefghjkmnpqrstuvwxyz"
    bounds = [[-180.0, 180.0], [-90.0, 90.0]]
    bits = []
    for number in range(length * 5):
        low, high = bounds[number % 2]
        middle = (low + high) / 2
        above = (lng, lat)[number % 2] >= middle
        bounds[number % 2] = [middle, high] if above else [low, middle]
        bits.append("1" if above else "0")
    return "".join(letters[int("".join(bits[at : at + 5]), 2)] for at in range(0, len(bits), 5))


def plus_code(lat: float, lng: float) -> str:
    letters = "23456789CFGHJMPQRVWX"
    a, b = int((lat + 90) * 8000), int((lng + 180) * 8000)
    pairs = []
    for _ in range(5):
        pairs.append(letters[a % 20] + letters[b % 20])
        a, b = a // 20, b // 20
    code = "".join(reversed(pairs))
    return f"{code[:8]}+{code[8:]}"


def _polyline(value: float) -> bytes:
    number = round(value * 1e5) << 1
    number = ~number if number < 0 else number
    out = bytearray()
    while number >= 0x20:
        out.append((0x20 | number & 0x1F) + 63)
        number >>= 5
    out.append(number + 63)
    return bytes(out)
