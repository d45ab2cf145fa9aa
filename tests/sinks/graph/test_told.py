"""Real runs are delivered to a real Neo4j and to a file: an outage changes no commit, and loses nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.delivery.followers import progress
from kfm.model.lineage_edges import made_by, used_by
from kfm.model.public_run import PublicRun
from tests.delivery.ledger_runs import public_runs
from tests.sinks.graph.server import Neo4jServer, free_port
from tests.sinks.graph.site import Site, forwarding
from tests.sinks.graph.test_neo4j import holds

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


def runs_of(session: Session) -> list[PublicRun]:
    return list(public_runs(session.state, session.objects))


def events_of(site: Site) -> list[str]:
    lines = (site.folder / "events.ndjson").read_text().splitlines()
    return [event["run"]["runId"] for event in map(json.loads, lines) if event["eventType"] != "START"]


def test_runs_commit_while_the_graph_is_down_and_nothing_is_lost(place: Path, known: Neo4jServer) -> None:
    port = free_port()
    site = Site(place, f"bolt://127.0.0.1:{port}")
    with site.open() as session:
        site.some_runs(session, 4)
        settle_session(session)
        (problem,) = session.sink_problems
        assert problem.code == "unavailable" and f"127.0.0.1:{port}" in str(problem)
        assert progress(session.state, "graph").lag == len(runs_of(session)) == 6
        told = events_of(site)  # one sink holds up no other
        assert told == [run.run_id for run in runs_of(session)]
    committed = site.rows()
    assert any("/receipts/" in name for name in committed) and len(committed) > 20
    with forwarding(port, known.port), site.open() as session:
        settle_session(session, again=True)
        assert session.sink_problems == [] and progress(session.state, "graph").lag == 0
        holds(known, runs_of(session))
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

    with site.open() as session:
        views = []
        for n in range(2):
            site.source(f"edition {n}")
            run_trigger(session, new_trigger(session, "demo"))
            run_operation(session, "promote", "demo", reason="an edition")
            settle_session(session)
            views.append(view())
        first, second = views
        assert first != second
        run_operation(session, "rollback", "demo", reason="wrong")
        settle_session(session)
        assert view() == first
        newest = session.state.refs.at("processed/demo")
        run_operation(session, "rollback", "demo", {"to": newest}, reason="right after all")
        settle_session(session)
        assert view() == second
        run_operation(session, "rollback", "demo", {"to": "nothing"}, reason="withdrawn")
        settle_session(session)
        assert view() == {"kfm://ref/published/demo": (None, True)}
        assert session.sink_problems == []
        holds(known, runs_of(session))


def downstream(session: Session, address: str, digest: str) -> set[str]:
    """By the embedded graph: every run that anything of this went into."""
    found: set[str] = set()
    asked, waiting = set(), [(address, digest)]
    while waiting:
        thing = waiting.pop()
        if thing in asked:
            continue
        asked.add(thing)
        for use in session.state.lineage.users(*thing):
            found.add(use.run_id)
            receipt = session.state.ledger.receipt(use.run_id)
            assert receipt is not None
            if made := made_by(receipt):
                waiting.append((f"kfm://dataset/{receipt.dataset}", made))
    return found


def upstream(session: Session, address: str, digest: str) -> set[str]:
    """All that went into a version, as address#digest."""
    found: set[str] = set()
    waiting = [(address, digest)]
    while waiting:
        name, version = waiting.pop()
        for run_id in session.state.lineage.makers(name.removeprefix("kfm://dataset/"), version):
            receipt = session.state.ledger.receipt(run_id)
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
    with site.open() as session:
        for n in range(count):
            name = rng.choice(("demo", "other"))
            site.source(f"edition {rng.randrange(count)}", name)  # sometimes one that was there before
            run_trigger(session, new_trigger(session, name))
            if n % 3 == 2 and session.state.refs.at(f"processed/{name}"):
                run_operation(session, "promote", name, reason="an edition")
        (site.folder / "other.csv").write_text("no header\n" * 3)
        settle_session(session)
        assert session.sink_problems == []
        runs = runs_of(session)
        holds(known, runs)
        things = sorted({(each.id, each.checksum) for run in runs for each in run.used()})
        versions = sorted({(f"kfm://dataset/{run.dataset}", run.version) for run in runs if run.made_a_version()})
        answered = 0
        for _ in range(50):
            uri, hash = rng.choice(things)
            by_neo4j = {row["it"] for row in known.ask(DOWN, uri=uri, hash=hash)}
            assert by_neo4j == downstream(session, uri, hash), (uri, hash)
            answered += len(by_neo4j)
            uri, hash = rng.choice(versions)
            by_neo4j = {row["it"] for row in known.ask(UP, uri=uri, hash=hash)}
            assert by_neo4j == upstream(session, uri, hash), (uri, hash)
            answered += len(by_neo4j)
        assert answered > 100 and len(versions) > 4
