"""Thousands of overlapping questions to a server of masked tables do not determine what the tables withhold."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import h3
import pytest

from tests.api.roles_site import serving
from tests.api.serving_site import Site
from tests.app.governance.people import by_order, make_list
from tests.attacker.queries import Cell, Item, item_of, queries, solved, undetermined
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import SAFE, label, labels

K = 5
AROUND = (-101.5, 37.2, -95.2, 39.8)
KINDS = ("village", "camp", "mound", "ford")
MASK = """\
id: NAME
version: "1"
namespace: state-NAME
record_id: trinomial
resolution: 6
location:
  latitude: lat
  longitude: lon
  accuracy: {all: {name: point, metres: 10}}
columns:
  kind: {kind: code, values: [village, camp, mound, ford]}
  age: {kind: number, step: 10}
"""
UPDATERS = """\
import json

from kfm import Output, Plan, Step, Updater


class Shards(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rows")]

    def plan(self, inputs):
        return Plan([Step(id=f"part-{n}", key=(f"part-{n}",), params={"n": n}) for n in range(9)], complete=True)

    def perform(self, step, read):
        return Output.csv(row for row in read.csv(0) if int(row["cell"][:12], 16) // 8 % 9 == step.params["n"])


class Features(Shards):
    def perform(self, step, read):
        rows = [row for at, row in enumerate(read.csv(0)) if at % 9 == step.params["n"]]
        found = [
            {"type": "Feature", "properties": {"datetime": row["at"]},
             "geometry": {"type": "Point", "coordinates": [float(row["lon"]), float(row["lat"])]}} for row in rows
        ]
        body = json.dumps({"type": "FeatureCollection", "features": found}).encode()
        return Output(body=body, media_type="application/geo+json")
"""
DATASET = """\
  NAME:
    title: NAME
    license: CC0-1.0
    SENSITIVITY
    updater: updaters.py:UPDATER
    sources:
      rows: {uri: NAME.csv, format: csv, contract: {columns: [{name: COLUMN}]}MASK}
"""
PLAIN = ("roads", "wells", "shut", "vault")  # the last two are closed; vault was never published


class Row(NamedTuple):
    id: str
    kind: str
    age: int
    lat: float
    lon: float

    @property
    def cell(self) -> str:
        return h3.latlng_to_cell(self.lat, self.lon, 6)


def rows(seed: int, count: int, kinds: tuple[int, ...], spread: float) -> list[Row]:
    """Sites near some places; of some kinds there are few in a cell."""
    draw = random.Random(seed)
    places = [(draw.uniform(37.5, 39.5), draw.uniform(-101, -95.5)) for _ in range(14)]
    found = []
    for n in range(count):
        lat, lon = draw.choice(places)
        kind = draw.choices(KINDS, kinds)[0]
        at = lat + draw.uniform(-spread, spread), lon + draw.uniform(-spread, spread)
        found.append(Row(f"14QX{seed}{n:04}", kind, draw.randrange(300, 1300, 20), *at))
    return found


def dataset(name: str, updater: str, column: str, sensitivity: str = "", mask: str = "") -> str:
    said = DATASET.replace("NAME", name).replace("UPDATER", updater).replace("COLUMN", column)
    said = said.replace("MASK", f", mask: {mask}" if mask else "")
    return said.replace("    SENSITIVITY\n", f"    sensitivity: {sensitivity}\n" if sensitivity else "")


class World:
    """The installation, and what is true in it."""

    def __init__(self, kfm: Kfm) -> None:
        self.tables = {"finds": rows(7, 331, (9, 5, 3, 1), 0.03), "tally": rows(8, 647, (9, 7, 7, 1), 0.004)}
        Path("kfm.yml").write_text(
            "accept_weak_storage: true\nlabels: labels.yml\ncustodians: {office: {key: 'env:KFM_SECRET_OFFICE'}}\n"
            "datasets:\n"
            + "".join(dataset(name, "Shards", "trinomial", "public", mask=f"{name}.yml") for name in self.tables)
            + "".join(dataset(name, "Features", "id", "public") for name in PLAIN)
        )
        Path("labels.yml").write_text("")
        labels(*(label(f"source: {name}.csv") for name in self.tables))
        Path("updaters.py").write_text(UPDATERS)
        for name, table in self.tables.items():
            more = "quasi_identifiers: [kind, age]\n" if name == "finds" else "counts_by: kind\n"
            Path(f"{name}.yml").write_text(MASK.replace("NAME", name) + more)
            lines = [f"{row.id},{row.kind},{row.age},{row.lat:.6f},{row.lon:.6f}" for row in table]
            Path(f"{name}.csv").write_text("\n".join(["trinomial,kind,age,lat,lon", *lines]) + "\n")
        draw = random.Random(3)
        self.plain: dict[str, list[tuple[float, float, str]]] = {}
        for name in PLAIN:
            self.plain[name] = [
                (draw.uniform(37.3, 39.7), draw.uniform(-101.3, -95.3), f"{draw.randrange(1996, 2029)}-06-01T00:00:00Z")
                for _ in range(27)
            ]
            lines = [f"{n},{lat:.5f},{lon:.5f},{at}" for n, (lat, lon, at) in enumerate(self.plain[name])]
            Path(f"{name}.csv").write_text("\n".join(["id,lat,lon,at", *lines]) + "\n")
        make_list(kfm, SAFE, "office")
        for name in (*self.tables, *PLAIN):
            ran = kfm("run", name)
            assert ran.code == 0, ran.err
        for name in (*self.tables, "roads", "wells", "shut"):
            assert by_order(kfm, SAFE, "promote", name).code == 0
        made = kfm("token", "new", "--person", "olli", "--key", str(SAFE / "olli.key"), "--json")
        self.operator = made.data["token"]
        self.sizes = {name: Path(f"{name}.csv").stat().st_size for name in self.tables}

    def counts(self, name: str) -> Counter[Cell]:
        return Counter((row.cell, row.kind) for row in self.tables[name])

    def would_match(self, query: Any) -> int:
        """How many features of the closed datasets lie where a question looks."""
        closed = [
            Item("", "", (lon, lat, lon, lat), at, at, 1, "") for n in PLAIN[2:] for lat, lon, at in self.plain[n]
        ]
        return sum(query.matches(item) is True for item in closed)


@pytest.fixture
def world(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(kfm)


@pytest.fixture
def site(world: World) -> Iterator[Site]:
    with serving(Path.cwd()) as found:
        found.ask("/stac/search")  # the index holds all that is public, also what is closed now
        for name in PLAIN[2:]:
            found.close_dataset(name)
        yield found


def features(site: Site, asked: dict[str, str], token: str) -> tuple[list[dict[str, Any]], set[int | None]]:
    """All features of a search, page by page, and every total that was said."""
    found: list[dict[str, Any]] = []
    totals: set[int | None] = set()
    at = f"/stac/search?{urlencode(asked)}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    while at:
        answer = site.ask(at, headers=headers)
        assert answer.status == 200, (at, answer.body)
        page = json.loads(answer.body)
        assert page["numberReturned"] == len(page["features"]) <= int(asked["limit"])
        found += page["features"]
        totals.add(page.get("numberMatched"))
        onward = [link["href"] for link in page["links"] if link["rel"] == "next"]
        at = onward[0].removeprefix(site.base) if onward else ""
        assert not at or page["features"], "a page that ends without an item tells of one that is not shown"
    return found, totals


def table(site: Site, name: str) -> list[dict[str, str]]:
    """All rows that the public can read."""
    files = json.loads(site.ask(f"/v1/datasets/{name}").body)["files"]
    return [row for each in files for row in csv.DictReader(io.StringIO(site.ask(each["href"]).body.decode()))]


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_overlapping_questions_determine_no_count_below_k(count: int, world: World, site: Site) -> None:
    every, _ = features(site, {"limit": "1000"}, "")
    items = [item_of(each) for each in every]
    assert {item.collection for item in items} == {"finds", "tally", "roads", "wells"} and len(items) > 30
    equations: list[tuple[dict[int, int], int]] = []
    fired = 0
    said = set[int]()
    for n, query in enumerate(islice(queries(random.Random(count), items, AROUND), count)):
        found, totals = features(site, dict(query.asked), world.operator if n % 5 == 0 else "")
        expected = [item for item in items if query.matches(item) is True]
        assert sorted((f["collection"], f["id"]) for f in found) == sorted((i.collection, i.id) for i in expected), (
            query
        )
        assert not query.order or in_order(found, query.order), query
        hidden = world.would_match(query)
        fired += hidden > 0
        for total in totals - {None}:
            assert total is not None
            equations.append(({0: hidden, 1: 1} if hidden else {1: 1}, total - len(expected)))
        said.update(numbers(found))
    # Had an answer counted what is closed, the first unknown would be 1. It follows from nothing but zeros.
    assert fired > count // 6 and len(equations) > count // 2
    assert {right for _, right in equations} == {0}, "an answer depends on what is closed"
    assert solved([(left, right) for left, right in equations if 0 in left], 2).get(0, 0) == 0
    check_tables(world, site, said)


def in_order(found: list[dict[str, Any]], order: str) -> bool:
    """Whether features come in an order; one without the value is less than any other."""
    name = order[1:]
    values = [f["id"] if name == "id" else f["properties"].get(name) for f in found]
    keys = [(value is not None, value if value is not None else 0) for value in values]
    return name == "datetime" or keys == sorted(keys, reverse=order[0] == "-")


def numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, int):
        yield value


def check_tables(world: World, site: Site, said: set[int]) -> None:
    """Solve the tables themselves, with the totals that a reader may know from elsewhere."""
    truth = world.counts("tally")
    shown = {(row["cell"], row["kind"]): row["count"] for row in table(site, "tally")}
    hidden = {cell for cell, count in shown.items() if count == "withheld"}
    assert shown.keys() == truth.keys() and all(int(n) == truth[c] >= K for c, n in shown.items() if n != "withheld")
    below = {cell for cell, count in truth.items() if count < K}
    assert len(below) > 10 and below <= hidden and len(hidden) < len(shown)
    assert undetermined(truth, hidden, K) == hidden, "a count follows from the totals"
    # Numbers that would be one more equation: of the rows and bytes of a source, of any answer about a table.
    for name in world.tables:
        answers = [
            f"/v1/datasets/{name}",
            f"/v1/focus/{name}",
            f"/v1/datasets/{name}/lineage",
            f"/v1/datasets/{name}/diff",
        ]
        runs = json.loads(site.ask(f"/v1/runs?dataset={name}").body)["runs"]
        assert runs
        answers += [f"/v1/runs/{run['run_id']}{of}" for run in runs for of in ("", "/steps", "/journal", "/receipt")]
        for path in answers:
            for token in ("", world.operator):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                body = site.ask(path, headers=headers).body.decode()
                told = set(map(int, re.findall(r"(?<![\w.:-])\d{1,7}(?![\w.:-])", body)))
                assert not told & {len(world.tables[name]), world.sizes[name]}, path
        assert not said & {len(world.tables[name]), world.sizes[name]}
    records = table(site, "finds")
    groups = Counter((row["cell"], row["kind"], row["age"]) for row in records)
    sizes = Counter(row["cell"] for row in records)
    true = Counter((row.cell, row.kind, str(row.age)) for row in world.tables["finds"])
    exact = {group: count for group, count in groups.items() if "withheld" not in group}
    assert all(count >= K for count in exact.values()) and len(records) == 331
    small = {group: count for group, count in true.items() if count < K}
    assert len(small) > 50
    for cell, kind, age in small:
        # Its count is anything from 0 to the number of rows that may be of this group.
        may_be = sum(
            n for (c, k, a), n in groups.items() if c == cell and k in (kind, "withheld") and a in (age, "withheld")
        )
        known = groups.get((cell, kind, age), 0)
        assert known < may_be <= sizes[cell], (cell, kind, age)


def test_a_count_that_follows_from_the_totals_is_found() -> None:
    """One withheld count of a line, and a corner that only the small counts are withheld of."""
    truth = {("a", "x"): 2, ("a", "y"): 9, ("b", "x"): 7, ("b", "y"): 8, ("c", "x"): 3, ("c", "y"): 6}
    assert undetermined(truth, {("a", "x")}, K) == set()
    assert undetermined(truth, {("a", "x"), ("b", "y")}, K) == set()
    corner = {("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")}
    assert undetermined(truth, corner, K) == corner
    assert undetermined(truth, corner | {("c", "x")}, K) == corner, "a bridge follows"
    assert undetermined(dict.fromkeys(corner, 3), corner, K) == corner
    assert undetermined(dict.fromkeys(corner, 1), corner, K) == set(), "none may be less than one"


def test_an_unknown_that_follows_from_equations_is_found() -> None:
    assert solved([({0: 1, 1: 1}, 3), ({1: 1}, 1)], 2) == {0: 2, 1: 1}
    assert solved([({0: 1, 1: 1}, 3), ({0: 2, 1: 2}, 6)], 2) == {}
    assert solved([({0: 1, 1: 1, 2: 1}, 3), ({1: 1, 2: 1}, 1)], 3) == {0: 2}
