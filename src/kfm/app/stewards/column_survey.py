"""Looks at the columns of a table with places, and proposes which of them the public may see and in which form.

Names and values decide together. A doubtful column is withheld. The only values that leave this module are codes that
at least k rows share, because a masking policy lists them and readers see them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kfm.errors import BadInput
from kfm.model.masks import OWN, PLACES, ColumnRule
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.dates import is_date, is_moment

Columns = Mapping[str, Sequence[Any]]
MOST_CODES = 50
_LONG = 60  # characters from which a value is free text
_PAIRS = (
    ("decimallatitude", "decimallongitude"), ("latitude", "longitude"), ("lat", "lon"), ("lat", "lng"),
    ("lat", "long"), ("latdd", "londd"), ("latdd", "longdd"), ("latwgs84", "lonwgs84"), ("latitudedd", "longitudedd"),
    ("y", "x"), ("ycoord", "xcoord"), ("northing", "easting"),
)  # fmt: skip
_ID = frozenset(
    {
        "id", "no", "nr", "num", "number", "code", "catalog", "accession", "serial", "trinomial", "permit", "key",
        "site", "record", "labid"
    }
)  # fmt: skip
_PERSON = frozenset(
    {
        "name", "names", "owner", "landowner", "person", "people", "contact", "informant", "reporter", "reported",
        "recorder", "recorded", "collector", "collected", "finder", "excavator", "surveyor", "author", "phone",
        "telephone", "email", "mail", "tenant", "farmer", "user", "observer", "identified", "who", "by"
    }
)  # fmt: skip
_PLACE = frozenset(
    {
        "county", "township", "range", "section", "plss", "locality", "location", "place", "parcel", "quad",
        "quadrangle", "utm", "easting", "northing", "zone", "address", "street", "directions", "elevation", "elev",
        "altitude", "watershed", "river", "creek", "stream", "drainage", "municipality", "town", "city", "region",
        "state", "province", "country", "continent", "geohash", "wkt", "geom", "geometry", "datum", "bbox",
        "centroid", "where"
    }
)  # fmt: skip
_TEXT = frozenset(
    {
        "note", "notes", "remark", "remarks", "comment", "comments", "description", "desc", "details", "memo",
        "text", "story", "reference", "citation", "source", "url", "link", "history"
    }
)  # fmt: skip
_ACCURACY = frozenset({"accuracy", "locaccuracy", "precision", "uncertainty", "how", "georeferenced"})
_TIME = frozenset({"year", "date", "dug", "found", "excavated", "collected", "day", "month", "when", "time"})
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_TITLED = re.compile(r"(?:[A-Z]\.|[A-Z][\w'\u2019-]+)(?:,? (?:[A-Z]\.?|[A-Z][\w'\u2019-]+)){1,3}")  # A. Miller
_PART_OF_DATE = re.compile(r"[0-9]{4}(?:-(?:0[1-9]|1[0-2]))?")


class ColumnSeen(msgspec.Struct, frozen=True):
    """One column: what it seems to hold, and the rule under which it could be published; no rule: withheld."""

    name: str
    holds: str
    rule: ColumnRule | None = None


class Survey(msgspec.Struct, frozen=True):
    """The columns of a table. `latitude` is empty where the location is the geometry of a feature."""

    rows: int
    record_id: str
    latitude: str
    longitude: str
    digits: int  # decimal places of most coordinates
    columns: tuple[ColumnSeen, ...]


def survey(table: Columns, k: int, *, latitude: str = "", longitude: str = "", record_id: str = "") -> Survey:
    """Return what the columns of a table hold. A column that the caller names is taken for what he says. Raise BadInput
    if there is no location in degrees, or no column that identifies a record."""
    for given in (latitude, longitude, record_id):
        if given and given not in table:
            raise BadInput(
                f"the table has no column {printable(given)}", hint=f"it has {', '.join(map(printable, table))}"
            )
    place = _place(table, latitude, longitude)
    record_id = record_id or _record_id(table, place)
    degrees = [[_number(value) for value in table[name]] for name in place]
    seen = []
    for name, values in table.items():
        if name == record_id:
            seen.append(ColumnSeen(name, "record id"))
        elif name in place or name == "geometry":
            seen.append(ColumnSeen(name, ("latitude", "longitude")[place.index(name)] if name in place else "geometry"))
        else:
            seen.append(_seen(name, values, degrees, k))
    return Survey(
        rows=max(map(len, table.values()), default=0),
        record_id=record_id,
        latitude=place[0] if place else "",
        longitude=place[1] if place else "",
        digits=_digits(table, place),
        columns=tuple(seen),
    )


# ---------------------------------------------------------------------------------------------- place and key


def _place(table: Columns, latitude: str, longitude: str) -> tuple[str, ...]:
    """Return the columns of latitude and longitude; () if the location is the point of a feature."""
    pair = (latitude, longitude) if latitude and longitude else named_pair(table)
    if pair:
        if not (are_degrees(table[pair[0]], 90) and are_degrees(table[pair[1]], 180)):
            raise BadInput(
                f"columns {printable(pair[0])} and {printable(pair[1])} hold no degrees of latitude and longitude",
                hint="convert them to decimal degrees of WGS 84, or name other columns: --latitude and --longitude",
            )
        return pair
    if any(isinstance(one, dict) and one.get("type") == "Point" for one in table.get("geometry", ())):
        return ()
    raise BadInput(
        "no column of latitude and longitude was found, and no point of a feature",
        hint=f"name them: --latitude COLUMN --longitude COLUMN; there are {', '.join(map(printable, table))}",
    )


def named_pair(table: Columns) -> tuple[str, str] | None:
    """Return the columns that are named like latitude and longitude; None if there are none."""
    by_name = {"".join(_words(name)): name for name in table}
    return next(((by_name[a], by_name[b]) for a, b in _PAIRS if a in by_name and b in by_name), None)


def are_degrees(values: Sequence[Any], most: int) -> bool:
    """Return whether at least half of the values that are given are degrees."""
    given = [value for value in values if _text(value)]
    fitting = sum(abs(number) <= most for value in given if not math.isnan(number := _number(value)))
    return bool(given) and fitting * 2 >= len(given)


def _record_id(table: Columns, place: Sequence[str]) -> str:
    unique = [
        name
        for name, values in table.items()
        if name not in place
        and name != "geometry"
        and all(_is_short(value) for value in values)
        and len({_text(value) for value in values}) == len(values)
    ]
    named = [name for name in unique if _ID & set(_words(name)) or name.lower().endswith("id")]
    if not (named or unique):
        raise BadInput(
            "no column has another value in each row, so none identifies a record",
            hint="name one, or add one: --record-id COLUMN",
        )
    return (named or unique)[0]


def _is_short(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool) and 0 < len(_text(value)) <= _LONG


def _digits(table: Columns, place: Sequence[str]) -> int:
    """Return the decimal places that most coordinates have."""
    if place:
        texts = [_text(value) for name in place for value in table[name]]
    else:
        points = [one.get("coordinates") for one in table.get("geometry", ()) if isinstance(one, dict)]
        texts = [_text(value) for point in points if isinstance(point, list) for value in point[:2]]
    counts = Counter(len(text.partition(".")[2]) for text in texts if _NUMBER.fullmatch(text))
    return counts.most_common(1)[0][0] if counts else 0


# ---------------------------------------------------------------------------------------------- the other columns


def _seen(name: str, values: Sequence[Any], degrees: Sequence[Sequence[float]], k: int) -> ColumnSeen:
    words = set(_words(name))
    texts = [text for value in values if (text := _text(value))]
    if not texts:
        return ColumnSeen(name, "nothing")
    if not all(isinstance(value, (str, int, float, type(None))) for value in values):
        return ColumnSeen(name, "nested data")
    if words & _PLACE or "".join(words) in PLACES or name in OWN or _is_near(values, degrees):
        return ColumnSeen(name, "a place")
    if words & _ACCURACY:
        return ColumnSeen(name, "how exact the place is")
    if words & _TEXT or max(map(len, texts)) > _LONG or sum(text.count(" ") for text in texts) >= 2 * len(texts):
        return ColumnSeen(name, "free text")
    is_time = bool(words & _TIME)
    if _most(texts, lambda text: is_date(text) or is_moment(text) or (is_time and _is_part_of_date(text))):
        return ColumnSeen(name, "dates", ColumnRule(kind="date", to="decade"))
    if words & _PERSON or look_like_names(texts):
        return ColumnSeen(name, "names of sites or people")
    return _counted(name, texts, bool(words & _ID), k)


def look_like_names(texts: Sequence[str]) -> bool:
    """Return whether half of the different values are written as names of people are."""
    different = set(texts)
    return sum(_TITLED.fullmatch(text) is not None for text in different) * 2 >= len(different)


def _counted(name: str, texts: Sequence[str], named_as_id: bool, k: int) -> ColumnSeen:
    """Return a column of codes, numbers or identifiers."""
    counts = Counter(texts)
    if named_as_id and len(counts) * 10 > len(texts) * 9:
        return ColumnSeen(name, "identifiers")
    numbers = [number for text in texts if not math.isnan(number := _number(text))]
    if len(numbers) * 10 >= len(texts) * 9 and len(counts) > MOST_CODES // 5:
        return ColumnSeen(name, "numbers", ColumnRule(kind="number", step=_step(numbers)))
    shared = tuple(sorted(text for text, count in counts.items() if count >= k and is_printable(text)))
    if not shared or len(counts) > MOST_CODES:
        return ColumnSeen(name, "values that few rows share")
    return ColumnSeen(name, "codes", ColumnRule(kind="code", values=shared))


def _is_near(values: Sequence[Any], degrees: Sequence[Sequence[float]]) -> bool:
    """Return whether a fifth of the values, at least three, are about the latitude or longitude of their row."""
    for axis in degrees:
        near = 0
        for value, exact in zip(values, axis, strict=True):
            number = _number(value)
            near += not math.isnan(number) and not number.is_integer() and abs(abs(number) - abs(exact)) < 0.01
        if near >= max(3, len(values) / 5):
            return True
    return False


def _step(numbers: Sequence[float]) -> float:
    """Return a tenth of the range of most numbers, as one, two or five times a power of ten."""
    ordered = sorted(numbers)
    tail = len(ordered) // 20
    tenth = (ordered[-1 - tail] - ordered[tail]) / 10 or 1.0
    power = 10.0 ** math.floor(math.log10(tenth))
    return float(f"{next(nice for nice in (1, 2, 5, 10) if nice * power >= tenth * 0.999) * power:.6g}")


def _most(texts: Sequence[str], fits: Any) -> bool:
    return sum(map(bool, map(fits, texts))) * 10 >= len(texts) * 9


def _is_part_of_date(text: str) -> bool:
    return _PART_OF_DATE.fullmatch(text) is not None


def _words(name: str) -> list[str]:
    """Return the words of a column's name in lower case: siteName, site_name and SITE NAME have the same two."""
    return [word.lower() for word in _WORDS.findall(name)]


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _number(value: Any) -> float:
    text = _text(value)
    return float(text) if not isinstance(value, bool) and _NUMBER.fullmatch(text) else math.nan
