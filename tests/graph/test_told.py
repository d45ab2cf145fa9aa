"""Real runs, told to a real Neo4j and to a file: an outage changes nothing of what was committed, and loses nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.contract.lineage import made_by, used_by
from kfm.contract.public_run import PublicRun
from kfm.engine.following import progress
from kfm.engine.told import public_runs
from kfm.house.opening import House
from tests.graph.server import Neo4jServer, free_port
from tests.graph.site import Site, forwarding
from tests.graph.test_neo4j import holds

pytestmark = pytest.mark.xdist_group("neo4j")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(tmp_path)
    folder = tempfile.mkdtemp(prefix="kfm-graph-", dir=base)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def known(server: Neo4jServer, monkeypatch: pytest.MonkeyPatch) -> Neo4jServer:
    monkeypatch.setenv("NEO4J_USERNAME", server.user)
    monkeypatch.setenv("NEO4J_PASSWORD", server.password)
    return server


def runs_of(house: House) -> list[PublicRun]:
    return list(public_runs(house.state, house.objects))


def events_of(site: Site) -> list[str]:
    lines = (site.folder / "events.ndjson").read_text().splitlines()
    return [event["run"]["runId"] for event in map(json.loads, lines) if event["eventType"] != "START"]


def test_runs_commit_while_the_graph_is_down_and_nothing_is_lost(place: Path, known: Neo4jServer) -> None:
    port = free_port()
    site = Site(place, f"bolt://127.0.0.1:{port}")
    with site.open() as house:
        site.some_runs(house, 4)
        house.settle()
        (problem,) = house.untold
        assert problem.code == "unavailable" and f"127.0.0.1:{port}" in str(problem)
        assert progress(house.state, "graph").lag == len(runs_of(house)) == 6
        told = events_of(site)  # one sink holds up no other
        assert told == [run.run_id for run in runs_of(house)]
    committed = site.rows()
    assert any("/receipts/" in name for name in committed) and len(committed) > 20
    with forwarding(port, known.port), site.open() as house:
        house.settle(again=True)
        assert house.untold == [] and progress(house.state, "graph").lag == 0
        holds(known, runs_of(house))
    assert site.rows() == committed
    assert events_of(site) == told
    site.sound()


def test_the_current_view_is_right_after_a_rollback_and_forward_again(place: Path, known: Neo4jServer) -> None:
    site = Site(place, known.url)

    def view() -> dict[str, object]:
        rows = known.ask(
            "MATCH (d:Dataset) WHERE d.key STARTS WITH 'kfm://ref/published/' "
            "RETURN d.key AS key, d.version AS version, d.withdrawn AS withdrawn"
        )
        return {row["key"]: (row["version"], row["withdrawn"]) for row in rows}

    with site.open() as house:
        views = []
        for n in range(2):
            site.source(f"edition {n}")
            house.run(house.trigger("demo"))
            house.operation("promote", "demo", reason="an edition")
            house.settle()
            views.append(view())
        first, second = views
        assert first != second
        house.operation("rollback", "demo", reason="wrong")
        house.settle()
        assert view() == first
        newest = house.state.refs.at("processed/demo")
        house.operation("rollback", "demo", {"to": newest}, reason="right after all")
        house.settle()
        assert view() == second
        house.operation("rollback", "demo", {"to": "nothing"}, reason="withdrawn")
        house.settle()
        assert view() == {"kfm://ref/published/demo": (None, True)}
        assert house.untold == []
        holds(known, runs_of(house))


def downstream(house: House, address: str, digest: str) -> set[str]:
    """By the embedded graph: every run that anything of this went into."""
    found: set[str] = set()
    asked, waiting = set(), [(address, digest)]
    while waiting:
        thing = waiting.pop()
        if thing in asked:
            continue
        asked.add(thing)
        for use in house.state.lineage.users(*thing):
            found.add(use.run_id)
            receipt = house.state.ledger.receipt(use.run_id)
            assert receipt is not None
            if made := made_by(receipt):
                waiting.append((f"kfm://dataset/{receipt.dataset}", made))
    return found


def upstream(house: House, address: str, digest: str) -> set[str]:
    """All that went into a version, as address#digest."""
    found: set[str] = set()
    waiting = [(address, digest)]
    while waiting:
        name, version = waiting.pop()
        for run_id in house.state.lineage.makers(name.removeprefix("kfm://dataset/"), version):
            receipt = house.state.ledger.receipt(run_id)
            assert receipt is not None
            for used in used_by(receipt):
                if "#".join(used) not in found:
                    found.add("#".join(used))
                    waiting.append(used)
    return found


DOWN = (
    "MATCH (:Asset {uri: $uri, hash: $hash})-[:USED_IN|MADE*]->(r:Run {status: 'SUCCESS'}) RETURN DISTINCT r.id AS it"
)
UP = (
    "MATCH (a:Asset)-[:USED_IN|MADE*]->(:Asset {uri: $uri, hash: $hash}) WHERE a.uri <> $uri OR a.hash <> $hash "
    "RETURN DISTINCT a.uri + '#' + a.hash AS it"
)


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.long)])
def test_both_graphs_answer_alike(place: Path, known: Neo4jServer, count: int) -> None:
    site = Site(place, known.url)
    rng = random.Random(count)
    with site.open() as house:
        for n in range(count):
            name = rng.choice(("demo", "other"))
            site.source(f"edition {rng.randrange(count)}", name)  # sometimes one that was there before
            house.run(house.trigger(name))
            if n % 3 == 2 and house.state.refs.at(f"processed/{name}"):
                house.operation("promote", name, reason="an edition")
        (site.folder / "other.csv").write_text("no header\n" * 3)
        house.settle()
        assert house.untold == []
        runs = runs_of(house)
        holds(known, runs)
        things = sorted({(each.id, each.checksum) for run in runs for each in run.used()})
        versions = sorted({(f"kfm://dataset/{run.dataset}", run.version) for run in runs if run.made_a_version()})
        answered = 0
        for _ in range(50):
            uri, hash = rng.choice(things)
            by_neo4j = {row["it"] for row in known.ask(DOWN, uri=uri, hash=hash)}
            assert by_neo4j == downstream(house, uri, hash), (uri, hash)
            answered += len(by_neo4j)
            uri, hash = rng.choice(versions)
            by_neo4j = {row["it"] for row in known.ask(UP, uri=uri, hash=hash)}
            assert by_neo4j == upstream(house, uri, hash), (uri, hash)
            answered += len(by_neo4j)
        assert answered > 100 and len(versions) > 4
