"""The shape of a GeoJSON feature (RFC 7946): members, geometry, coordinates in longitude and latitude.

Longitudes lie within ±180 and latitudes within ±90; a line or ring may cross the antimeridian, and
a bounding box may have its west east of its east. A null geometry is a feature without a place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MAX_NESTED = 8  # how deep geometry collections may be nested

Flaw = tuple[str, str]  # rule, message
_SHAPE = "geojson.shape"
_GEOMETRY = "geojson.geometry"
_RANGE = "geojson.range"
_NUMBERS = {int, float}
# How deep the positions are nested in each type.
_DEPTH = {"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}


def collection_flaw(document: Any) -> Flaw | None:
    """Return what is wrong with the document around the features; None if it is a feature collection."""
    if document.get("type") != "FeatureCollection":
        return _SHAPE, "the document is not a FeatureCollection"
    return bbox_flaw(document)


def feature_flaw(feature: Any) -> Flaw | None:
    """Return what makes a feature unreadable, so that it has no columns either; None if nothing does."""
    if type(feature) is not dict or feature.get("type") != "Feature":
        return _SHAPE, "this is not a Feature"
    if "geometry" not in feature or "properties" not in feature:
        return _SHAPE, "the Feature lacks its geometry or its properties"
    if feature["properties"] is not None and type(feature["properties"]) is not dict:
        return _SHAPE, "the properties are not an object"
    if "id" in feature and type(feature["id"]) not in (str, int, float):
        return _SHAPE, "the id is neither text nor a number"
    return None


def place_flaw(feature: dict[str, Any]) -> Flaw | None:
    """Return what is wrong with the location of a well-formed feature; None if nothing is."""
    flaw = None if feature["geometry"] is None else _geometry_flaw(feature["geometry"], MAX_NESTED)
    return flaw or bbox_flaw(feature)


def _geometry_flaw(geometry: Any, room: int) -> Flaw | None:
    if type(geometry) is not dict:
        return _GEOMETRY, "the geometry is not an object"
    kind = geometry.get("type")
    if kind == "GeometryCollection":
        parts = geometry.get("geometries")
        if type(parts) is not list or not room:
            return _GEOMETRY, f"the collection has no list of geometries, or is nested deeper than {MAX_NESTED}"
        for part in parts:
            if flaw := _geometry_flaw(part, room - 1):
                return flaw
        return bbox_flaw(geometry)
    if type(kind) is not str or kind not in _DEPTH:
        return _GEOMETRY, "the geometry has no type that GeoJSON knows"
    if type(geometry.get("coordinates")) is not list:
        return _GEOMETRY, "the geometry has no coordinates"
    return _coordinates_flaw(geometry["coordinates"], kind) or bbox_flaw(geometry)


def _coordinates_flaw(coordinates: list[Any], kind: str) -> Flaw | None:
    depth = _DEPTH[kind]
    if depth == 0:
        return _positions_flaw([coordinates])
    lines = [coordinates]
    for _ in range(depth - 1):
        if any(type(part) is not list for part in lines):
            break
        lines = [inner for part in lines for inner in part]
    for line in lines:
        if type(line) is not list:
            return _GEOMETRY, "the coordinates are not nested as the type asks"
        if flaw := _positions_flaw(line):
            return flaw
        if "Polygon" in kind and (len(line) < 4 or line[0] != line[-1]):
            return _GEOMETRY, "a ring has fewer than four positions, or is not closed"
        if "Line" in kind and len(line) < 2:
            return _GEOMETRY, "a line has fewer than two positions"
    return None


def _positions_flaw(positions: list[Any]) -> Flaw | None:
    if not positions:
        return None
    if any(type(position) is not list or len(position) < 2 for position in positions):
        return _GEOMETRY, "a position is not a list of two or more numbers"
    if not all(_NUMBERS.issuperset(map(type, position)) for position in positions):
        return _GEOMETRY, "a coordinate is not a number"
    longitudes = [position[0] for position in positions]
    latitudes = [position[1] for position in positions]
    if min(longitudes) < -180 or max(longitudes) > 180 or min(latitudes) < -90 or max(latitudes) > 90:
        return _RANGE, "a position lies outside longitude ±180 or latitude ±90"
    return None


def positions(geometry: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield longitude and latitude of every position of a geometry without a flaw."""
    if geometry["type"] == "GeometryCollection":
        for part in geometry["geometries"]:
            yield from positions(part)
        return
    found = [geometry["coordinates"]]
    for _ in range(_DEPTH[geometry["type"]]):
        found = [inner for part in found for inner in part]
    for position in found:
        yield position[0], position[1]


def bbox_flaw(owner: dict[str, Any]) -> Flaw | None:
    box = owner.get("bbox")
    if box is None:
        return None
    if type(box) is not list or len(box) not in (4, 6) or not _NUMBERS.issuperset(map(type, box)):
        return _SHAPE, "the bounding box is not four or six numbers"
    half = len(box) // 2
    return _positions_flaw([box[:half], box[half:]])
