"""The description of an output: its place, its time and its STAC id.

An author gives it, or it is read from a GeoJSON or STAC document of at most `MOST_READ` bytes. Missing parts are left
out; a document that cannot be read has no description.
"""

from __future__ import annotations

from typing import Any

from kfm.errors import BadInput, Refused
from kfm.model.updater import Output
from kfm.parsing.characters import is_printable
from kfm.parsing.strict_json import decode
from kfm.validation.geojson import bbox_flaw, collection_flaw, feature_flaw, place_flaw, positions
from kfm.validation.stac_rules import moment

MOST_READ = 1 << 20
PARQUET = "application/vnd.apache.parquet"
OPEN = ".."  # an open start or end of an interval


def describes_itself(media_type: str) -> bool:
    return media_type.partition(";")[0].strip() in ("application/geo+json", PARQUET)


def is_read_from_its_end(media_type: str) -> bool:
    """Return whether the last `MOST_READ` bytes of this media type are enough, however long the output is."""
    return media_type.partition(";")[0].strip() == PARQUET


def given_by_author(output: Output) -> dict[str, Any]:
    """Return the author's description, checked. The error shows no value, because it may be a protected place."""
    found: dict[str, Any] = {}
    if output.bbox is not None:
        box = list(output.bbox) if isinstance(output.bbox, (list, tuple)) else []
        if bbox_flaw({"bbox": box}) is not None or any(x - x != 0 for x in box) or not _upright(box):
            raise Refused(
                "the bbox of an Output is not four or six numbers: west, south, east, north in degrees",
                hint="with heights: west, south, lowest, east, north, highest; south is not above north",
            )
        found["bbox"] = box
    if output.datetime is not None:
        if not is_datetime(output.datetime):
            raise Refused(
                "the datetime of an Output is neither a moment in UTC nor an interval of two",
                hint='for example "2026-01-31T12:00:00Z", or "2026-01-01T00:00:00Z/..", .. where it is open',
            )
        found["datetime"] = output.datetime
    if output.stac_id is not None:
        if not _is_id(output.stac_id):
            raise Refused("the stac_id of an Output is not a short printable text", hint="at most 200 characters")
        found["stac_id"] = output.stac_id
    return found


def is_datetime(text: Any) -> bool:
    """Return whether a text is a moment in UTC (RFC 3339), or two with / between them, of which one may be open."""
    if type(text) is not str:
        return False
    start, slash, end = text.partition("/")
    if not slash:
        return moment(text) is not None
    first, last = moment(start), moment(end)
    if (first is None and start != OPEN) or (last is None and end != OPEN):
        return False
    return first <= last if first is not None and last is not None else start != end


def read_from(body: bytes, media_type: str = "application/geo+json") -> dict[str, Any]:
    """Return the description in a GeoJSON document, or at the end of a GeoParquet file."""
    if is_read_from_its_end(media_type):
        from kfm.validation.geoparquet import described

        return described(body)
    try:
        document = decode(body, "the output")
    except BadInput:
        return {}
    if type(document) is not dict:
        return {}
    features = [document] if document.get("type") == "Feature" else document.get("features")
    if features != [document] and collection_flaw(document) is not None:
        return {}
    if type(features) is not list or any(feature_flaw(one) or place_flaw(one) for one in features):
        return {}
    found: dict[str, Any] = {}
    box = document.get("bbox")
    if box is None:
        box = _around(features)
    if box is not None and _upright(box):
        found["bbox"] = box
    if document.get("type") == "Feature" and type(document.get("stac_version")) is str:
        found |= _of_item(document)
    return found


def _of_item(item: dict[str, Any]) -> dict[str, str]:
    """Return time and id of a STAC item. Its interval is preferred to its single moment."""
    found: dict[str, str] = {}
    properties = item["properties"] or {}
    interval = f"{properties.get('start_datetime')}/{properties.get('end_datetime')}"
    for when in (interval, properties.get("datetime")):
        if isinstance(when, str) and is_datetime(when):
            found["datetime"] = when
            break
    if _is_id(item.get("id")):
        found["stac_id"] = item["id"]
    return found


def _around(features: list[dict[str, Any]]) -> list[float] | None:
    """Return west, south, east and north of all positions of these features; None if there are none."""
    places = [place for one in features if one["geometry"] is not None for place in positions(one["geometry"])]
    if not places:
        return None
    longitudes, latitudes = zip(*places, strict=True)
    return [min(longitudes), min(latitudes), max(longitudes), max(latitudes)]


def _upright(box: list[float]) -> bool:
    """Return whether a box has south below north and low below high; west may be east of east, across the
    antimeridian."""
    half = len(box) // 2
    return all(low <= high for low, high in zip(box[1:half], box[half + 1 :], strict=True))


def _is_id(value: object) -> bool:
    return type(value) is str and 0 < len(value) <= 200 and is_printable(value)
