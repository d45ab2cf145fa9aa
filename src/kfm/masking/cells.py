"""Cells: a point becomes one H3 cell, and all published geography comes from that cell alone.

A cell is always computed from the point at its own resolution. The parent of a finer cell is not the same: near an edge
it does not contain the point, and the two cells together would reveal where the edge is. Only a record that was
public in a finer cell gets the parent of that cell: it adds nothing to what readers know already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from kfm.errors import Refused
from kfm.masking.h3_library import library as library

PLACES = 6  # published decimal places of a cell's corners: about a decimetre; see also _short
# The mean edge length in metres by resolution, from H3. The edge of a hexagon is as long as its radius.
EDGES = (
    1281256.011, 483056.8391, 182512.9565, 68979.22179, 26071.75968, 9854.090990, 3724.532667, 1406.475763,
    531.414010, 200.786148, 75.863783, 28.663897, 10.830188, 4.092010, 1.546100, 0.584169,
)  # fmt: skip
_FLAT = 66.0  # degrees of latitude up to which a small cell counts as flat
_EARTH = 6371007.180918475  # metres: the earth radius that H3 uses


class Shape(NamedTuple):
    """The published geography of a cell: its geometry, its bounding box, its centroid and its radius."""

    geometry: msgspec.Raw  # GeoJSON
    bbox: tuple[float, float, float, float]  # west, south, east, north; west > east where it crosses the antimeridian
    centroid: tuple[float, float]  # longitude, latitude
    radius: float  # metres from the centroid to the farthest corner
    place: bytes  # bbox and geometry, encoded as members of a feature
    own: bytes  # cell, resolution and centroid, encoded as its first properties, with a comma at the end


def coarse_enough(metres: float) -> int:
    """Return the finest resolution with cells at least as large as an accuracy; -1 if even the coarsest are smaller."""
    fitting = [resolution for resolution, edge in enumerate(EDGES) if edge >= metres]
    return max(fitting, default=-1)


def cell_of(latitude: float, longitude: float, resolution: int) -> int:
    """Return the cell of a point. Raise Refused, without the values, if the point is not on the earth."""
    if not (-90.0 <= latitude <= 90.0 and -180.0 <= longitude <= 180.0):
        raise Refused("a location is not on the earth", rule="mask.location-unreadable")
    return int(library().latlng_to_cell(latitude, longitude, resolution))


def parent_of(cell: int, resolution: int) -> int:
    """Return the cell of a coarser resolution that a cell belongs to."""
    return int(library().cell_to_parent(cell, resolution))


def cells_of(latitudes: Sequence[float], longitudes: Sequence[float], resolution: int) -> list[int]:
    """Return the cells of many points, the same as one by one. With numpy it takes a third of the time."""
    try:
        from kfm.masking import cells_numpy
    except ImportError:
        return [cell_of(*point, resolution) for point in zip(latitudes, longitudes, strict=True)]
    return cells_numpy.cells_of(latitudes, longitudes, resolution)


def resolution_of(cell: int) -> int:
    return cell >> 52 & 15


def text_of(cell: int) -> str:
    return f"{cell:x}"


@lru_cache(maxsize=1 << 16)
def shape_of(cell: int) -> Shape:
    """Return geometry, bbox and centroid of a cell, computed from the cell alone."""
    h3 = library()
    # Rounds like _short without a call per corner: masking a table spends most of its time here.
    ring = [(round(lng * 1e6) / 1e6, round(lat * 1e6) / 1e6) for lat, lng in h3.cell_to_boundary(cell)]
    latitude, longitude = h3.cell_to_latlng(cell)
    rings, bbox = [ring], _box(ring)
    if bbox[2] - bbox[0] < 1 and abs(latitude) < _FLAT:
        radius = _radius_of_small(latitude, longitude, ring)
    else:
        radius = _radius(latitude, longitude, ring)
        if abs(latitude) > 65 and cell == h3.latlng_to_cell(math.copysign(90.0, latitude), 0.0, resolution_of(cell)):
            rings, bbox = _around_a_pole(ring, math.copysign(90.0, latitude))
        elif bbox[2] - bbox[0] > 180:
            rings, bbox = _across_the_antimeridian(ring)
    centroid = (_short(longitude), _short(latitude))
    closed = [[[*part, part[0]]] for part in rings]
    geometry = (
        {"type": "Polygon", "coordinates": closed[0]}
        if len(closed) == 1
        else {"type": "MultiPolygon", "coordinates": closed}
    )
    text = _encode(geometry)
    own = b'"cell":"%x","resolution":%d,"centroid":%b,' % (cell, resolution_of(cell), _encode(centroid))
    place = b'"bbox":%b,"geometry":%b' % (_encode(bbox), text)
    return Shape(msgspec.Raw(text), bbox, centroid, radius, place, own)


_encode = msgspec.json.Encoder().encode


_Ring = list[tuple[float, float]]
_Bbox = tuple[float, float, float, float]


def _box(ring: _Ring) -> _Bbox:
    lngs, lats = zip(*ring, strict=True)
    return min(lngs), min(lats), max(lngs), max(lats)


def _across_the_antimeridian(ring: _Ring) -> tuple[list[_Ring], _Bbox]:
    """Return a ring as the two parts, cut at 180 degrees, that RFC 7946 requires."""
    whole = [(lng + 360 if lng < 0 else lng, lat) for lng, lat in ring]
    east = _cut(whole, lambda lng: lng <= 180)
    west = [(round(lng - 360, PLACES), lat) for lng, lat in _cut(whole, lambda lng: lng >= 180)]
    boxes = _box(east), _box(west)
    return [east, west], (boxes[0][0], min(b[1] for b in boxes), boxes[1][2], max(b[3] for b in boxes))


def _cut(ring: _Ring, inside: Any) -> _Ring:
    """Return the part of a convex ring on one side of the meridian of 180 degrees."""
    out: _Ring = []
    for (lng, lat), (next_lng, next_lat) in zip(ring, ring[1:] + ring[:1], strict=True):
        if inside(lng):
            out.append((lng, lat))
        if inside(lng) != inside(next_lng) and lng != 180 != next_lng:
            share = (180 - lng) / (next_lng - lng)
            out.append((180.0, round(lat + share * (next_lat - lat), PLACES)))
    return out


def _around_a_pole(ring: _Ring, pole: float) -> tuple[list[_Ring], _Bbox]:
    """Return the ring of a cell that contains a pole: all longitudes, from the corners to the pole."""
    by_longitude = sorted(ring)
    (first, low), (last, high) = by_longitude[0], by_longitude[-1]
    share = (180 - last) / (first + 360 - last)
    edge = round(high + share * (low - high), PLACES)
    flat = [(-180.0, edge), *by_longitude, (180.0, edge), (180.0, pole), (-180.0, pole)]
    nearest = [lat for _, lat in by_longitude] + [edge]
    return [flat], (-180.0, min(*nearest, pole), 180.0, max(*nearest, pole))


def _short(degrees: float) -> float:
    return round(degrees * 1e6) / 1e6


def _radius_of_small(latitude: float, longitude: float, ring: _Ring) -> float:
    """Return the metres from a point to the farthest corner of a small cell, by plane geometry, plus half a percent for
    the error."""
    narrow = math.cos(math.radians(latitude)) ** 2
    square = max([(lat - latitude) * (lat - latitude) + narrow * (lng - longitude) ** 2 for lng, lat in ring])
    return 1.005 * _EARTH * math.radians(math.sqrt(square))


def _radius(latitude: float, longitude: float, ring: _Ring) -> float:
    """Return the metres from a point to the farthest corner of a ring; never fewer than the true distance."""
    here = math.cos(math.radians(latitude))
    farthest = 0.0
    for lng, lat in ring:
        up, aside = math.sin(math.radians(lat - latitude) / 2), math.sin(math.radians(lng - longitude) / 2)
        farthest = max(farthest, up * up + here * math.cos(math.radians(lat)) * aside * aside)
    return 2 * _EARTH * math.asin(min(1.0, math.sqrt(farthest)))
