"""The synthetic protected table, and the ways to write a coordinate."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    id: str
    lat: str
    lng: str
    kind: str
    notes: str


Rows = list[Row]
Files = dict[str, bytes]
Form = Callable[[Rows], Files]
Notation = Callable[[str, bool], str]  # a coordinate, and whether it is the latitude
Points = list[tuple[str, str]]

_PLACES = ("the spring", "a bend of the creek", "the limestone bluff", "an old corral", "the tree line")
_DEEDS = ("turned up sherds after the flood", "saw charcoal in the cut bank", "found two hearths under the plough")


def table(count: int = 40, seed: int = 25) -> Rows:
    """Return synthetic sites in Kansas with seven decimals and a note that no one may publish."""
    rng = random.Random(seed)
    return [
        Row(
            f"14QX{1000 + n * 7}",
            f"{rng.uniform(37.02, 39.98):.7f}",
            f"{rng.uniform(-101.98, -94.65):.7f}",
            rng.choice(("camp", "village", "mound")),
            f"The {rng.choice(('tenant', 'owner', 'surveyor'))} {rng.choice(_DEEDS)}, {rng.randrange(20, 90)} paces "
            f"{rng.choice(('north', 'south', 'east'))} of {rng.choice(_PLACES)} near gate {rng.randrange(1000)}",
        )
        for n in range(count)
    ]


# ---------------------------------------------------------------------------------------------- notations


def _exact(value: str, latitude: bool) -> str:
    return value


def _wrapped(value: str, latitude: bool) -> str:
    return value if latitude else f"{float(value) % 360:.7f}"


def _hemisphere(value: str, latitude: bool) -> str:
    return ("N" if float(value) > 0 else "S") if latitude else ("E" if float(value) > 0 else "W")


def _minutes(value: str) -> tuple[int, float]:
    whole = abs(float(value))
    return int(whole), (whole - int(whole)) * 60


def _dms(template: str, places: int = 3) -> Notation:
    def written(value: str, latitude: bool) -> str:
        degrees, minutes = _minutes(value)
        unit = 10**places
        ticks = round((degrees * 60 + minutes) * 60 * unit)
        d, m, s = ticks // (3600 * unit), ticks // (60 * unit) % 60, ticks % (60 * unit) / unit
        side = _hemisphere(value, latitude)
        sign = "-" if float(value) < 0 else ""
        return template.format(d=d, m=m, s=f"{s:0{places + 3}.{places}f}", h=side, sign=sign)

    return written


def _decimal_minutes(template: str) -> Notation:
    def written(value: str, latitude: bool) -> str:
        degrees, minutes = _minutes(value)
        return template.format(d=degrees, m=f"{minutes:08.5f}", h=_hemisphere(value, latitude), w=2 if latitude else 3)

    return written


def _digits(first: int) -> Notation:
    return lambda value, latitude: "".join(chr(first + int(c)) if c.isdigit() else c for c in value)


def _shifted(by: float) -> Notation:
    return lambda value, latitude: f"{float(value) + by:.7f}"


def _rounded(places: int) -> Notation:
    return lambda value, latitude: f"{float(value):.{places}f}"


def entities(value: str) -> str:
    return "".join(f"&#{ord(c)};" for c in value)


NOTATIONS: dict[str, Notation] = {
    "exact": _exact,
    "six decimals": _rounded(6),
    "five decimals": _rounded(5),
    "four decimals": _rounded(4),
    "exponent": lambda value, latitude: f"{float(value):.9e}",
    "upper exponent": lambda value, latitude: f"{float(value):.8E}",
    "negative exponent": lambda value, latitude: f"{float(value) * 1000:.4f}e-3",
    "unsigned": lambda value, latitude: value.lstrip("-"),
    "0 to 360": _wrapped,
    "plus sign": lambda value, latitude: value if value.startswith("-") else "+" + value,
    "leading zeros": lambda value, latitude: f"{float(value):013.7f}",
    "unicode minus": lambda value, latitude: value.replace("-", "\u2212"),
    "hemisphere after": lambda value, latitude: value.lstrip("-") + _hemisphere(value, latitude),
    "hemisphere after, apart": lambda value, latitude: value.lstrip("-") + " " + _hemisphere(value, latitude),
    "hemisphere before": lambda value, latitude: _hemisphere(value, latitude) + value.lstrip("-"),
    "degree sign": lambda value, latitude: value.lstrip("-") + "\u00b0" + _hemisphere(value, latitude),
    "dms": _dms("{d}\u00b0{m:02d}'{s}\"{h}"),
    "dms with primes": _dms("{d}\u00b0 {m:02d}\u2032 {s}\u2033 {h}"),
    "dms with colons": _dms("{sign}{d}:{m:02d}:{s}"),
    "dms with spaces": _dms("{d} {m:02d} {s} {h}"),
    "dms with letters": _dms("{d}d{m:02d}m{s}s{h}"),
    "dms without marks": _dms("{d}{m:02d}{s}{h}"),
    "dms of whole tenths": _dms("{d}\u00b0{m:02d}'{s}\"{h}", 1),
    "decimal minutes": _decimal_minutes("{d}\u00b0{m}'{h}"),
    "decimal minutes, before": _decimal_minutes("{h} {d} {m}"),
    "nmea": _decimal_minutes("{d:0{w}d}{m},{h}"),
    "microdegrees": lambda value, latitude: str(round(float(value) * 1e6)),
    "tenth microdegrees": lambda value, latitude: str(round(float(value) * 1e7)),
    "hundred thousandths": lambda value, latitude: str(round(float(value) * 1e5)),
    "microdegrees as floats": lambda value, latitude: f"{round(float(value) * 1e6)}.0",
    "full-width digits": _digits(0xFF10),
    "arabic digits": _digits(0x660),
    "decimal comma": lambda value, latitude: value.replace(".", ","),
    "html entities": lambda value, latitude: entities(value),
    "html hex entities": lambda value, latitude: "".join(f"&#x{ord(c):x};" for c in value),
    "percent encoded": lambda value, latitude: "".join(f"%{ord(c):02X}" for c in value),
    "unicode escapes": lambda value, latitude: "".join(f"\\u{ord(c):04x}" for c in value),
    "shift of 1e-6": _shifted(1e-6),
    "shift of 5e-5": _shifted(5e-5),
    "single precision": lambda value, latitude: repr(float(np.float32(float(value)))),
    "quoted": lambda value, latitude: f"'{value}'",
}


def written(rows: Rows, notation: str) -> Points:
    how = NOTATIONS[notation]
    return [(how(row.lat, True), how(row.lng, False)) for row in rows]


# ---------------------------------------------------------------------------------------------- geometry as bytes


def wkb(point: tuple[str, str], order: str = "<", srid: int = 0) -> bytes:
    lat, lng = map(float, point)
    kind = 0x20000001 if srid else 1
    head = struct.pack(order + "BI", order == "<", kind) + (struct.pack(order + "I", srid) if srid else b"")
    return head + struct.pack(order + "dd", lng, lat)


_BASE32 = "0123456789bcdefghjkmnpqrstuvwxyz"


def geohash(lat: float, lng: float, length: int) -> str:
    sides, bits = [[-180.0, 180.0, lng], [-90.0, 90.0, lat]], 0
    out = ""
    for n in range(length * 5):
        low, high, value = sides[n % 2]
        middle = (low + high) / 2
        bit = value >= middle
        sides[n % 2][0 if bit else 1] = middle
        bits = bits * 2 + bit
        if n % 5 == 4:
            out, bits = out + _BASE32[bits], 0
    return out
