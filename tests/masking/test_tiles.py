"""Map tiles are read as any other file: what shows a protected place is denied, and what shows its cell is not."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from kfm.masking import cells
from kfm.masking.fingerprints import Marker
from kfm.masking.first_cells import shown_cells
from kfm.masking.leak_scanner import ScanReport, scan, scan_all
from kfm.masking.tile_grid import rings_of
from tests.masking import tile_files
from tests.masking.sites import KEY, canaries, rows
from tests.masking.tile_files import Shape, Signed, Single, archive, field, point, tile, tile_of, varint
from tests.sampling import sampled

SITES = canaries(60)
TABLE = rows(SITES)
MARKER = Marker(KEY)
KNOWN = MARKER.of([row["trinomial"] for row in TABLE], [(row["lat"], row["lng"]) for row in TABLE], finer_than=7)
PLACES = [(float(row["lng"]), float(row["lat"])) for row in TABLE]
ONE = PLACES[3]
FAR = (-100.1, 38.7)  # nothing protected is near


def judged(body: bytes, finest: int | None = None) -> ScanReport:
    return scan_all(lambda: (body,), KNOWN, MARKER, finest)


def rules(report: ScanReport) -> set[str]:
    return {leak.rule for leak in report.leaks}


def alone(zoom: int, *shapes: Shape, at: tuple[float, float] = ONE, **how: Any) -> bytes:
    """One tile in one file."""
    place = tile_of(zoom, at)
    return archive({place: tile(place, shapes)}, **how)


def spread(zoom: int, shapes: list[Shape], **how: Any) -> bytes:
    """A file in which each shape is in the tile of its first position."""
    found: dict[tuple[int, int, int], list[Shape]] = {}
    for shape in shapes:
        found.setdefault(tile_of(zoom, shape.parts[0][0]), []).append(shape)
    return archive({place: tile(place, its, **how) for place, its in found.items()})


def outline(number: int, /, **values: Any) -> Shape:
    (ring,) = rings_of(number)
    return Shape(3, [ring[:-1]], values)


def hexagons(zoom: int, resolution: int, *, named: bool) -> bytes:
    own = [cells.cell_of(lat, lng, resolution) for lng, lat in PLACES]
    return spread(zoom, [outline(cell, **({"cell": cells.text_of(cell)} if named else {"n": 1})) for cell in own])


@pytest.mark.parametrize("snap", [round, math.floor, math.ceil])
@pytest.mark.parametrize("zoom", sampled(range(4, 23), every=3))
def test_exact_places_are_denied_at_every_zoom(zoom: int, snap: Callable[[float], float]) -> None:
    for finest in (None, 7):
        report = judged(spread(zoom, [point(*place, n=1) for place in PLACES], snap=snap), finest)
        assert report.verdict == "deny" and rules(report) & {"gate.point", "gate.point-rounded"}


@pytest.mark.parametrize("extent", [256, 512, 8192, 1 << 20])
def test_another_extent_is_another_grid(extent: int) -> None:
    assert judged(spread(12, [point(*place) for place in PLACES], extent=extent)).verdict == "deny"


@pytest.mark.parametrize("zoom", [14, 16, 22])
@pytest.mark.parametrize(
    "shape",
    [
        point(*ONE),
        Shape(1, [[FAR, ONE]], {}),
        Shape(2, [[FAR, ONE, (FAR[0], FAR[1] + 0.1)]], {}),
        Shape(3, [[FAR, (FAR[0], FAR[1] + 0.1), ONE]], {}),
        Shape(3, [[FAR, (FAR[0], 39.0), (-99.9, 39.0)], [(-100.05, 38.8), ONE, (-100, 38.9)]], {}),
    ],
)
def test_one_exact_corner_is_denied_at_a_deep_zoom(zoom: int, shape: Shape) -> None:
    for finest in (None, 7):
        report = judged(alone(zoom, shape), finest)
        assert report.verdict == "deny" and rules(report) >= {"gate.point"}


ROW = {row["trinomial"]: row for row in TABLE}[TABLE[3]["trinomial"]]
LAT, LNG = ROW["lat"], ROW["lng"]
VALUES: dict[str, dict[str, Any]] = {
    "an id": {"site": ROW["trinomial"]},
    "an id as a key": {ROW["trinomial"]: 1},
    "a text": {"where": f"{LAT}, {LNG}"},
    "two texts": {"y": LAT, "x": LNG},
    "doubles": {"y": float(LAT), "x": float(LNG)},
    "singles": {"y": Single(LAT), "x": Single(LNG)},
    "integers with a sign": {"y": Signed(round(float(LAT) * 1e6)), "x": Signed(round(float(LNG) * 1e6))},
    "integers": {"y": round(float(LAT) * 1e7), "x": round(abs(float(LNG)) * 1e7)},
    "a finer cell": {"at": cells.text_of(cells.cell_of(float(LAT), float(LNG), 10))},
}


@pytest.mark.parametrize("zoom", [0, 5, 16])
@pytest.mark.parametrize("name", VALUES)
def test_a_protected_value_in_an_attribute_is_denied(name: str, zoom: int) -> None:
    for finest in (None, 7):
        assert judged(alone(zoom, point(*FAR, **VALUES[name]), at=FAR), finest).verdict == "deny"


WHOLE: dict[str, bytes] = {
    "the metadata": alone(3, point(*FAR), at=FAR, metadata={"tilestats": {"values": [float(LAT), float(LNG)]}}),
    "an id in the metadata": alone(3, point(*FAR), at=FAR, metadata={"description": f"with {ROW['trinomial']}"}),
    "the centre": alone(3, point(*FAR), at=FAR, centre=ONE),
    "the bounds": alone(3, point(*FAR), at=FAR, bounds=(*ONE, -90.0, 45.0)),
    "an edge of the bounds": alone(3, point(*FAR), at=FAR, bounds=(-103.0, ONE[1], ONE[0], 45.0)),
    "the name of a layer": archive({(0, 0, 0): tile((0, 0, 0), [point(*FAR)], layer=ROW["trinomial"])}),
    "a key that nothing has": archive({(0, 0, 0): field(3, field(1, b"l") + field(3, ROW["trinomial"].encode()))}),
    "not compressed": alone(16, point(*ONE), packed=1),
    "in a leaf": alone(16, point(*ONE), leaf=True),
    "packed again": gzip.compress(alone(16, point(*ONE))),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_protected_value_beside_the_features_is_denied(name: str) -> None:
    assert judged(WHOLE[name]).verdict == "deny"


@pytest.mark.parametrize("resolution", [7, 5, 3])
@pytest.mark.parametrize("zoom", sampled(range(0, 17), every=2))
@pytest.mark.parametrize("named", [True, False])
def test_the_cells_of_masked_data_are_no_leak_at_any_zoom(zoom: int, resolution: int, named: bool) -> None:
    assert judged(hexagons(zoom, resolution, named=named), 7) == ScanReport(verdict="clean")


@pytest.mark.parametrize("zoom", range(0, 17))
def test_the_centres_of_cells_are_no_leak_at_any_zoom(zoom: int) -> None:
    centres = [cells.shape_of(cells.cell_of(lat, lng, 7)).centroid for lng, lat in PLACES]
    texts = [json.dumps(centre, separators=(",", ":")) for centre in centres]
    shapes = [point(*centre, centroid=text) for centre, text in zip(centres, texts, strict=True)]
    assert judged(spread(zoom, shapes), 7) == ScanReport(verdict="clean")


@pytest.mark.parametrize("zoom", range(6, 15))
def test_cells_finer_than_the_mask_allows_are_denied(zoom: int) -> None:
    assert judged(hexagons(zoom, 9, named=True), 7).verdict == "deny"
    assert judged(hexagons(zoom, 9, named=True)).verdict == "deny"
    if zoom > 9:
        report = judged(hexagons(zoom, 8, named=False), 7)
        assert report.verdict == "clean", "a corner is no place; the one-cell rule is for what names its cell"


@pytest.mark.parametrize("zoom", [10, 14, 18])
def test_what_names_a_cell_and_lies_elsewhere_is_denied(zoom: int) -> None:
    cell = cells.cell_of(FAR[1], FAR[0], 7)
    for shape in (
        point(*FAR, cell=cells.text_of(cell)),
        Shape(3, [[FAR, (FAR[0], 38.71), (-100.09, 38.7)]], {"cell": cells.text_of(cell)}),
    ):
        report = judged(alone(zoom, shape, at=FAR), 7)
        assert report.verdict == "deny" and rules(report) == {"gate.place-beside-the-cell"}
        assert judged(alone(zoom, shape, at=FAR)).verdict == "clean", "only masked data names cells"
    fine = cells.cell_of(FAR[1], FAR[0], 8)
    report = judged(alone(zoom, outline(fine, cell=cells.text_of(fine)), at=FAR), 7)
    assert rules(report) == {"gate.cell-too-fine"}


def test_the_cells_of_records_in_tiles_are_compared_with_their_first_cells() -> None:
    cell = cells.text_of(cells.cell_of(FAR[1], FAR[0], 7))
    body = alone(3, point(*FAR, id="abc", cell=cell), point(*FAR, id=7, cell=cell), point(*FAR, cell=cell), at=FAR)
    assert list(shown_cells(body)) == [("abc", cell), ("7", cell)]
    assert list(shown_cells(body[:-4])) == []


@pytest.mark.parametrize("zoom", range(16, 23))
def test_a_tile_without_geometry_is_a_place_as_large_as_the_tile(zoom: int) -> None:
    empty = {tile_of(zoom, place): b"" for place in PLACES}
    assert judged(archive(empty), 7).verdict == "deny"
    no_geometry = {place: tile(place, [Shape(1, [], {"kind": "camp"})]) for place in empty}
    assert judged(archive(no_geometry)).verdict == "deny"


def test_empty_tiles_that_are_larger_than_a_cell_or_everywhere_prove_nothing() -> None:
    assert judged(archive({tile_of(13, place): b"" for place in PLACES}), 7).verdict == "clean"
    first = tile_of(16, (-98.0, 38.0))
    everywhere = {(16, first[1] + n, first[2] + m): b"" for n in range(50) for m in range(50)}
    assert judged(archive(everywhere)).verdict == "clean"


def test_a_coarser_zoom_of_the_same_places_adds_nothing() -> None:
    def zoomed(zoom: int, places: list[tuple[float, float]], layer: str) -> dict[tuple[int, int, int], bytes]:
        found: dict[tuple[int, int, int], list[Shape]] = {}
        for place in places:
            found.setdefault(tile_of(zoom, place), []).append(point(*place))
        return {at: tile(at, its, layer=layer) for at, its in found.items()}

    towns = [(lng + 0.004, lat + 0.004) for lng, lat in PLACES]
    far, near = zoomed(5, towns, "towns"), zoomed(12, towns, "towns")
    assert judged(archive(far)).verdict == "deny", "from afar they may be the sites"
    assert judged(archive(far | near)).verdict == "clean", "and these are not the sites"
    sites = zoomed(5, PLACES, "sites")
    assert judged(archive(near | {at: far[at] + sites[at] for at in far.keys() & sites.keys()})).verdict == "deny"


# ---------------------------------------------------------------------------------------------- broken and hostile


def raw(body: bytes) -> bytes:
    return archive({(0, 0, 0): body})


GOOD = alone(9, point(*FAR), at=FAR)
LAYER = field(1, b"l")
MANY = gzip.compress(field(3, LAYER + field(2, field(3, 1) + field(4, varint(1 << 22 | 1) + bytes(1 << 20)))))
CYCLE = tile_files.directory([(0, 0, 0, 5)])
SLOWEST = ("one tile of half a million places, a thousand times", "a directory that is a bomb")
HOSTILE: dict[str, bytes | Callable[[], bytes]] = {  # what takes long is made when it is tried
    "only the beginning": GOOD[:100],
    "cut in the tiles": GOOD[:-9],
    "another version": GOOD.replace(b"PMTiles\x03", b"PMTiles\x02"),
    "raster tiles": alone(9, point(*FAR), at=FAR, kind=2),
    "tiles of an unknown kind": alone(9, point(*FAR), at=FAR, kind=0),
    "another compression": alone(9, point(*FAR), at=FAR, packed=3),
    "more bytes at the end": GOOD + b"x",
    "a tile that is not MVT": raw(b"\x89PNG\r\n"),
    "an attribute that is not there": raw(field(3, LAYER + field(2, field(2, varint(3) + varint(4))))),
    "an unknown field": raw(field(3, LAYER + field(20, b"something"))),
    "an unknown field of a feature": raw(field(3, LAYER + field(2, field(9, b"something")))),
    "a value of no kind": raw(field(3, LAYER + field(4, field(9, 1)))),
    "a value that is two": raw(field(3, LAYER + field(4, field(1, b"a") + field(1, b"b")))),
    "a text that is none": raw(field(3, LAYER + field(4, field(1, b"\xff\xfe")))),
    "a layer without extent": raw(field(3, LAYER + field(5, 0))),
    "a number without end": raw(b"\xff" * 40),
    "a number that is cut": raw(b"\x1a\xff"),
    "a length beyond the end": raw(varint(3 << 3 | 2) + varint(1 << 60) + b"x"),
    "a command that there is not": raw(field(3, LAYER + field(2, field(3, 1) + field(4, varint(5))))),
    "a billion positions": raw(field(3, LAYER + field(2, field(3, 1) + field(4, varint(1 << 30 | 1))))),
    "a geometry off the earth": raw(
        field(3, LAYER + field(2, field(3, 1) + field(4, varint(9) + varint(1 << 29) + varint(2))))
    ),
    "a run of 2**60": alone(30, point(*FAR), at=FAR, run=1 << 60),
    "a run that fits": alone(30, point(*FAR), at=FAR, run=1 << 40),
    "an offset outside": archive({(0, 0, 0): b""}, root=gzip.compress(tile_files.directory([(0, 1, 1 << 50, 9)]))),
    "a length outside": archive({(0, 0, 0): b""}, root=gzip.compress(tile_files.directory([(0, 1, 0, 1 << 62)]))),
    "a directory in itself": archive({(0, 0, 0): b""}, packed=1, root=CYCLE, leaves=CYCLE),
    "a tile that is a bomb": lambda: archive({(0, 0, 0): b"x" * (1 << 29)}),
    "one tile of half a million places, a thousand times": archive(
        {(0, 0, 0): b""},
        root=gzip.compress(tile_files.directory([(n, 1, 0, len(MANY)) for n in range(1000)])),
        data=MANY,
    ),
    "a tile of 32 MiB": lambda: raw(field(3, field(1, b"x" * (1 << 25)))),
    "more entries than bytes": archive({(0, 0, 0): b""}, root=gzip.compress(varint(1 << 40))),
    "a zoom that there is not": archive(
        {(0, 0, 0): b""}, root=gzip.compress(tile_files.directory([((1 << 64) - 1, 1, 0, 9)]))
    ),
    "a directory that is a bomb": lambda: archive({(0, 0, 0): b""}, root=gzip.compress(bytes(1 << 29), 9)),
    "no compressed directory": archive({(0, 0, 0): b""}, root=b"hello"),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n in SLOWEST else n for n in HOSTILE])
def test_what_is_no_vector_tile_is_for_a_person_to_review(name: str) -> None:
    body = HOSTILE[name]
    report = judged(body() if callable(body) else body)
    assert report.verdict == "review" and rules(report) == {"gate.unreadable"}


def test_any_byte_may_be_another_and_nothing_fails() -> None:
    chance = random.Random(11)
    plain = alone(9, point(*FAR, name="x"), at=FAR, packed=1)
    for whole in (GOOD, plain):
        for _ in range(400):
            at = chance.randrange(len(whole))
            changed = whole[:at] + bytes([chance.randrange(256)]) + whole[at + 1 :]
            assert scan(changed, KNOWN, MARKER).verdict in ("clean", "review", "deny")
            assert scan(whole[: max(at, 8)], KNOWN, MARKER).verdict == "review"
