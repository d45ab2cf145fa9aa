"""Whether two shapes share a point, next to Shapely; and every malformed geometry is named by its place."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import shapely
import shapely.affinity

from kfm.parsing.planar_geometry import NoShape, halves, intersect, is_box, shape_of, shape_of_box
from tests.store.random_items import box_geometry, place_of_box, random_box, random_geometry


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_random_shapes_meet_where_shapely_says_so(count: int, record_property: Callable[[str, object], None]) -> None:
    r = random.Random(count)
    said = {True: 0, False: 0}
    for _ in range(count):
        one, other = random_geometry(r), random_geometry(r)
        if r.random() < 0.7:  # near each other
            other = moved(other, one)
        wanted = bool(shapely.intersects(shapely.geometry.shape(one), shapely.geometry.shape(other)))
        a, b = shape_of(one, 100, on_earth=False), shape_of(other, 100, on_earth=False)
        assert intersect(a, b) is wanted and intersect(b, a) is wanted, (one, other)
        said[wanted] += 1
    assert min(said.values()) > count // 8, said
    record_property("counted", ("pairs of shapes next to Shapely", count))


def moved(geometry: dict[str, Any], to: dict[str, Any]) -> dict[str, Any]:
    """The geometry with its south-west corner at a corner of the other's box."""
    west, south, _, _ = shapely.geometry.shape(geometry).bounds
    x, y, _, _ = shapely.geometry.shape(to).bounds
    there = shapely.affinity.translate(shapely.geometry.shape(geometry), x - west, y - south)
    return dict(_lists(shapely.geometry.mapping(there)))


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lists(each) for name, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, tuple | list) else value


def test_boxes_meet_over_the_antimeridian_and_at_the_poles() -> None:
    pacific = shape_of_box((170, -10, -170, 10))
    assert intersect(pacific, shape_of_box((175, 0, 176, 1))) and intersect(pacific, shape_of_box((-176, 0, -175, 1)))
    assert intersect(pacific, shape_of({"type": "Point", "coordinates": [180, 0]}, 1))
    assert intersect(pacific, shape_of({"type": "Point", "coordinates": [-180, 10]}, 1))
    assert not intersect(pacific, shape_of_box((-169, -10, 169, 10)))
    assert intersect(shape_of_box((-180, 90, 180, 90)), shape_of({"type": "Point", "coordinates": [12, 90]}, 1))
    assert halves((180, 0, -180, 1)) == [(180, 0, 180, 1), (-180, 0, -180, 1)]


def test_edges_that_nearly_touch_are_told_apart_exactly() -> None:
    line = {"type": "LineString", "coordinates": [[0, 0], [3, 1]]}
    third = 1 / 3  # a little less than a third
    for y in (third, 0.3333333333333334, 0.33333333333333326):
        point = {"type": "Point", "coordinates": [1, y]}
        assert not intersect(shape_of(line, 9), shape_of(point, 9))
    assert intersect(shape_of(line, 9), shape_of({"type": "Point", "coordinates": [1.5, 0.5]}, 9))


def test_a_box_is_known_in_every_form_of_it() -> None:
    r = random.Random(5)
    for _ in range(300):
        box = random_box(r)
        west, south, east, north = box
        if west in (180, east) or south == north or east == -180:
            continue
        assert is_box(shape_of(box_geometry(box), 20), box), box
        assert place_of_box(box).area > 0
    ring = [[0, 0], [0, 1], [1, 1], [1, 0], [0, 0]]
    assert is_box(shape_of({"type": "Polygon", "coordinates": [ring]}, 9), (0, 0, 1, 1))
    bow = [[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]
    assert not is_box(shape_of({"type": "Polygon", "coordinates": [bow]}, 9), (0, 0, 1, 1))
    assert not is_box(shape_of({"type": "LineString", "coordinates": ring}, 9), (0, 0, 1, 1))
    hole = [[0.2, 0.2], [0.4, 0.2], [0.4, 0.4], [0.2, 0.2]]
    assert not is_box(shape_of({"type": "Polygon", "coordinates": [ring, hole]}, 9), (0, 0, 1, 1))
    assert is_box(shape_of({"type": "Point", "coordinates": [1, 2]}, 9), (1, 2, 1, 2))


@pytest.mark.parametrize(
    ("geometry", "pointer"),
    [
        (None, ""),
        ([], ""),
        ({}, "/type"),
        ({"type": "Circle", "coordinates": [0, 0]}, "/type"),
        ({"type": ["Point"], "coordinates": [0, 0]}, "/type"),
        ({"type": "Point"}, "/coordinates"),
        ({"type": "Point", "coordinates": [0]}, "/coordinates"),
        ({"type": "Point", "coordinates": [0, True]}, "/coordinates"),
        ({"type": "Point", "coordinates": [0, "1"]}, "/coordinates"),
        ({"type": "Point", "coordinates": [0, float("nan")]}, "/coordinates"),
        ({"type": "Point", "coordinates": [0, float("inf")]}, "/coordinates"),
        ({"type": "Point", "coordinates": [10**400, 0]}, "/coordinates"),
        ({"type": "Point", "coordinates": [181, 0]}, "/coordinates"),
        ({"type": "Point", "coordinates": [0, 91]}, "/coordinates"),
        ({"type": "LineString", "coordinates": [[0, 0]]}, "/coordinates"),
        ({"type": "MultiLineString", "coordinates": [[[0, 0], [1, 1]], [[0, 0], 5]]}, "/coordinates/1/1"),
        ({"type": "Polygon", "coordinates": []}, "/coordinates"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]}, "/coordinates/0"),
        ({"type": "GeometryCollection", "geometries": [{"type": "Point"}]}, "/geometries/0/coordinates"),
        ({"type": "MultiPoint", "coordinates": [[0, 0]] * 11}, "/coordinates"),
    ],
)
def test_a_malformed_geometry_is_refused_with_its_place(geometry: object, pointer: str) -> None:
    with pytest.raises(NoShape) as problem:
        shape_of(geometry, 10)
    assert problem.value.pointer == pointer


def test_collections_inside_each_other_are_bounded() -> None:
    geometry: dict[str, Any] = {"type": "Point", "coordinates": [0, 0]}
    for _ in range(4):
        geometry = {"type": "GeometryCollection", "geometries": [geometry]}
    assert shape_of(geometry, 10).points() == 1
    with pytest.raises(NoShape, match="inside each other"):
        shape_of({"type": "GeometryCollection", "geometries": [geometry]}, 10)
