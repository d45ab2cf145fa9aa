"""The parameters of a STAC item search, by GET (texts) and by POST (JSON), as a search of the item index.

Every mistake names its parameter and what to write there. It quotes names of parameters and fields, and no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kfm.errors import BadInput
from kfm.model.records import Record
from kfm.model.search.field_choice import FieldChoice
from kfm.model.search.item_query import (
    DEFAULT_LIMIT,
    FIELDS,
    MOST_LIMIT,
    NEWEST_FIRST,
    ItemQuery,
    SortKey,
)
from kfm.parsing.cql2 import (
    MOST_POINTS,
    MOST_TEXT,
    FieldType,
    Filter,
    box_from,
    is_clean,
    known_field,
    parse_filter,
    shown,
)
from kfm.parsing.instants import instant_ms
from kfm.parsing.planar_geometry import Box, NoShape, Shape, shape_of
from kfm.parsing.strict_json import decode

PARAMETERS = ("bbox", "datetime", "ids", "collections", "intersects", "limit", "sortby", "fields", "filter",
              "filter-lang", "filter-crs", "token")  # fmt: skip
MOST_NAMES = 1_000  # ids, or collections
MOST_KEYS = 10
MOST_FIELDS = 200
MOST_JSON = 200_000  # characters of a geometry or a filter in a GET
CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"


class ItemSearch(Record, frozen=True):
    query: ItemQuery  # it allows nothing: the caller says which datasets, and decodes the token
    fields: FieldChoice | None  # None: whole items
    token: str  # of a page after the first; empty for the first one


def search_by_get(
    parameters: Iterable[tuple[str, str]], fields: Mapping[str, FieldType] = FIELDS, known: Iterable[str] = PARAMETERS
) -> ItemSearch:
    """Return the search that the parameters of a URL ask for. Raise BadInput for the first mistake."""
    found: dict[str, str] = {}
    for name, value in parameters:
        _check_name(name, known)
        if name in found:
            raise _mistake(name, "is given twice", "write it once")
        found[name] = value
    given: dict[str, Any] = dict(found)
    for name in ("ids", "collections"):
        if name in given:
            given[name] = given[name].split(",")
    if "bbox" in given:
        given["bbox"] = [_number(each) for each in given["bbox"].split(",", 6)]
    if "limit" in given:
        text = given["limit"]
        given["limit"] = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
    if "sortby" in given:
        given["sortby"] = [_signed(each, "+") for each in given["sortby"].split(",", MOST_KEYS)]
    if "fields" in given:
        given["fields"] = _signed_fields(given["fields"])
    for name in ("intersects", "filter"):
        if name in given:
            given[name] = _json(name, given[name], given.get("filter-lang"))
    return _search(given, fields)


def search_by_post(
    document: object, fields: Mapping[str, FieldType] = FIELDS, known: Iterable[str] = PARAMETERS
) -> ItemSearch:
    """Return the search that a JSON document asks for. Raise BadInput for the first mistake."""
    if not isinstance(document, dict):
        raise BadInput("the search is not an object", hint='write a JSON object such as {"limit": 10}')
    for name in document:
        _check_name(name, known)
    if document.get("fields", {}) is None:
        raise _mistake("fields", "is null", "leave it out, or write {} for the fields that every item has")
    return _search({name: value for name, value in document.items() if value is not None}, fields)


def _check_name(name: str, known: Iterable[str]) -> None:
    from difflib import get_close_matches

    names = list(known)
    if name not in names:
        close = get_close_matches(name[:40], names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(names)}"
        raise BadInput(f"unknown parameter {shown(name)}", hint=hint, parameter=name[:40])


def _search(given: dict[str, Any], fields: Mapping[str, FieldType]) -> ItemSearch:
    if "bbox" in given and "intersects" in given:
        raise _mistake("intersects", "is given together with bbox", "write only one of the two")
    crs = given.get("filter-crs", CRS84)
    if crs != CRS84:
        raise _mistake("filter-crs", "is not the one that is known here", f"leave it out, or write {CRS84}")

    def read(name: str, reader: Callable[[Any], Any]) -> Any:
        return reader(given[name]) if name in given else None

    query = ItemQuery(
        allowed={},
        collections=read("collections", lambda value: _names("collections", value)),
        ids=read("ids", lambda value: _names("ids", value)),
        bbox=read("bbox", _bbox),
        interval=read("datetime", interval_of),
        intersects=read("intersects", _intersects),
        filter=_filter(given, fields),
        sortby=NEWEST_FIRST if "sortby" not in given else _sort_keys(given["sortby"], fields),
        limit=DEFAULT_LIMIT if "limit" not in given else _limit(given["limit"]),
    )
    token = given.get("token", "")
    if not isinstance(token, str) or not is_clean(token) or len(token) > 4 * MOST_TEXT:
        raise _mistake("token", "is not one that was given out", "follow the link to the next page as it is")
    return ItemSearch(query=query, fields=read("fields", _fields), token=token)


def _mistake(name: str, what: str, hint: str) -> BadInput:
    return BadInput(f"{name} {what}", hint=hint, parameter=name)


def _number(text: str) -> float | None:
    try:
        return float(text) if len(text) < 40 and "_" not in text else None
    except ValueError:
        return None


def _bbox(value: Any) -> Box:
    return box_from(value, "bbox", _mistake)


def _names(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and value:  # some clients write one name without the list around it
        value = [value]
    if not isinstance(value, list) or not value:
        raise _mistake(name, "is not a list with something in it", "write at least one name, or leave it out")
    if len(value) > MOST_NAMES:
        raise _mistake(name, "is too long", f"write at most {MOST_NAMES:,} names")
    for each in value:
        if not isinstance(each, str) or not 0 < len(each) <= MOST_TEXT or not is_clean(each):
            raise _mistake(name, "holds something that is no name", f"names have 1 to {MOST_TEXT:,} characters")
    return tuple(dict.fromkeys(value))


def interval_of(value: Any) -> tuple[int | None, int | None]:
    """Return an instant or an interval of RFC 3339 as its first and its last millisecond; None is an open end."""
    hint = "write 2026-01-31T00:00:00Z, or two of these with / between them; an open end is .."
    if not isinstance(value, str) or len(value) > 200:
        raise _mistake("datetime", "is neither an instant nor an interval", hint)
    first, slash, last = value.partition("/")
    if not slash:
        last = first
    ends = [None if slash and each in ("", "..") else instant_ms(each) for each in (first, last)]
    for each, end in zip((first, last), ends, strict=True):
        if end is None and not (slash and each in ("", "..")):
            raise _mistake("datetime", "is neither an instant nor an interval", hint)
    start, end = ends
    if start is None and end is None:
        raise _mistake("datetime", "is open on both sides", "give it one end, or leave it out")
    if start is not None and end is not None and start > end:
        raise _mistake("datetime", "ends before it starts", "write the earlier instant first")
    return start, end


def _limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _mistake("limit", "is not a number of items", f"write a whole number from 1 to {MOST_LIMIT:,}")
    return min(value, MOST_LIMIT)


def _json(name: str, text: str, language: str | None) -> Any:
    if name == "filter" and (language == "cql2-text" or (language is None and not text.lstrip().startswith("{"))):
        raise _mistake(
            "filter", "is not CQL2 JSON", 'write JSON such as {"op": …, "args": […]} and filter-lang=cql2-json'
        )
    if len(text) > MOST_JSON:
        raise _mistake(name, "is too long", f"write at most {MOST_JSON:,} characters, or send it by POST")
    if not is_clean(text):
        raise _mistake(name, "holds a character that no text holds", "leave out NUL and half surrogate pairs")
    return decode(text.encode(), name)


def _intersects(value: Any) -> Shape:
    try:
        return shape_of(value, MOST_POINTS)
    except NoShape as problem:
        raise _mistake(
            f"intersects{':' if problem.pointer else ''}{problem.pointer}", problem.what, problem.hint
        ) from None


def _filter(given: Mapping[str, Any], fields: Mapping[str, FieldType]) -> Filter | None:
    if given.get("filter-lang", "cql2-json") != "cql2-json":
        raise _mistake("filter-lang", "is not one that is known here", "write cql2-json")
    return parse_filter(given["filter"], fields) if "filter" in given else None


def _signed(text: str, otherwise: str) -> dict[str, str]:
    """Return a field of a GET with its direction. A plus sign in a URL may have become a space."""
    sign = text[:1] if text[:1] in ("+", "-", " ") else ""
    return {"field": text.removeprefix(sign), "direction": "desc" if (sign or otherwise) == "-" else "asc"}


def _sort_keys(value: Any, fields: Mapping[str, FieldType]) -> tuple[SortKey, ...]:
    sortable = [name for name, kind in fields.items() if kind != "geometry"]
    if not isinstance(value, list) or not 0 < len(value) <= MOST_KEYS:
        raise _mistake("sortby", f"is not a list of 1 to {MOST_KEYS} fields", f"write some of {', '.join(sortable)}")
    keys: dict[str, SortKey] = {}
    for each in value:
        direction = each.get("direction", "asc") if isinstance(each, dict) else None
        if not isinstance(each, dict) or set(each) - {"field", "direction"} or direction not in ("asc", "desc"):
            raise _mistake(
                "sortby", "holds something else than fields", '{"field": "datetime", "direction": "desc"} is one'
            )
        name = each.get("field")
        found = known_field(name, fields) if isinstance(name, str) else ""
        if found not in sortable:
            said = f"names {shown(name)}, which nothing is sorted by" if isinstance(name, str) else "names no field"
            raise _mistake("sortby", said, f"write some of {', '.join(sortable)}")
        keys.setdefault(found, SortKey(field=found, kind=fields[found], descending=direction == "desc"))
    return tuple(keys.values())


def _signed_fields(text: str) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {"include": [], "exclude": []}
    for each in text.split(",", MOST_FIELDS) if text.strip() else ():
        said = _signed(each, "+")
        chosen["exclude" if said["direction"] == "desc" else "include"].append(said["field"])
    return {name: names for name, names in chosen.items() if names}


def _fields(value: Any) -> FieldChoice:
    hint = 'write {"include": ["id"], "exclude": ["geometry"]}, or fields=id,-geometry'
    if not isinstance(value, dict) or set(value) - {"include", "exclude"}:
        raise _mistake("fields", "is not a choice of fields", hint)
    lists = [value.get("include") or [], value.get("exclude") or []]
    for names in lists:
        if not isinstance(names, list) or len(names) > MOST_FIELDS:
            raise _mistake("fields", f"is not a choice of at most {MOST_FIELDS} fields", hint)
        if not all(isinstance(each, str) and 0 < len(each) <= MOST_TEXT for each in names):
            raise _mistake("fields", "holds something that is no name of a field", hint)
    from_all = "include" not in value and bool(lists[1])
    return FieldChoice(include=tuple(lists[0]), exclude=tuple(lists[1]), from_all=from_all)
