"""Which fields of an item a search wants, by the rules of the STAC fields extension."""

from __future__ import annotations

from typing import Any

from kfm.model.records import Record

# What tells which item it is: a choice that names fields to include gets these, too.
NAMED = ("id", "type", "stac_version", "collection")
# What an empty choice stands for: a STAC item with little in it.
DEFAULT = (*NAMED, "geometry", "bbox", "links", "assets", "properties.datetime", "properties.start_datetime",
           "properties.end_datetime")  # fmt: skip
_OF_ITEMS = frozenset({"id", "type", "stac_version", "stac_extensions", "collection", "geometry", "bbox", "links",
                       "assets", "properties"})  # fmt: skip


class FieldChoice(Record, frozen=True):
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    from_all: bool = False  # nothing is said about what to include: the whole item, without what is excluded


def apply_fields(item: dict[str, Any], fields: FieldChoice | None) -> dict[str, Any]:
    """Return the chosen fields of an item. A field that the item does not have is left out without an error, and one
    that is both included and excluded is there. The item itself is not changed."""
    if fields is None:
        return item
    included = [_path(item, name) for name in fields.include]
    chosen: dict[str, Any] = {}
    if fields.from_all:
        chosen = item
    elif included:
        for path in (*([name] for name in NAMED), *included):
            _take(item, chosen, path)
    else:
        for name in DEFAULT:
            _take(item, chosen, _path(item, name))
    for name in fields.exclude:
        path = _path(item, name)
        if not any(each[: len(path)] == path for each in included):
            chosen = _without(chosen, path)
    return chosen


def _path(item: dict[str, Any], name: str) -> list[str]:
    """Return where a field is: the name of a property may stand without `properties.` before it."""
    path = name.split(".")
    if path[0] in _OF_ITEMS or path[0] in item:
        return path
    return ["properties", *path]


def _take(source: dict[str, Any], target: dict[str, Any], path: list[str]) -> None:
    """Copy the field at a path. A field that is not there leaves no empty object behind."""
    value: Any = source
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return
        value = value[name]
    for name in path[:-1]:
        if target.get(name) is source[name]:  # it is chosen as a whole
            return
        source, target = source[name], target.setdefault(name, {})
    target[path[-1]] = value


def _without(value: dict[str, Any], path: list[str]) -> dict[str, Any]:
    if path[0] not in value:
        return value
    left = {name: inner for name, inner in value.items() if name != path[0]}
    inner = value[path[0]]
    if len(path) > 1:
        left[path[0]] = _without(inner, path[1:]) if isinstance(inner, dict) else inner
    return left
