"""Looks for signs that a table must not be public as it is: places of sites, and names of people.

The words in names of columns and files are signs, and so are values with an unmistakable form: graves next to places in
any notation, site numbers, addresses and numbers of people.
A sign names a column, never a value. A sign too many costs a person one flag; a sign too few may lead to a grave.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from kfm.app.stewards.column_survey import are_degrees, look_like_names, named_pair
from kfm.parsing.characters import printable
from kfm.validation.column_profile import words_of

_SITES = frozenset(
    {
        "site", "sites", "sitename", "siteid", "burial", "burials", "grave", "graves", "cemetery", "cemeteries",
        "mound", "mounds", "petroglyph", "petroglyphs", "rockshelter", "archaeological", "archaeology",
        "archeological", "archeology", "artifact", "artifacts", "excavation", "excavations", "trinomial", "sacred",
        "shrine", "nest", "nests", "nesting", "roost", "roosts", "hibernaculum", "radiocarbon", "ossuary", "midden",
        "species", "taxon", "scientificname", "cave", "caves", "den", "dens", "remains"
    }
)  # fmt: skip
_IN_VALUES = re.compile(
    r"\b(?:burials?|graves?|gravesites?|cemeter(?:y|ies)|petroglyphs?|ossuar(?:y|ies)|sacred|human remains|cairns?)\b",
    re.IGNORECASE,
)
_TRINOMIAL = re.compile(r"(?:0?[1-9]|[1-4][0-9]|50)[A-Z]{2}[0-9]{1,5}")  # state, county, number: 14RY1
_PLACE_IN_TEXT = re.compile(
    r"(?:POINT|LINESTRING|POLYGON)\s*Z?M?\s*\(|"  # WKT
    r"[0-9]\s*[°º]\s*[0-9]|"  # degrees and minutes
    r"(?<![0-9.])[0-9]{1,3}\.[0-9]{3,}\s*[°º]?\s*[NSEW]?\s*[,;/ ]\s*[-+]?[0-9]{1,3}\.[0-9]{3,}(?![0-9.])|"  # a pair
    r"\b[0-9]{1,2}[C-X]\s?[A-HJ-NP-Z]{2}\s?[0-9]{3,5}\s?[0-9]{3,5}\b",  # MGRS
    re.IGNORECASE,
)
_EXACT = re.compile(r"[-+]?[0-9]{1,3}\.[0-9]{4,}")  # a number as exact as degrees of a place are
_DEEPEST = 6  # levels of nested data that are looked into
_LOCATED = frozenset({"township", "section", "plss", "utm", "easting", "northing", "geometry", "wkt", "geom"})
_PEOPLE = frozenset(
    {
        "owner", "landowner", "person", "people", "informant", "collector", "finder", "excavator", "surveyor", "phone",
        "telephone", "email", "tenant", "farmer", "patient", "student", "employee", "surname", "firstname", "lastname",
        "forename", "birthdate", "dob", "ssn", "contact", "reporter", "observer"
    }
)  # fmt: skip
_PAIRS = (
    {"first", "name"}, {"last", "name"}, {"full", "name"}, {"given", "name"}, {"family", "name"}, {"recorded", "by"},
    {"collected", "by"}, {"reported", "by"}, {"identified", "by"}, {"birth", "date"},
)  # fmt: skip
_ADDRESS = re.compile(
    r"[^@\s]+@[^@\s]+\.[a-z]{2,}|"
    r"(?<![0-9.-])(?:\([0-9]{3}\) ?|[0-9]{3}[-. ])[0-9]{3}[-. ][0-9]{4}(?![0-9.-])|"  # a telephone
    r"(?<![0-9-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![0-9-])",  # a social security number
    re.IGNORECASE,
)
_OF_PLACES = re.compile(
    r"\b(?:county|city|town|river|creek|lake|station|airport|state|school|park|field|formation|member|group)\b",
    re.IGNORECASE,
)


_THINGS = frozenset(
    {
        "well", "station", "place", "county", "state", "lease", "field", "formation", "file", "column", "school",
        "plant", "common", "scientific", "river", "city", "town", "variable", "layer", "product", "company", "country"
    }
)  # fmt: skip


class Sign(NamedTuple):
    """One reason to look before something is published."""

    kind: str  # `site` or `person`
    column: str  # empty: the name of the file or of the dataset
    why: str


def signs(table: Mapping[str, Sequence[Any]], named: Sequence[str], *, has_shapes: bool) -> list[Sign]:
    """Return the signs in a table and in the names of its file, dataset and title. `has_shapes`: its rows have points,
    lines or areas."""
    table = _flat(table)
    located = cache(lambda: has_shapes or _has_places(table) or _holds_places(table))  # looks at every value
    found = []
    if any(_SITES & {*words_of(one), *one.lower().split()} for one in named) and located():
        found.append(Sign("site", "", "its name speaks of sites, and it has places"))
    for column, values in table.items():
        words = set(words_of(column))
        texts = [value for value in values if isinstance(value, str) and value.strip()]
        if (_SITES & words or "".join(words_of(column)) in _SITES) and located():
            found.append(Sign("site", column, f"column {printable(column)} is about sites, and there are places"))
        elif any(_IN_VALUES.search(text) for text in texts) and located():
            found.append(Sign("site", column, f"column {printable(column)} speaks of graves, and there are places"))
        elif _mostly(_TRINOMIAL.fullmatch, texts) and len(set(texts)) >= 3:
            found.append(Sign("site", column, f"column {printable(column)} holds what is written like site numbers"))
        if why := _person(words, texts):
            found.append(Sign("person", column, f"column {printable(column)} {why}"))
    return found


def place_columns(table: Mapping[str, Sequence[Any]]) -> tuple[str, str] | None:
    """Return the columns of latitude and longitude in degrees; None if there are none."""
    pair = named_pair(table)
    if pair is None or not (are_degrees(table[pair[0]], 90) and are_degrees(table[pair[1]], 180)):
        return None
    return pair


def _has_places(table: Mapping[str, Sequence[Any]]) -> bool:
    words = set().union(*(words_of(name) for name in table)) if table else set()
    degrees = words & {"lat", "latitude"} and words & {"lon", "lng", "long", "longitude"}
    return named_pair(table) is not None or bool(degrees or words & _LOCATED)


def _holds_places(table: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether values are places, whatever their columns are called: in a text, or as two columns of numbers that
    are as exact as degrees."""
    exact = 0
    for values in table.values():
        texts = [str(value).strip() for value in values if isinstance(value, (str, float))]
        if any(_PLACE_IN_TEXT.search(text) for text in texts):
            return True
        exact += _mostly(_EXACT.fullmatch, texts) and are_degrees(values, 180)
    return exact >= 2


