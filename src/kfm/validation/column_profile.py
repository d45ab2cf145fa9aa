"""Proposes the contract of a column from its values.

- A type is proposed if at least nine of ten values have it. Words for "no value", such as NA, become `missing`; other
  values that do not fit are then quarantined with their row, which is what a contract is for.
- Digits with a leading zero are a code, and stay text.
- A bound is ten times the largest value that was seen, rounded up to 1, 2 or 5 times a power of ten: data of the same
  kind stay within it, and a slip of units or a mark such as -99999 does not.
- Whole numbers are proposed only for counts, years and keys: a measure that is whole today has decimals tomorrow.
- A key is proposed only for a column without a blank and without a repeated value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from kfm.model.records import Column, ColumnType
from kfm.parsing.dates import date_reader, is_date, is_moment

RULE = "ten times the largest value seen"
MOST_MISSING = 5
_LONG = 200  # characters of a value that is still looked at
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_CODE = re.compile(r"[+-]?0[0-9]+")
_TRUTHS = frozenset({"true", "false", "yes", "no", "t", "f", "y", "n"})
_NOTHING = frozenset(
    {
        "na", "n/a", "nan", "null", "none", "nil", "unknown", "missing", "nodata", "no data", "-", "--", ".", "..", "?",
        "m", "*", "#n/a", "-999", "-9999", "-99999", "-999.0", "-9999.0", "-99999.0", "-999.9", "-9999.9"
    }
)  # fmt: skip
_FORMATS = ("%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%b-%Y", "%d/%m/%Y", "%Y%m%d")
_TIMES = ("%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%Y/%m/%d %H:%M:%S")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_KEYS = frozenset({"id", "key", "code", "no", "nr", "number", "api", "kid", "uuid", "guid", "fips", "geoid", "icao"})
_IDS = _KEYS | {"zip", "phone", "usaf", "wban", "tract", "isbn", "issn", "lccn"}
_COUNTED = frozenset({"count", "counts", "year", "population", "people", "households", "rank", "n", "total"})
_AMOUNTS = frozenset(
    {
        "depth", "count", "length", "width", "height", "area", "population", "rain", "precip", "precipitation",
        "distance", "size", "weight", "age", "year", "share", "percent", "pct", "thickness", "total", "acres"
    }
)  # fmt: skip
_UNITS = {
    "ft": "ft", "feet": "ft", "metres": "m", "meters": "m", "mm": "mm", "cm": "cm", "km": "km", "mi": "mi", "kg": "kg",
    "lb": "lb", "degc": "°C", "degf": "°F", "hpa": "hPa", "pct": "%", "percent": "%", "deg": "°", "acres": "acre",
    "ha": "ha", "mph": "mph", "kmh": "km/h", "kt": "kt",
}  # fmt: skip


class ColumnProfile(NamedTuple):
    """What was seen of a column, and what its contract would be; no contract: its values have no plain type."""

    name: str
    column: Column | None
    unit: str  # as the name says; empty: it says none
    unique: bool  # no value repeats, and none is blank
    odd: int  # values that would be quarantined
    blank: int


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: siteName, site_name and SITE NAME have the same two."""
    return [word.lower() for word in _WORDS.findall(name)]


def profile_text(name: str, values: Sequence[str], *, whole: bool) -> ColumnProfile:
    """Return the profile of a column of a table of texts. Bounds are proposed only if the values are all there are, or
    if the caller checks the others (`whole`)."""
    texts = [value.strip() for value in values]
    given = [text for text in texts if text]
    kind, form, missing, odd = _kind_of_texts(name, given)
    column = Column(name=name)
    if kind != "text":
        column = Column(name=name, type=kind, mode="discard-row", date_format=form, missing=tuple(sorted(missing)))
        if whole and kind in ("integer", "number"):
            numbers = [float(text) for text in given if text not in missing and _NUMBER.fullmatch(text)]
            column = _bounded(column, numbers)
    unique = bool(texts) and len(set(texts)) == len(texts) == len(given) and not odd and not missing
    return ColumnProfile(name, column, _unit(name), unique, odd, len(texts) - len(given))


def profile_values(name: str, values: Sequence[Any], *, whole: bool) -> ColumnProfile:
    """Return the profile of a column of plain values, as in JSON. None counts as blank."""
    given = [value for value in values if value is not None]
    kinds = {type(value) for value in given}
    column: Column | None = Column(name=name, mode="discard-row")
    unique = bool(values) and len(given) == len(values) and kinds in ({int}, {str}) and len(set(given)) == len(given)
    if not kinds:
        column = None
    elif kinds == {bool}:
        column = Column(name=name, type="boolean", mode="discard-row")
    elif kinds <= {int, float}:
        column = Column(
            name=name,
            type="integer" if kinds == {int} and (_COUNTED | _KEYS) & set(words_of(name)) else "number",
            mode="discard-row",
        )
        numbers = [float(value) for value in given if math.isfinite(value)]
        column = _bounded(column, numbers) if whole and not _IDS & set(words_of(name)) else column
    elif kinds == {str}:
        kind: ColumnType = "text"
        if all(len(value) <= _LONG and is_date(value) for value in given):
            kind = "date"
        elif all(len(value) <= _LONG and is_moment(value) for value in given):
            kind = "datetime"
        column = Column(name=name, type=kind, mode="freeze" if kind == "text" else "discard-row")
        unique = unique and all(value.strip() for value in given)
    else:
        column = None
    return ColumnProfile(name, column, _unit(name), unique, 0, len(values) - len(given))


