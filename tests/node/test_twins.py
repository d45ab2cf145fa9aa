"""Two runners that cannot be told apart: whatever one says, writes, publishes and records, the other does too.

A story is told three times, each time in a folder of the same name: by Python, by Node, and by both in turn.
After every command all that can be seen is compared, byte for byte: what was said, the four artifacts, the
published files, the exported receipts and every row of the state, but for who held a lease.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.installations import KANSAS, Server, serving
from tests.node.sites import Site, Story, contents, differences, tell
from tests.node.twin import ROOT
from tests.sampling import sampled

Count = Callable[..., None]
BACKENDS = {"sqlite": "sqlite:.kfm/state.db", "jsonl": "jsonl:.kfm/state.jsonl"}

GAUGES = "gauge,county,rain_mm\na,ford,1\nb,ellis,2\nc,riley,-3\nd,riley,4\n" + "".join(
    f"e{n},ford,{n}\n" for n in range(8)
)
COUNTIES = '{"county":"ford","name":"Ford County"}\n{"county":"riley","name":"Riley  \\u00a0 Co\u00fcnty \U0001f33e"}\n'
CONFIG = """\
kfm: 1
accept_weak_storage: true
state: STATE
network: {allow: ["127.0.0.1:PORT"]}
execute: {threads: THREADS, window: WINDOW}
datasets:
  gauges:
    version: "1.0.0"
    title: Gauges
    license: CC0-1.0
    sensitivity: public
    extent: {bbox: [-102.1, 36.0, -94.5, 40.1], interval: ["2026-01-01T00:00:00Z", null]}
    sources:
      gauges:
        uri: data/gauges.csv
        format: csv
        complete: true
        contract:
          partition_by: county
          max_held_share: 1
          shrink_limit: 1
          columns: [{name: county, required: true}, {name: rain_mm, type: number, minimum: 0, mode: discard-row}]
      counties:
        {uri: data/counties.ndjson, format: ndjson, complete: true, contract: {columns: [{name: county}]}}
    outputs:
      rain:
        from: gauges
        partition_by: county
        steps: [{select: [gauge, county, rain_mm]}, {sort: [gauge]}]
      named:
        from: gauges
        format: json
        steps:
          - {cast: {rain_mm: number}}
          - {join: {source: counties, on: {county: county}, add: [name]}}
          - {deduplicate: {by: [county]}}
  quakes:
    version: "2.0.0"
    title: Quakes
    sensitivity: public
    sources:
      week:
        uri: http://127.0.0.1:PORT/week.geojson
        format: geojson
        contract:
          max_held_share: 1
          shrink_limit: 1
          columns: [{name: mag, type: number, minimum: -5, maximum: 10, mode: discard-row}]
    outputs:
      large: {from: week, steps: [{filter: {column: mag, at_least: 4.5}}, {select: [id, geometry, mag, place, time]}]}
