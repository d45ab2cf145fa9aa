"""The map of a dataset over HTTP: judged at each request, kept for one audience, and of masked data cells alone."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h3
import pytest

from kfm.app.serving import map_answers
from kfm.app.serving.map_answers import MapCatalog
from kfm.app.serving.shelf import Shelf
from kfm.delivery.page_samples import places_in
from kfm.masking.tile_contents import TileContents
from kfm.parsing.vector_tile import Layer, layers_of
from tests.api.console_server import Console, console
from tests.api.serving_site import PASSING
from tests.app.serving.conftest import FIRST, Opened, declared, publish
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import POINTS, SAFE, SECRETS, label, labels
from tests.kept import once
from tests.masking.tile_files import archive

Place = tuple[int, int, int]
EXTENT, BUFFER = 4096, 64
MVT = "application/vnd.mapbox-vector-tile"


@pytest.fixture
def mapped(public: Kfm) -> Kfm:
    """What `public` has, and places among the wells."""

    def make() -> None:
        table = Path("wells.csv").read_text().splitlines()
        rows = [f"{row},{37 + n / 10},{-101 + n / 5}" for n, row in enumerate(table[1:])]
        declared()
        Path("wells.csv").write_text("\n".join([f"{table[0]},latitude,longitude", *rows, ""]))
        publish(public, "wells")

    once("mapped", [Path(), SAFE], make)
    return public


def tile(server: Console, name: str, at: Place) -> list[Layer]:
    answer = server.get(f"/v1/datasets/{name}/tiles/{at[0]}/{at[1]}/{at[2]}")
    assert (answer.status, answer.headers["content-type"]) == (200, MVT)
    return layers_of(answer.body)


def below(at: Place) -> Iterator[Place]:
    zoom, column, row = at
    for down in (0, 1):
        for across in (0, 1):
            yield zoom + 1, 2 * column + across, 2 * row + down


def all_tiles(server: Console, name: str, deepest: int) -> dict[Place, bytes]:
    """Every tile of a dataset that has features."""
    found: dict[Place, bytes] = {}
    waiting: list[Place] = [(0, 0, 0)]
    while waiting:
        at = waiting.pop()
        body = server.get(f"/v1/datasets/{name}/tiles/{at[0]}/{at[1]}/{at[2]}").body
        if any(layer.features for layer in layers_of(body)):
            found[at] = body
            waiting += below(at) if at[0] < deepest else ()
    return found


def units(at: Place, latitude: float, longitude: float) -> tuple[float, float]:
    down = 0.5 - math.asinh(math.tan(math.radians(latitude))) / (2 * math.pi)
    size = 2 ** at[0]
    return ((longitude + 180) / 360 * size - at[1]) * EXTENT, (down * size - at[2]) * EXTENT


def nearest(outline: list[tuple[float, float]], x: float, y: float) -> float:
    """How far a place is from an outline."""
    found = math.inf
    for (a, b), (c, d) in zip(outline, [*outline[1:], outline[0]], strict=True):
        long = (c - a) ** 2 + (d - b) ** 2
        share = max(0.0, min(1.0, ((x - a) * (c - a) + (y - b) * (d - b)) / long))
        found = min(found, math.hypot(a + share * (c - a) - x, b + share * (d - b) - y))
    return found


def shown_cells(server: Console, name: str) -> set[str]:
    (file,) = server.data(f"/v1/datasets/{name}")["files"]
    return {row["cell"] for row in csv.DictReader(io.StringIO(server.get(file["href"]).text)) if row["cell"]}


def check_cells_alone(server: Console, name: str, deepest: int) -> dict[Place, bytes]:
    """In no tile is a coordinate that the cells of the public file do not have."""
    shown = shown_cells(server, name)
    boundaries = {cell: h3.cell_to_boundary(cell) for cell in shown}
    tiles = all_tiles(server, name, deepest)
    kinds = set()
    for at, body in tiles.items():
        outlines = [[units(at, lat, lng) for lat, lng in ring] for ring in boundaries.values()]
        for layer in layers_of(body):
            assert layer.name in ("cells", "points") and layer.unused == []
            for feature in layer.features:
                kinds.add(layer.name)
                assert {key for key, _ in feature.values} <= {"n", "limited"}
                for x, y in feature.positions:
                    assert -BUFFER <= x <= EXTENT + BUFFER and -BUFFER <= y <= EXTENT + BUFFER
                    is_corner = any(math.dist((x, y), corner) < 1.5 for ring in outlines for corner in ring)
                    # Where the border of the tile cuts a cell: on its outline, or at the corner of the border in it.
                    is_cut = x in (-BUFFER, EXTENT + BUFFER) or y in (-BUFFER, EXTENT + BUFFER)
                    assert is_corner or (
                        is_cut and (min(nearest(ring, x, y) for ring in outlines) < 2 or is_border_corner(x, y))
                    ), (at, x, y)
    assert "cells" in kinds
    return tiles


def is_border_corner(x: float, y: float) -> bool:
    return x in (-BUFFER, EXTENT + BUFFER) and y in (-BUFFER, EXTENT + BUFFER)


def test_no_tile_of_masked_data_has_a_coordinate_that_its_cells_do_not_have(public: Kfm, opened: Opened) -> None:
    with console() as server:
        tiles = check_cells_alone(server, "sites", 8)
        assert {zoom for zoom, _, _ in tiles} == set(range(9))
        # The places themselves are in no tile as a corner, and the leak check of publication finds none either.
        for at, body in tiles.items():
            for lat, lng in POINTS if at[0] == 8 else ():
                here = units(at, float(lat), float(lng))
                assert all(
                    math.dist(here, corner) > 1.5
                    for layer in layers_of(body)
                    for one in layer.features
                    for corner in one.positions
                )
        told = server.get("/v1/datasets/sites/map")
        assert told.data["is_masked"] and told.data["source"] == "tiles" and told.data["places"] == len(POINTS)
        for secret in SECRETS:
            assert secret not in told.text and secret.encode() not in b"".join(tiles.values())


@pytest.mark.long
def test_the_leak_check_of_publication_finds_nothing_finer_in_the_deepest_tiles(public: Kfm) -> None:
    with console() as server:
        tiles = check_cells_alone(server, "sites", 14)
        file = archive({at: body for at, body in tiles.items() if at[0] >= 6})
        contents = TileContents(file, 1 << 30, 6)
        places = [each for each in contents.parts() if not isinstance(each, str)]
        assert contents.faults.total() == 0
        assert places == [], "every feature shows no more than a cell"


def test_a_label_that_closes_a_dataset_closes_its_tiles_at_the_next_request(mapped: Kfm) -> None:
    paths = [f"/v1/datasets/{{}}/{each}" for each in ("map", "tiles/0/0/0", "tiles/6/14/24")]
    with console() as server:
        before = [server.get(path.format("wells")) for path in paths]
        assert [answer.status for answer in before] == [200] * 3
        labels(*FIRST, label("dataset: wells", "restricted"))
        for path, known in zip(paths, before, strict=True):
            closed = server.get(path.format("wells"), **{"If-None-Match": known.headers["etag"]})
            absent = server.get(path.format("nothing"))
            assert (closed.status, closed.body) == (404, absent.body)
            heads = [{k: v for k, v in each.headers.items() if k not in PASSING} for each in (closed, absent)]
            assert heads[0] == heads[1]
        labels(*FIRST)
        assert [server.get(path.format("wells")).body for path in paths] == [answer.body for answer in before]


def test_places_are_drawn_where_they_are_and_the_map_says_what_it_draws(mapped: Kfm) -> None:
    with console() as server:
        told = server.data("/v1/datasets/wells/map")
        assert told["places"] == 12 and told["is_masked"] is False and told["beyond"] == 0
        assert told["bounds"] == [-101.0, 37.0, -98.8, 38.1] and told["tiles"] == "/v1/datasets/wells/tiles/{z}/{x}/{y}"
        (layer,) = tile(server, "wells", (0, 0, 0))
        assert sum(len(one.positions) * int(dict(one.values)["n"]) for one in layer.features) == 12
        assert {name for one in layer.features for name, _ in one.values} == {"n"}, "and no value of a row"
        assert b"well-" not in server.get("/v1/datasets/wells/tiles/0/0/0").body
        walks = server.data("/v1/datasets/walks/map")  # made of the wells before they had places
        assert (walks["source"], walks["tiles"], walks["bounds"]) == ("none", "", [])
        assert [layer.features for layer in tile(server, "walks", (0, 0, 0))] == [[]]


def test_a_tile_of_numbers_that_there_are_not_is_absent(mapped: Kfm) -> None:
    with console() as server:
        absent = server.get("/v1/datasets/nothing/tiles/0/0/0")
        for at in ("15/0/0", "0/1/0", "0/0/1", "1/2/0", "-1/0/0", "00/0/0", "1.0/0/0", "%D9%A1/0/0", "x/y/z",
                   "9" * 400 + "/0/0", "2/%20" + "1/1", "1/+1/0"):  # fmt: skip
            answer = server.get(f"/v1/datasets/wells/tiles/{at}")
            assert (answer.status, answer.body) == (404, absent.body), at
        assert server.get("/v1/datasets/wells/tiles/14/3600/6300").status == 200


def test_what_is_kept_is_found_again_only_by_its_audience_under_the_same_labels(
    mapped: Kfm, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    made = map_answers._made
    monkeypatch.setattr(
        map_answers, "_made", lambda session, shown: (built.append(shown.dataset), made(session, shown))[1]
    )
    gate, catalog = opened(), MapCatalog()

    def ask(audience: str) -> bytes:
        shelf = Shelf(gate.session, gate.gate, audience)
        shown = shelf.find("wells")
        assert shown is not None
        catalog.answer(gate.session, shelf, shown, 1)
        return catalog.tile(gate.session, shelf, shown, 0, 0, 0)

    bodies = {ask("public"), ask("public")}
    assert built == ["wells"]
    bodies |= {ask("viewer"), ask("viewer"), ask("public")}
    assert built == ["wells"] * 2, "another audience finds nothing that was kept for the first"
    labels(*FIRST, label("dataset: sites", public_resolution=6))  # about another dataset
    bodies |= {ask("public"), ask("public")}
    assert built == ["wells"] * 3, "other labels"
    assert len(bodies) == 1 and len(bodies.pop()) > 20


def test_a_row_of_masked_data_without_a_cell_is_drawn_nowhere() -> None:
    """Whatever places its columns may still have."""
    point = '{"type":"Feature","properties":{},"geometry":{"type":"Point","coordinates":[-98.5,38.5]}}'
    bodies = {
        "text/csv": "cell,latitude,longitude\n,38.5,-98.5\n86264d707ffffff,38.5,-98.5\n",
        "application/geo+json": f'{{"type":"FeatureCollection","features":[{point}]}}',
        "image/tiff": "II*",
    }
    kept: Any = SimpleNamespace(open=lambda media_type: io.BytesIO(bodies[media_type].encode()))
    files: Any = [SimpleNamespace(digest=kind, media_type=kind, size=9, bbox=(-98.5, 38.5, -98, 39)) for kind in bodies]
    plain = places_in(kept, files, masked=False).drawing
    assert len(plain.points) == 2 and len(plain.cells) == 1
    masked = places_in(kept, files, masked=True).drawing
    assert masked.places() == len(masked.cells) == 1


def test_no_more_is_kept_than_allowed(mapped: Kfm, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_answers, "MOST_TILES", 2)
    monkeypatch.setattr(map_answers, "MOST_WEIGHT", 1)
    gate, catalog = opened(), MapCatalog()
    shelf = Shelf(gate.session, gate.gate, "public")
    for name in ("wells", "sites"):
        shown = shelf.find(name)
        assert shown is not None
        for column in range(4):
            catalog.tile(gate.session, shelf, shown, 2, column, 1)
    assert len(catalog._tiles) == 2 and len(catalog._maps) == 1
    assert catalog._size == sum(map(len, catalog._tiles.values()))
