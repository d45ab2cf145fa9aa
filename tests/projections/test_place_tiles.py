"""The places of a drawing as vector tiles: where they are, whole over date line and borders, and bounded."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from kfm.masking import cells
from kfm.masking.tile_grid import rings_of
from kfm.parsing.vector_tile import Feature, layers_of
from kfm.parsing.wkb import as_geojson
from kfm.projections.pages.page_map import Drawing, Position
from kfm.projections.tiles import place_tiles
from kfm.projections.tiles.place_tiles import DEEPEST, PlaceTiles, bounds_of
from kfm.projections.tiles.tile_bytes import EXTENT, LINES, POINTS, TileFeature, TileLayer, tile_bytes
from tests.app.derived_jobs.map_reader import fields, varints

Place = tuple[int, int, int]
KANSAS = (-98.5, 38.5)
SQUARE = [(-99.0, 38.0), (-98.0, 38.0), (-98.0, 39.0), (-99.0, 39.0), (-99.0, 38.0)]
HOLE = [(-98.7, 38.3), (-98.7, 38.6), (-98.3, 38.6), (-98.3, 38.3), (-98.7, 38.3)]


def units(zoom: int, place: Position) -> tuple[float, float]:
    """How far across and down the world a place is, in tiles."""
    down = 0.5 - math.asinh(math.tan(math.radians(place[1]))) / (2 * math.pi)
    return (place[0] + 180) / 360 * 2**zoom, down * 2**zoom


def tile_of(zoom: int, place: Position) -> Place:
    across, down = units(zoom, place)
    return zoom, int(across), int(down)


def features(tiles: PlaceTiles, at: Place, layer: str) -> list[Feature]:
    return [each for one in layers_of(tiles.tile(*at)) if one.name == layer for each in one.features]


def dots(tiles: PlaceTiles, at: Place) -> dict[tuple[int, int], int]:
    return {place: int(dict(each.values)["n"]) for each in features(tiles, at, "points") for place in each.positions}


def rings(tiles: PlaceTiles, at: Place, layer: str) -> list[list[tuple[int, int]]]:
    """The rings of a layer. The reader of the product joins the parts of a feature, so commands are read here."""
    return [ring for each in parts(tiles.tile(*at), layer) for ring in each]


def parts(body: bytes, layer: str) -> Iterator[list[list[tuple[int, int]]]]:
    for _, one in fields(body):
        members = list(fields(one))
        if next(value for kind, value in members if kind == 1).decode() != layer:
            continue
        for feature in (value for kind, value in members if kind == 2):
            numbers = [n for kind, value in fields(feature) if kind == 4 for n in varints(value)]
            found: list[list[tuple[int, int]]] = []
            at = x = y = 0
            while at < len(numbers):
                command, count = numbers[at] & 7, numbers[at] >> 3
                at += 1
                if command == 1:
                    found.append([])
                for _ in range(count if command != 7 else 0):
                    x += (numbers[at] >> 1) ^ -(numbers[at] & 1)
                    y += (numbers[at + 1] >> 1) ^ -(numbers[at + 1] & 1)
                    found[-1].append((x, y))
                    at += 2
            yield found


def inside(rings: list[list[tuple[float, float]]], x: float, y: float) -> bool:
    found = False
    for ring in rings:
        for (a, b), (c, d) in zip(ring, [*ring[1:], ring[0]], strict=True):
            if (b > y) != (d > y) and x < a + (y - b) * (c - a) / (d - b):
                found = not found
    return found


def test_a_point_is_within_a_unit_of_its_place_at_every_zoom() -> None:
    chance = random.Random(1)
    for _ in range(60):
        place = (chance.uniform(-180, 180), chance.uniform(-85, 85))
        tiles = PlaceTiles(Drawing(points=[place]))
        for zoom in range(0, DEEPEST + 1, 3):
            at = tile_of(zoom, place)
            (x, y), count = dots(tiles, at).popitem()
            across, down = units(zoom, place)
            assert count == 1 and abs(x - (across - at[1]) * EXTENT) <= 1 and abs(y - (down - at[2]) * EXTENT) <= 1
            assert 0 <= x < EXTENT and 0 <= y < EXTENT
            other = (zoom, (at[1] + 1) % 2**zoom, at[2])
            assert zoom == 0 or dots(tiles, other) == {}


def test_a_shape_covers_in_every_tile_what_it_covers_on_the_earth() -> None:
    """Whatever borders cut it: places are drawn at random and asked of the shape itself and of the tile."""
    tiles, chance, asked = PlaceTiles(Drawing(areas=[[SQUARE, HOLE]])), random.Random(2), Counter[bool]()
    for zoom in (0, 4, 6, 7, 9, 11):
        for _ in range(80):
            place = (chance.uniform(-99.4, -97.6), chance.uniform(37.6, 39.4))
            at = tile_of(zoom, place)
            across, down = units(zoom, place)
            x, y = (across - at[1]) * EXTENT, (down - at[2]) * EXTENT
            whole = [[((a - at[1]) * EXTENT, (b - at[2]) * EXTENT) for a, b in (units(zoom, p) for p in ring)]
                     for ring in (SQUARE, HOLE)]  # fmt: skip
            if any(abs(x - a) < 3 or abs(y - b) < 3 for ring in whole for a, b in ring):
                continue  # on an edge
            drawn = inside([[(float(a), float(b)) for a, b in ring] for ring in rings(tiles, at, "areas")], x, y)
            assert drawn is inside(whole, x, y), (zoom, place)
            asked[drawn] += 1
    assert asked[True] > 50 and asked[False] > 50


def test_outer_rings_run_clockwise_and_holes_the_other_way_however_the_file_has_them() -> None:
    for outer in (SQUARE, SQUARE[::-1]):
        for hole in (HOLE, HOLE[::-1]):
            tiles = PlaceTiles(Drawing(areas=[[outer, hole]]))
            first, second = rings(tiles, tile_of(7, KANSAS), "areas")
            areas = [
                sum(a * d - c * b for (a, b), (c, d) in zip(ring, [*ring[1:], ring[0]], strict=True))
                for ring in (first, second)
            ]
            assert areas[0] > 0 > areas[1]


def test_a_line_goes_on_in_the_next_tile_and_no_corner_is_far_outside() -> None:
    way = [(-101.0, 37.5), (-99.0, 39.5), (-97.0, 37.5), (-95.0, 39.5)]
    tiles = PlaceTiles(Drawing(ways=[way]))
    found = 0
    for column in range(55, 62):
        for row in range(96, 101):
            for part in rings(tiles, (8, column, row), "lines"):
                found += 1
                assert len(part) > 1
                assert all(-64 <= x <= EXTENT + 64 and -64 <= y <= EXTENT + 64 for x, y in part)
                for x, y in part:
                    across, down = column + x / EXTENT, row + y / EXTENT
                    ends = [units(8, place) for place in way]
                    assert any(
                        abs((across - a) * (d - b) - (down - b) * (c - a)) / math.hypot(c - a, d - b) < 2 / EXTENT
                        for (a, b), (c, d) in pairwise(ends)
                    ), "on an edge of the line"
    assert found > 8


def test_what_is_smaller_than_a_pixel_is_a_dot_and_grows_to_its_shape() -> None:
    tiny = [[(-98.5, 38.5), (-98.4999, 38.5), (-98.4999, 38.5001), (-98.5, 38.5)]]
    tiles = PlaceTiles(Drawing(areas=[tiny, tiny]))
    at = tile_of(4, KANSAS)
    assert rings(tiles, at, "areas") == [] and list(dots(tiles, at).values()) == [2]
    assert len(rings(tiles, tile_of(14, KANSAS), "areas")) == 2 and dots(tiles, tile_of(14, KANSAS)) == {}


def test_no_tile_has_more_than_its_limits_and_says_so_and_every_place_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place_tiles, "MOST_DOTS", 300)
    monkeypatch.setattr(place_tiles, "MOST_CORNERS", 800)
    chance = random.Random(3)
    points = [(chance.uniform(-102, -95), chance.uniform(37, 40)) for _ in range(4_000)]
    tiles = PlaceTiles(Drawing(points=points))
    for at in ((0, 0, 0), (5, 7, 12), tile_of(6, KANSAS)):
        own = dots(tiles, at)
        inner = sum(tile_of(at[0], point) == at for point in points)
        assert 0 < len(own) <= 300 and sum(own.values()) == inner
    assert {"limited"} <= {name for one in features(tiles, (5, 7, 12), "points") for name, _ in one.values}
    alone = PlaceTiles(Drawing(points=points[:50]))
    assert "limited" not in {name for one in features(alone, (5, 7, 12), "points") for name, _ in one.values}

    wheel = [(math.cos(n / 100) * 3 - 98, math.sin(n / 100) * 1.5 + 38.5) for n in range(629)]
    many = PlaceTiles(Drawing(ways=[[(x + n / 50, y) for x, y in wheel] for n in range(8)]))
    for at in ((0, 0, 0), (5, 7, 12), tile_of(6, (-95.0, 38.5))):
        drawn = rings(many, at, "lines")
        assert 0 < sum(map(len, drawn)) <= 800


def test_the_smallest_shapes_are_left_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_tiles, "MOST_CORNERS", 8)
    small = [[(x / 4 - 73.9, y / 4 + 28.8) for x, y in SQUARE]]
    tiles = PlaceTiles(Drawing(areas=[small, [SQUARE]]))
    at = tile_of(6, KANSAS)
    assert len(rings(tiles, at, "areas")) == 2
    monkeypatch.setattr(place_tiles, "MOST_CORNERS", 6)
    (left,) = features(tiles, at, "areas")
    assert ("limited", 1) in left.values
    assert max(x for x, _ in left.positions) - min(x for x, _ in left.positions) > EXTENT / 8, "the large one stays"


def test_a_shape_that_is_cut_at_the_date_line_has_no_seam_there() -> None:
    east, west = ([(180.0, 10.0), (180.0, 12.0), (178.0, 12.0), (178.0, 10.0), (180.0, 10.0)],
                  [(-180.0, 10.0), (-178.0, 10.0), (-178.0, 12.0), (-180.0, 12.0), (-180.0, 10.0)])  # fmt: skip
    tiles = PlaceTiles(Drawing(areas=[[east], [west]]))
    for zoom in (0, 3, 6):
        for place in ((179.9, 11.0), (-179.9, 11.0)):
            at = tile_of(zoom, place)
            drawn = rings(tiles, at, "areas")
            assert drawn
            for ring in drawn:
                for (a, b), (c, d) in zip(ring, [*ring[1:], ring[0]], strict=True):
                    assert not (a == c in (0, EXTENT) and b != d), "an edge along the date line"
    for zoom in (4, 9):
        left = PlaceTiles(Drawing(points=[(180.0, 10.0)])), PlaceTiles(Drawing(points=[(-180.0, 10.0)]))
        assert dots(left[0], tile_of(zoom, (-180.0, 10.0))) == dots(left[1], tile_of(zoom, (-180.0, 10.0))) != {}


def test_what_is_nearer_to_a_pole_than_the_map_reaches_is_counted_and_not_moved() -> None:
    tiles = PlaceTiles(
        Drawing(
            points=[(0.0, 89.9), (0.0, -90.0), (0.0, 85.0)],
            ways=[[(0.0, 86.0), (10.0, 88.0)], [(0.0, 80.0), (0.0, 90.0)]],
        )
    )
    assert tiles.beyond == 3
    assert sum(dots(tiles, (0, 0, 0)).values()) == 1
    (line,) = rings(tiles, (0, 0, 0), "lines")
    assert all(-64 <= y <= EXTENT for _, y in line)


def test_a_cell_around_a_pole_is_drawn_as_far_as_the_map_reaches() -> None:
    cell = cells.cell_of(90.0, 0.0, 0)
    outline, chance, asked = list(rings_of(cell)), random.Random(5), Counter[bool]()
    tiles = PlaceTiles(Drawing(cells=[outline]))
    whole = [[units(2, (x, max(-89.9, min(89.9, y)))) for x, y in ring] for ring in outline]
    drawn = {column: rings(tiles, (2, column, 0), "cells") for column in range(4)}
    for _ in range(600):
        across, down = units(2, (chance.uniform(-180, 180), chance.uniform(68, 85)))
        column = int(across)
        own = [[(column + a / EXTENT, b / EXTENT) for a, b in ring] for ring in drawn[column]]
        near = [[(across + dx, down + dy) for dx in (-0.01, 0.01)] for dy in (-0.01, 0.01)]
        if len({inside(whole, *place) for row in near for place in row}) == 1:
            asked[inside(whole, across, down)] += 1
            assert inside(own, across, down) is inside(whole, across, down)
    assert asked[True] > 50 and asked[False] > 50


@pytest.mark.parametrize(
    ("drawing", "box"),
    [
        (Drawing(), None),
        (Drawing(points=[(0.0, 89.0)]), None),
        (Drawing(points=[(1.0, 2.0)]), (1.0, 2.0, 1.0, 2.0)),
        (Drawing(points=[(179.0, 1.0), (-179.0, 2.0)]), (179.0, 1.0, 181.0, 2.0)),
        (Drawing(points=[(-90.0, 1.0), (0.0, 1.0), (90.0, 2.0), (179.0, 0.0)]), (-90.0, 0.0, 179.0, 2.0)),
        (Drawing(areas=[[SQUARE]], points=[(-100.0, 37.0)]), (-100.0, 37.0, -98.0, 39.0)),
        (Drawing(areas=[[[(170.0, 1.0), (180.0, 2.0)]], [[(-180.0, 1.0), (-170.0, 2.0)]]]), (170.0, 1.0, 190.0, 2.0)),
    ],
)  # fmt: skip
def test_bounds_are_the_narrowest_also_over_the_date_line(drawing: Drawing, box: object) -> None:
    assert bounds_of(drawing) == box


def test_the_same_drawing_makes_the_same_bytes() -> None:
    drawing = Drawing(points=[(1.0, 2.0), (3.0, 4.0)], areas=[[SQUARE, HOLE]])
    again = Drawing(points=[(3.0, 4.0), (1.0, 2.0)], areas=[[SQUARE, HOLE]])
    assert PlaceTiles(drawing).tile(0, 0, 0) == PlaceTiles(again).tile(0, 0, 0)


@pytest.mark.long
def test_gdal_reads_a_tile_as_it_was_written(tmp_path: Path) -> None:
    pyogrio = pytest.importorskip("pyogrio")
    path = tmp_path / "0.pbf"
    way = [(10, 20), (300, 400), (4000, 17)]
    path.write_bytes(
        tile_bytes(
            [
                TileLayer("points", [TileFeature(POINTS, [[(1, 2), (4095, 0)]], {"n": 300})]),
                TileLayer("lines", [TileFeature(LINES, [way], {"limited": 1})]),
            ]
        )
    )
    points = pyogrio.raw.read(path, layer="points")
    assert points[0]["fields"].tolist() == ["mvt_id", "n"] and points[3][1].tolist() == [300]
    lines = pyogrio.raw.read(path, layer="lines")
    shape = as_geojson(bytes(lines[2][0]))
    drawn = shape["coordinates"] if shape["type"] == "LineString" else shape["coordinates"][0]
    assert [(round(x), round(EXTENT - y)) for x, y in drawn] == way
