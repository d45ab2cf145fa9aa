from __future__ import annotations

import math
import random
import subprocess
import sys

import h3
import h3.api.basic_int as h3_int
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.errors import Refused
from kfm.masking import cells, cells_numpy
from tests.sampling import tries

latitudes = st.floats(-90, 90)
longitudes = st.floats(-180, 180)


@pytest.mark.parametrize(
    ("latitude", "longitude", "resolution", "cell"),
    [
        # From the documentation of H3 and its Python bindings.
        (37.3615593, -122.0553238, 7, "87283472bffffff"),
        (37.3615593, -122.0553238, 5, "85283473fffffff"),
        (37.769377, -122.388903, 9, "89283082e73ffff"),
    ],
)
def test_cells_are_those_of_the_reference(latitude: float, longitude: float, resolution: int, cell: str) -> None:
    assert cells.text_of(cells.cell_of(latitude, longitude, resolution)) == cell
    assert [cells.text_of(one) for one in cells_numpy.cells_of([latitude], [longitude], resolution)] == [cell]


@given(st.lists(st.tuples(latitudes, longitudes), max_size=60), st.integers(0, 15))
@settings(max_examples=tries(150), deadline=None)
def test_many_at_once_are_the_same_as_one_by_one(points: list[tuple[float, float]], resolution: int) -> None:
    lats, lngs = [lat for lat, _ in points], [lng for _, lng in points]
    assert cells_numpy.cells_of(lats, lngs, resolution) == [cells.cell_of(*point, resolution) for point in points]


@pytest.mark.parametrize("resolution", range(16))
def test_many_at_once_are_the_same_at_corners_edges_and_centres_of_cells(resolution: int) -> None:
    rng = random.Random(resolution)
    points = []
    for _ in range(120):
        start = math.degrees(math.asin(rng.uniform(-1, 1))), rng.uniform(-180, 180)
        cell = h3_int.latlng_to_cell(*start, resolution)
        ring = list(h3_int.cell_to_boundary(cell))
        (a, b), (c, d) = ring[:2]
        points += [*ring, h3_int.cell_to_latlng(cell), ((a + c) / 2, (b + d) / 2)]
    points += [h3_int.cell_to_latlng(cell) for cell in h3_int.get_pentagons(resolution)]
    lats, lngs = [lat for lat, _ in points], [lng for _, lng in points]
    assert cells_numpy.cells_of(lats, lngs, resolution) == [cells.cell_of(*point, resolution) for point in points]


@pytest.mark.parametrize("count", [20_000, pytest.param(2_000_000, marks=pytest.mark.long)])
def test_a_table_of_points_all_over_the_world_has_the_same_cells(count: int) -> None:
    rng = random.Random(count)
    lats = [math.degrees(math.asin(rng.uniform(-1, 1))) for _ in range(count)]
    lngs = [rng.uniform(-180, 180) for _ in range(count)]
    for resolution in (4, 7):
        expected = [h3_int.latlng_to_cell(*point, resolution) for point in zip(lats, lngs, strict=True)]
        assert cells_numpy.cells_of(lats, lngs, resolution) == expected


@pytest.mark.parametrize("wrong", [(91.0, 0.0), (0.0, 181.0), (math.nan, 0.0), (0.0, math.inf)])
def test_a_point_that_is_none_is_refused_without_its_value(wrong: tuple[float, float]) -> None:
    for refused in (lambda: cells.cell_of(*wrong, 7), lambda: cells_numpy.cells_of([0, wrong[0]], [0, wrong[1]], 7)):
        with pytest.raises(Refused) as caught:
            refused()
        assert "91" not in str(caught.value) and "181" not in str(caught.value)
        assert caught.value.fields == {"rule": "mask.location-unreadable"}


def test_without_numpy_the_cells_are_the_same() -> None:
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from kfm.masking.cells import cells_of\n"
        "print(cells_of([38.5, 39.25], [-98.75, -95.5], 7), 'kfm.masking.cells_numpy' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert answer == f"{cells_numpy.cells_of([38.5, 39.25], [-98.75, -95.5], 7)} False\n"


def test_without_h3_masking_is_denied() -> None:
    program = (
        "import sys; sys.modules['h3'] = None; sys.modules['h3.api'] = None\n"
        "from kfm.errors import Denied\nfrom kfm.masking import cells\n"
        "calls = [lambda: cells.cell_of(38, -98, 7), lambda: cells.cells_of([38], [-98], 7)]\n"
        "calls.append(lambda: cells.shape_of(1))\n"
        "for call in calls:\n"
        "    try: call()\n    except Denied: print('denied')\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert answer == "denied\n" * 3


def test_no_cell_is_finer_than_an_accuracy() -> None:
    assert [cells.coarse_enough(metres) for metres in (0, 0.5, 10, 1200, 35_000, 1_300_000)] == [15, 15, 12, 7, 3, -1]
    for metres in (1, 50, 999, 5_000, 60_000, 400_000):
        found = cells.coarse_enough(metres)
        assert h3.average_hexagon_edge_length(found, unit="m") >= metres
        assert h3.average_hexagon_edge_length(found + 1, unit="m") < metres


@given(latitudes, longitudes, st.integers(0, 9))
@settings(max_examples=tries(200), deadline=None)
def test_the_shape_of_a_cell_holds_its_points_everywhere_on_earth(lat: float, lng: float, resolution: int) -> None:
    cell = cells.cell_of(lat, lng, resolution)
    shape = cells.shape_of(cell)
    west, south, east, north = shape.bbox
    geometry = msgspec.json.decode(shape.geometry)
    parts = [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
    for (ring,) in parts:
        assert ring[0] == ring[-1] and len(ring) >= 4
        assert all(-180 <= x <= 180 and south <= y <= north for x, y in ring)
        assert all(west <= x <= east if west <= east else x >= west or x <= east for x, _ in ring)
    centre = h3_int.cell_to_latlng(cell)
    assert shape.radius * 1.0001 + 0.2 >= max(  # its corners are rounded to a decimetre
        h3.great_circle_distance(centre, one, unit="m") for one in h3_int.cell_to_boundary(cell)
    )
    inside = west <= shape.centroid[0] <= east if west <= east else not east < shape.centroid[0] < west
    assert inside and south <= shape.centroid[1] <= north


def test_cells_at_the_antimeridian_and_the_poles_have_a_shape() -> None:
    across = cells.shape_of(cells.cell_of(10.0, 180.0, 3))
    assert across.bbox[0] > across.bbox[2] and b"MultiPolygon" in bytes(across.geometry)
    for pole in (90.0, -90.0):
        around = cells.shape_of(cells.cell_of(pole, 0.0, 3))
        assert around.bbox[0] == -180 and around.bbox[2] == 180 and pole in around.bbox