def key_of(profiles: Sequence[ColumnProfile]) -> str:
    """Return the column that identifies a row: unique, without blanks and named like a key, or else the first column if
    it is such a text; empty if there is none."""
    fitting = [one for one in profiles if one.unique and one.column is not None]
    named = [one for one in fitting if _KEYS & set(words_of(one.name)) or one.name.lower().endswith(("id", "_no"))]
    if named:
        return named[0].name
    first = profiles[0] if profiles else None
    is_plain = first in fitting and first is not None and first.column is not None and first.column.type == "text"
    return first.name if is_plain and first is not None else ""


def as_key(column: Column) -> Column:
    """Return the contract of the column that identifies a row."""
    return msgspec.structs.replace(column, required=True, unique=True, mode="discard-row", minimum=None, maximum=None)


def _kind_of_texts(name: str, given: Sequence[str]) -> tuple[ColumnType, str, set[str], int]:
    """Return type, date format, words for "no value" and the count of odd values of the texts that are not blank."""
    short = [text for text in given if len(text) <= _LONG]
    if not given or len(short) < len(given):
        return "text", "", set(), 0
    none = {text for text in short if text.lower() in _NOTHING}
    real = [text for text in short if text not in none]
    if not real:
        return "text", "", set(), 0
    words = set(words_of(name))
    codes = any(_CODE.fullmatch(text) for text in real) or bool(_IDS & words)
    for kind, form, fits in _readers(words, codes=codes):
        wrong = sum(1 for text in real if not fits(text))
        if wrong * 10 <= len(real) and wrong < len(real):
            numeric = kind in ("integer", "number")
            missing = {text for text in none if not fits(text) or (numeric and text.startswith("-9"))}
            if len(missing) > MOST_MISSING:
                continue
            return kind, form, missing, wrong
    return "text", "", set(), 0


def _readers(words: set[str], *, codes: bool) -> Any:
    """Yield each type that is tried with its date format and its test, the narrowest first."""
    yield "boolean", "", lambda text: text.lower() in _TRUTHS
    yield "date", "", is_date
    yield "datetime", "", is_moment
    for form in _FORMATS:
        if form != "%Y%m%d" or words & {"date", "day"}:
            yield "date", form, date_reader(form)
    for form in _TIMES:
        yield "datetime", form, date_reader(form)
    if not codes and words & _COUNTED:
        yield "integer", "", lambda text: _INTEGER.fullmatch(text) is not None
    if not codes:
        yield "number", "", lambda text: _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _bounded(column: Column, numbers: Sequence[float]) -> Column:
    """Return the column with bounds that are true of these numbers and far from them."""
    largest = max(map(abs, numbers), default=0.0)
    words = set(words_of(column.name))
    if words & {"lat", "latitude"} and largest <= 90:
        return msgspec.structs.replace(column, minimum=-90, maximum=90)
    if words & {"lon", "lng", "long", "longitude"} and largest <= 180:
        return msgspec.structs.replace(column, minimum=-180, maximum=180)
    if not largest or largest > 1e14:
        return column
    if words & {"year"} and min(numbers) >= 1000 and largest <= 3000:
        return msgspec.structs.replace(column, minimum=0, maximum=3000)
    bound = bound_of(largest)
    least = 0.0 if min(numbers) >= 0 and words & _AMOUNTS else -bound
    return msgspec.structs.replace(column, minimum=least, maximum=bound)


def bound_of(largest: float) -> float:
    """Return a bound far from the largest value that was seen: ten times as much, rounded up to 1, 2 or 5 times a power
    of ten."""
    number = largest * 10
    power = 10.0 ** math.floor(math.log10(number))
    return float(f"{next(one for one in (1, 2, 5, 10) if one * power >= number * 0.999999) * power:.6g}")


def _unit(name: str) -> str:
    inside = re.search(r"[(\[]([^)\]]{1,12})[)\]]\s*$", name)
    if inside:
        return inside[1]
    parts = re.split(r"[_ .-]+", name.lower())
    if len(parts) > 1 and parts[-1] == "m" and {"elevation", "elev", "depth", "height", "length"} & set(parts):
        return "m"
    if len(parts) > 1 and parts[-1] in ("c", "f") and {"temp", "temperature", "tmax", "tmin"} & set(parts):
        return f"°{parts[-1].upper()}"
    return _UNITS.get(parts[-1], "") if len(parts) > 1 else ""
