"""What an index of STAC items holds, what a search asks of it, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kfm.model.records import Record
from kfm.parsing.cql2 import FieldType, Filter, Scalar, is_clean
from kfm.parsing.instants import instant_ms
from kfm.parsing.planar_geometry import Box, Shape

DEFAULT_LIMIT, MOST_LIMIT = 10, 1000

# The fields that every index knows by itself. All others are looked up in the properties of an item.
OWN_FIELDS: dict[str, FieldType] = {
    "id": "text",
    "collection": "text",
    "datetime": "span",
    "start_datetime": "instant",
    "end_datetime": "instant",
    "geometry": "geometry",
}
# The fields that a search of the items of KFM may name.
FIELDS: dict[str, FieldType] = {
    **OWN_FIELDS,
    "created": "instant",
    "updated": "instant",
    "expires": "instant",
    "version": "text",
    "title": "text",
    "kfm:id": "text",
    "kfm:run_id": "text",
    "table:row_count": "number",
    # Clients of several catalogs filter by these. An item without them is not found, and the search is no error.
    "eo:cloud_cover": "number",
    "gsd": "number",
    "platform": "text",
    "mission": "text",
}


class IndexedItem(Record, frozen=True):
    """One STAC item. An item without times, or without a box, is not found by them."""

    collection: str  # the dataset
    version: str
    id: str
    bbox: Box | None  # west, south, east, north; west is larger than east across the antimeridian
    start_ms: int | None  # only one of the two missing: open on that side
    end_ms: int | None
    properties: dict[str, Scalar]  # an instant in milliseconds since 1970
    body: bytes  # canonical JSON


class SortKey(Record, frozen=True):
    field: str
    kind: FieldType = "text"
    descending: bool = False


NEWEST_FIRST = (SortKey(field="datetime", kind="span", descending=True),)
Position = tuple[Scalar | None, ...]  # of a row in the order of a search: its sort keys, its collection, its id


class ItemQuery(Record, frozen=True):
    """A search. A missing condition is None; an empty list selects nothing."""

    allowed: Mapping[str, str]  # dataset → mark; no other row is read. Empty: none
    collections: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    bbox: Box | None = None
    interval: tuple[int | None, int | None] | None = None  # both ends belong to it; None is open
    intersects: Shape | None = None
    filter: Filter | None = None
    sortby: tuple[SortKey, ...] = NEWEST_FIRST  # rows that are equal in it are ordered by collection and id
    limit: int = DEFAULT_LIMIT
    after: Position | None = None  # the position of the last row of the page before


class ItemPage(Record, frozen=True):
    bodies: list[bytes]
    next: Position | None  # of the last row of this page; None at the end
    matched: int | None  # how many items match on all pages; None if counting would take long


def indexed_item(dataset: str, version: str, item: dict[str, Any], body: bytes) -> IndexedItem:
    """Return a STAC item of a dataset as the index holds it. Properties that are not scalars are left out."""
    found = item.get("properties") or {}
    start = found.get("start_datetime") or found.get("datetime")
    end = found.get("end_datetime") or found.get("datetime")
    return IndexedItem(
        collection=dataset,
        version=version,
        id=item["id"],
        bbox=_flat(item.get("bbox")),
        start_ms=instant_ms(start) if start else None,
        end_ms=instant_ms(end) if end else None,
        properties=dict(_scalars(found)),
        body=body,
    )


def _flat(box: Any) -> Box | None:
    if not isinstance(box, list | tuple) or len(box) not in (4, 6):
        return None
    half = len(box) // 2
    return box[0], box[1], box[half], box[half + 1]


def _scalars(properties: dict[str, Any]) -> Iterator[tuple[str, Scalar]]:
    for name, value in properties.items():
        if name in OWN_FIELDS:
            continue
        if isinstance(value, str) and FIELDS.get(name) == "instant":
            ms = instant_ms(value)
            if ms is not None:
                yield name, ms
        elif isinstance(value, str):
            if is_clean(value):
                yield name, value
        elif isinstance(value, bool) or (isinstance(value, int | float) and math.isfinite(value)):
            yield name, value


def with_position(query: ItemQuery, after: Position | None) -> ItemQuery:
    """Return the same search after a position: its next page."""
    return msgspec.structs.replace(query, after=after)