"""


def week() -> bytes:
    """Some earthquakes of the example: large and small ones, and one that no contract lets pass."""
    whole = json.loads((KANSAS / "data/usgs-all-week.geojson").read_bytes())
    some = sorted(whole["features"], key=lambda feature: -(feature["properties"]["mag"] or 0))[:60:2]
    some[7]["properties"]["mag"] = 11
    return json.dumps({**whole, "features": some}).encode()


WEEK = week()


def files_of(backend: str, port: int, window: int = 512, threads: int = 1) -> dict[str, str | bytes]:
    """Where one thread performs, both runners share the same steps between the same durable writes."""
    said = {"STATE": BACKENDS[backend], "PORT": str(port), "WINDOW": str(window), "THREADS": str(threads)}
    text = CONFIG
    for mark, value in said.items():
        text = text.replace(mark, value)
    return {"kfm.yml": text, "data/gauges.csv": GAUGES, "data/counties.ndjson": COUNTIES}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"week.geojson": WEEK}) as server:
        yield server


@pytest.fixture(autouse=True)
def _as_it_was(server: Server) -> Iterator[None]:
    yield
    server.shelf.files["week.geojson"] = WEEK


# --------------------------------------------------------------------------------------------- the stories


def changed(site: Site, pattern: str, by: str) -> None:
    text = (site.folder / "kfm.yml").read_text()
    assert re.search(pattern, text), pattern
    site.put("kfm.yml", re.sub(pattern, by, text))


def first_and_again(site: Site) -> None:
    assert "done" in site.run("run").answer.out
    assert "noop" in site.run("run").answer.out
    site.run("run", "--exit-code", code=10)
    site.run("run", "gauges", "--json")
    site.run("run", "--verbose", "--json", env={"KFM_LOG": "jsonl"})
    site.run("run", "quakes", "--quiet", "--verbose")


def changing(site: Site) -> None:
    site.run("run", "--verbose")
    site.put("data/gauges.csv", GAUGES + "e,ford,5\nf,saline,6\n")
    site.run("run")
    site.kfm("promote", "gauges", "--reason", "an edition")
    site.run("run")
    site.put("data/gauges.csv", GAUGES)
    site.run("run", "--reason", "saline is gone", code=4)  # more than the deletion budget allows
    site.run("run", "--force", "--reason", "saline is gone", code=4)
    site.run("run", "gauges", "--allow-deletions", "1", "--reason", "saline is gone", "--actor", "an operator")
    site.kfm("rollback", "gauges", "--ref", "processed/gauges")
    site.run("run", code=4)  # and saline is back


def held(site: Site) -> None:
    site.run("run", "gauges")
    site.put("data/gauges.csv", "gauge,county\na,ford\n")
    site.run("run", "gauges", "--verbose", code=3)
    site.put("data/gauges.csv", GAUGES + 'x,"unclosed\n')
    site.run("run", "gauges", "--json", code=3)
    site.put("data/gauges.csv", b"gauge,county,rain_mm\na,\xff,1\n")
    site.run("run", "gauges", code=3)
    site.put("data/gauges.csv", GAUGES.replace("c,riley,-3\n", ""))
    site.run("run", "gauges", "--json")


def frozen(site: Site) -> None:
    site.run("run", "gauges")
    site.kfm("freeze", "gauges", "--reason", "an incident")
    site.put("data/gauges.csv", GAUGES + "e,ford,5\n")
    site.run("run", "gauges", code=5)
    site.run("run", "--json", code=5)
    site.kfm("thaw", "gauges")
    site.run("run", "gauges")
    site.kfm("resume")
    site.run("run")
    site.kfm("freeze")
    site.run("run", code=5)


def failed(site: Site) -> None:
    changed(site, r"\{cast: \{rain_mm: number\}\}", "{cast: {gauge: number}}")
    site.run("run", "gauges", "--verbose", code=None)
    changed(site, "data/gauges.csv", "data/missing.csv")
    site.run("run", "gauges", code=None)
    changed(site, "data/missing.csv", "http://127.0.0.1:1/nothing.csv")
    site.run("run", "gauges", "--verbose", code=None)
    site.run("run", "nobody", code=3)
    site.run("run", "quakes", "gauges", "quakes", code=None)


def another_plan(site: Site) -> None:
    site.run("run", "gauges")
    changed(site, r"select: \[gauge, county, rain_mm\]", "select: [gauge, county]")
    changed(site, 'version: "1.0.0"', 'version: "1.1.0"')
    site.run("run", "gauges")


def windows(site: Site) -> None:
    site.run("run", "gauges")
    site.run("run", "gauges", "--window", "2026-01", code=3)
    site.run("run", "gauges", "--window", "P30D", code=3)  # it declares no column of time
    site.run("run", "gauges", "--force", "--reason", "again")
    site.run("run", "--force", code=3)
    site.run("run", "--abandon", code=3)
    site.run("run", "--allow-deletions", "some", "--reason", "again", code=3)
    site.run("run", "gauges", "--abandon", "--allow-deletions=2", "--reason", "again", "--json")
    site.run("run", "--window", "a\nb", code=3)


def foretold(site: Site) -> None:
    site.dry("run", "--verbose")
    site.run("run")
    site.dry("run", "--json")
    site.put("data/gauges.csv", GAUGES + "e,ford,5\nf,saline,6\n")
    site.dry("run", "gauges")
    site.kfm("freeze", "quakes")
    site.dry("run", code=5)
    site.run("run", code=5)
    site.dry("run", "gauges", "--force", "--reason", "look")


def over_the_network(server: Server) -> Story:
    def story(site: Site) -> None:
        week = WEEK
        server.shelf.files["week.geojson"] = week
        site.run("run", "quakes", "--verbose")
        site.run("run", "quakes", "--verbose")
        server.shelf.files["week.geojson"] = week.replace(b'"mag":', b'"mag": ', 1)
        site.run("run", "quakes")
        server.shelf.files["week.geojson"] = b"<html>503</html>\n"
        assert (
            f"source week (http://127.0.0.1:{server.port}/week.geojson) is held"
            in site.run("run", "quakes", code=3).answer.err
        )
        del server.shelf.files["week.geojson"]
        site.run("run", "quakes", code=None)
        server.shelf.files["week.geojson"] = week
        site.run("run", "quakes")
        changed(site, r"/week\.geojson", "/week.geojson?page=hidden")
        server.shelf.files["week.geojson?page=hidden"] = b"<html>503</html>\n"
        said = site.run("run", "quakes", code=3).answer.err
        assert "/week.geojson) is held" in said and "hidden" not in said  # a query may hold a key

    return story


STORIES: dict[str, Any] = {
    "a first run, and again": first_and_again,
    "a source that changes": changing,
    "a source that is held": held,
    "a dataset that is frozen": frozen,
    "a run that fails": failed,
    "another plan for the same inputs": another_plan,
    "windows and force": windows,
    "a dry run": foretold,
}
RUNNERS: dict[str, Callable[[int], str]] = {
    "node": lambda _n: "node",
    "node first, then in turn": lambda n: ("node", "python")[n % 2],
    "python first, then in turn": lambda n: ("python", "node")[n % 2],
}


def same(
    folder: Path,
    files: dict[str, str | bytes],
    story: Story,
    count: Count,
    *,
    runners: tuple[str, ...] = tuple(RUNNERS),
    folded: bool = False,
) -> None:
    expected = tell(folder, files, story, lambda _n: "python")
    assert expected
    for name in runners:
        runner = RUNNERS[name]
        found = tell(folder, files, story, runner)
        told = list(differences(expected, found, folded=folded))
        assert not told, f"{name}: {len(told)} differences\n" + "\n".join(told[:12])
        count("commands answered alike", len(found))


# What is told in the default suite; the long one tells every story by everyone on both.
BRIEFLY = {"sqlite": ("node first, then in turn",), "jsonl": ("node",)}
TOLD = [(name, "sqlite") for name in STORIES] + [
    (name, "jsonl") for name in ("a source that changes", "a dataset that is frozen", "a dry run")
]


@pytest.mark.parametrize(("name", "backend"), sampled(TOLD, every=4))
def test_both_runners_leave_the_same_records(
    name: str, backend: str, tmp_path: Path, server: Server, count: Count
) -> None:
    same(tmp_path / "site", files_of(backend, server.port), STORIES[name], count, runners=BRIEFLY[backend])


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", STORIES)
def test_the_records_are_the_same_whichever_runner_starts(
    name: str, backend: str, tmp_path: Path, server: Server, count: Count
) -> None:
    same(tmp_path / "site", files_of(backend, server.port), STORIES[name], count)


@pytest.mark.parametrize("backend", BACKENDS)
def test_over_the_network_too(backend: str, tmp_path: Path, server: Server, count: Count) -> None:
    files = files_of(backend, server.port)
    same(tmp_path / "site", files, over_the_network(server), count, runners=BRIEFLY[backend])


def the_example(site: Site) -> None:
    names = ("kgs-cuttings", "usgs-earthquakes")
    site.dry("run")
    site.run("run", "--json")
    for name in names:
        site.kfm("promote", name)
    assert site.run("run").answer.out.count("noop") >= len(names)
    site.run("run", "--force", "--reason", "once more", "--verbose")


@pytest.mark.long
def test_the_example_over_real_data_too(tmp_path: Path, count: Count) -> None:
    folder = ROOT / "examples/declared"
    files: dict[str, str | bytes] = dict(contents(folder))
    text = (folder / "kfm.yml").read_text()
    files["kfm.yml"] = "accept_weak_storage: true\nexecute: {threads: 1, window: 512}\n" + text
    same(tmp_path / "site", files, the_example, count, runners=("node first, then in turn",))


@pytest.mark.long
def test_with_threads_only_what_shares_a_durable_write_may_differ(tmp_path: Path, server: Server, count: Count) -> None:
    files = files_of("sqlite", server.port, window=4096, threads=4)
    same(tmp_path / "site", files, changing, count, runners=("python first, then in turn",), folded=True)


@pytest.mark.long
def test_in_small_windows_too(tmp_path: Path, server: Server, count: Count) -> None:
    """Each durable write speaks of two steps at most: the segments are the same, and so is their chain."""
    files = files_of("sqlite", server.port, window=2)
    same(tmp_path / "site", files, changing, count, runners=("python first, then in turn",))
