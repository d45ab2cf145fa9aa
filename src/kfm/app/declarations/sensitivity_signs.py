"""Looks for signs that a table must not be public as it is: places of sites, and names of people.

A sign names a column, never a value. A sign too many costs a person one flag; a sign too few may lead to a grave.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    r"\b(?:burials?|graves?|gravesites?|cemeter(?:y|ies)|petroglyphs?|ossuar(?:y|ies)|sacred)\b", re.IGNORECASE
)
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
_MAIL = re.compile(r"[^@\s]+@[^@\s]+\.[a-z]{2,}", re.IGNORECASE)
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


def signs(table: Mapping[str, Sequence[Any]], named: Sequence[str], *, has_points: bool) -> list[Sign]:
    """Return the signs in a table and in the names of its file, dataset and title."""
    located = has_points or _has_places(table)
    found = []
    if located:
        found += [
            Sign("site", "", "its name speaks of sites, and it has places")
            for one in named
            if _SITES & {*words_of(one), *one.lower().split()}
        ][:1]
    for column, values in table.items():
        words = set(words_of(column))
        texts = [value for value in values if isinstance(value, str) and value.strip()]
        if located and (_SITES & words or "".join(words_of(column)) in _SITES):
            found.append(Sign("site", column, f"column {printable(column)} is about sites, and there are places"))
        elif located and any(_IN_VALUES.search(text) for text in texts):
            found.append(Sign("site", column, f"column {printable(column)} speaks of graves, and there are places"))
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


def _person(words: set[str], texts: Sequence[str]) -> str:
    """Return how a column seems to name people; empty if it does not."""
    if texts and sum(_MAIL.fullmatch(text.strip()) is not None for text in texts) * 2 >= len(texts):
        return "holds addresses of people"
    if (_PEOPLE & words or any(pair <= words for pair in _PAIRS)) and texts:
        return "is named as one about people"
    is_name = bool(words & {"name", "names", "who"}) and not words & _THINGS and len(set(texts)) >= 3
    if is_name and look_like_names(texts) and not any(_OF_PLACES.search(text) for text in texts):
        return "holds what is written like names of people"
    return ""
