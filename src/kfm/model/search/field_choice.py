"""Which fields of an item a search wants, by the rules of the STAC fields extension."""

from __future__ import annotations

from typing import Any

from kfm.model.records import Record

# What is added to every choice, so that what is returned is a STAC item unless the choice takes something away.
ALWAYS = ("id", "type", "stac_version", "collection", "geometry", "bbox", "links", "assets", "properties.datetime",
          "properties.start_datetime", "properties.end_datetime")  # fmt: skip
_OF_ITEMS = frozenset({"id", "type", "stac_version", "stac_extensions", "collection", "geometry", "bbox", "links",
                       "assets", "properties"})  # fmt: skip


class FieldChoice(Record, frozen=True):
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def apply_fields(item: dict[str, Any], fields: FieldChoice | None) -> dict[str, Any]:
    """Return the chosen fields of an item, and those that every item has. A field that the item does not have is left
    out without an error. The item itself is not changed."""
    if fields is None:
        return item
    chosen: dict[str, Any] = {}
    for name in (*ALWAYS, *fields.include):
        _take(item, chosen, _path(item, name))
    for name in fields.exclude:
        chosen = _without(chosen, _path(item, name))
    return chosen


def _path(item: dict[str, Any], name: str) -> list[str]:
    """Return where a field is: the name of a property may stand without `properties.` before it."""
    path = name.split(".")
    if path[0] in _OF_ITEMS or path[0] in item:
        return path
    return ["properties", *path]


def _take(source: dict[str, Any], target: dict[str, Any], path: list[str]) -> None:
    for n, name in enumerate(path):
        if name not in source:
            return
        value = source[name]
        if n == len(path) - 1 or not isinstance(value, dict):
            if n == len(path) - 1:
                target[name] = value
            return
        if target.get(name) is value:  # it is chosen as a whole
            return
        source, target = value, target.setdefault(name, {})


def _without(value: dict[str, Any], path: list[str]) -> dict[str, Any]:
    if path[0] not in value:
        return value
    left = {name: inner for name, inner in value.items() if name != path[0]}
    inner = value[path[0]]
    if len(path) > 1:
        left[path[0]] = _without(inner, path[1:]) if isinstance(inner, dict) else inner
    return left
