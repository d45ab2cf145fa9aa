"""The rules of STAC 1.0 and 1.1 for items, collections and catalogs, checked without a network.

    all           stac_version, id, links that have href and rel; stac_extensions are texts
    item          geometry, and a bbox around it; datetime, or null with start_datetime and end_datetime, in
                  UTC and in order; assets that have href; a collection exactly if a link leads to it
    collection    description, license, extent with its boxes and intervals; providers have names
    catalog       description

Columns are looked up in the properties of an item, and in a collection or catalog itself. Only released versions of
STAC are accepted. The rules of extensions are not checked here: each extension is noted, and a `json_schema` can check
it. Findings do not show the names of assets, because the source chose them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from kfm.parsing.dates import is_day
from kfm.validation.geojson import Flaw, bbox_flaw, feature_flaw, place_flaw, positions

MAX_BREAKS = 20  # reported for each record
NEAR = 0.01  # degrees that a geometry may lie outside of its bounding box: boxes are rounded

Break = tuple[str, str, str]  # JSON pointer, rule, message

_VERSION = re.compile(r"1\.[01]\.(?:0|[1-9][0-9]{0,3})(-[0-9A-Za-z.-]{1,20})?")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(?:Z|\+00:00)"
)


def stac_flaw(record: Any, *, alone: bool) -> Flaw | None:
    """Return what makes a record unreadable as item, collection or catalog, so that it has no columns either. A list
    has only items."""
    if type(record) is not dict:
        return "stac.shape", "this is not an object"
    if record.get("type") == "Feature":
        return feature_flaw(record)
    if not alone:
        return "stac.shape", "this is not an item"
    if record.get("type") not in ("Collection", "Catalog"):
        return "stac.shape", "this is neither an item nor a collection nor a catalog"
    return None


def stac_breaks(record: dict[str, Any]) -> list[Break]:
    """Return the rules of STAC that a readable record breaks, at most twenty."""
    return list(islice(_breaks(record), MAX_BREAKS))


def _breaks(record: dict[str, Any]) -> Iterator[Break]:
    version = record.get("stac_version")
    known = _VERSION.fullmatch(version) if type(version) is str else None
    if known is None:
        yield "/stac_version", "stac.version", "the stac_version is no release of 1.0 or 1.1"
    elif known[1]:
        message = "the stac_version is a beta or release candidate of 1.0 or 1.1, and not the release"
        yield "/stac_version", "stac.version", message
    yield from _texts(record, "id")
    yield from _links(record)
    extensions = record.get("stac_extensions", [])
    if type(extensions) is not list or any(type(name) is not str for name in extensions):
        yield "/stac_extensions", "stac.extensions", "the stac_extensions are not a list of texts"
    if record["type"] == "Feature":
        yield from _item(record)
        return
    yield from _texts(record, "description")
    if record["type"] == "Collection":
        yield from _collection(record)


def _texts(record: dict[str, Any], *names: str) -> Iterator[Break]:
    for name in names:
        if type(record.get(name)) is not str or not record[name]:
            yield f"/{name}", "stac.required", "it is not there, or is no text"


def _links(record: dict[str, Any]) -> Iterator[Break]:
    links = record.get("links")
    if type(links) is not list:
        yield "/links", "stac.links", "there is no list of links"
        return
    for position, link in enumerate(links):
        if type(link) is not dict or not _filled(link.get("href")) or not _filled(link.get("rel")):
            yield f"/links/{position}", "stac.links", "the link has no href, or no rel"


def _filled(value: Any) -> bool:
    return type(value) is str and value != ""


def _item(item: dict[str, Any]) -> Iterator[Break]:
    if type(item.get("assets")) is not dict:
        yield "/assets", "stac.assets", "there are no assets"
    else:
        yield from _assets(item)
    yield from _when(item["properties"] or {})
    flaw = place_flaw(item)
    if flaw is not None:
        yield "", *flaw
    else:
        yield from _where(item)
    links = item["links"] if type(item.get("links")) is list else []
    led = any(type(link) is dict and link.get("rel") == "collection" for link in links)
    if led and not _filled(item.get("collection")):
        yield "/collection", "stac.collection", "a link leads to the collection, but the item does not name it"
    elif not led and item.get("collection") is not None:
        yield "/collection", "stac.collection", "the item names a collection, but no link leads to it"


def _assets(record: dict[str, Any]) -> Iterator[Break]:
    for asset in record["assets"].values():
        if type(asset) is not dict or not _filled(asset.get("href")):
            yield "/assets/*", "stac.assets", "an asset has no href"
            return


def _when(properties: dict[str, Any]) -> Iterator[Break]:
    at = "/properties/{}".format
    moments = {name: moment(properties.get(name)) for name in ("datetime", "start_datetime", "end_datetime")}
    for name, found in moments.items():
        if found is None and properties.get(name) is not None:
            yield at(name), "stac.datetime", "it is no date and time in UTC (RFC 3339)"
    begin, end = (properties.get(name) is not None for name in ("start_datetime", "end_datetime"))
    if "datetime" not in properties:
        yield at("datetime"), "stac.datetime", "there is no datetime, not even null"
    if begin is not end or (properties.get("datetime") is None and not begin):
        yield at("start_datetime"), "stac.datetime", "start_datetime and end_datetime are not both there"
    start, stop = moments["start_datetime"], moments["end_datetime"]
    if start is not None and stop is not None and start > stop:
        yield at("end_datetime"), "stac.datetime", "the end is before the start"


def moment(value: Any) -> str | None:
    """Return a text that sorts by time, for a moment in UTC; None for everything else."""
    found = _MOMENT.fullmatch(value) if type(value) is str else None
    if found is None or not is_day(int(found[1]), int(found[2]), int(found[3])):
        return None
    return found[0][:19] + (found[4] or ".")[1:].ljust(9, "0")


def _where(item: dict[str, Any]) -> Iterator[Break]:
    box, geometry = item.get("bbox"), item["geometry"]
    if box is None:
        if geometry is not None:
            yield "/bbox", "stac.bbox", "there is a geometry, but no bounding box"
        return
    if geometry is None:
        yield "/bbox", "stac.bbox", "there is a bounding box, but no geometry"
        return
    west, south, east, north = box[0], box[1], box[len(box) // 2], box[len(box) // 2 + 1]
    if south > north:
        yield "/bbox", "stac.bbox", "the bounding box has its south north of its north"
        return
    across = east if west <= east else east + 360  # a box may cross the antimeridian
    for longitude, latitude in positions(geometry):
        inside = any(west - NEAR <= longitude + turn <= across + NEAR for turn in (0, 360, -360))
        if not inside or not south - NEAR <= latitude <= north + NEAR:
            yield "/bbox", "stac.bbox", f"the geometry lies more than {NEAR} degrees outside of the bounding box"
            return


def _collection(record: dict[str, Any]) -> Iterator[Break]:
    yield from _texts(record, "license")
    extent = record.get("extent")
    if type(extent) is not dict:
        yield "/extent", "stac.extent", "there is no extent"
    else:
        yield from _extent(extent)
    if "assets" in record:
        if type(record["assets"]) is not dict:
            yield "/assets", "stac.assets", "the assets are not an object"
        else:
            yield from _assets(record)
    providers = record.get("providers", [])
    if type(providers) is not list or any(type(p) is not dict or not _filled(p.get("name")) for p in providers):
        yield "/providers", "stac.providers", "the providers are not a list, or one has no name"


def _extent(extent: dict[str, Any]) -> Iterator[Break]:
    boxes = _listed(extent.get("spatial"), "bbox")
    if not boxes:
        yield "/extent/spatial/bbox", "stac.extent", "there is no list of bounding boxes"
    for position, box in enumerate(boxes):
        if box is None or bbox_flaw({"bbox": box}) is not None:
            message = "the bounding box is not four or six numbers, or lies outside longitude ±180 or latitude ±90"
            yield f"/extent/spatial/bbox/{position}", "stac.extent", message
    spans = _listed(extent.get("temporal"), "interval")
    if not spans:
        yield "/extent/temporal/interval", "stac.extent", "there is no list of intervals"
    for position, span in enumerate(spans):
        if type(span) is not list or len(span) != 2 or not _in_order(*span):
            message = "the interval is not two instants in UTC in order, or null for an open end"
            yield f"/extent/temporal/interval/{position}", "stac.extent", message


def _listed(owner: Any, name: str) -> list[Any]:
    found = owner.get(name) if type(owner) is dict else None
    return found if type(found) is list else []


def _in_order(start: Any, stop: Any) -> bool:
    first, last = moment(start), moment(stop)
    if (first is None and start is not None) or (last is None and stop is not None):
        return False
    return first is None or last is None or first <= last