def _mostly(holds: Callable[[str], object], texts: Sequence[str]) -> bool:
    return bool(texts) and sum(bool(holds(text.strip())) for text in texts) * 2 >= len(texts)


def _flat(table: Mapping[str, Sequence[Any]], depth: int = 0) -> dict[str, Sequence[Any]]:
    """Return a table with a column for each name in nested values, too."""
    found: dict[str, Sequence[Any]] = {}
    for column, values in table.items():
        found[column] = values
        items = [one for value in values for one in (value if isinstance(value, list) else [value])]
        if len(items) > len(values):
            found[column] = [one for one in items if not isinstance(one, (dict, list))]
        nested = [one for one in items if isinstance(one, dict)]
        if nested and depth < _DEEPEST:
            names = list(dict.fromkeys(str(name) for one in nested for name in one))
            inner = {f"{column} {name}": [one.get(name) for one in nested] for name in names}
            found |= _flat(inner, depth + 1)
    return found


def _person(words: set[str], texts: Sequence[str]) -> str:
    """Return how a column seems to name people; empty if it does not."""
    if _mostly(_ADDRESS.search, texts):
        return "holds addresses or numbers of people"
    if (_PEOPLE & words or any(pair <= words for pair in _PAIRS)) and texts:
        return "is named as one about people"
    is_name = bool(words & {"name", "names", "who"}) and not words & _THINGS and len(set(texts)) >= 3
    if is_name and look_like_names(texts) and not any(_OF_PLACES.search(text) for text in texts):
        return "holds what is written like names of people"
    return ""
