"""Whatever was rolled back or published again: the graph says of each artifact what it is in the processed zone, and
what it is in the published one. What an intruder spoilt in the graph is found, and reported again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kfm.app.maintenance.reconcile import drifts, repair
from kfm.app.session.session import Session
from kfm.model import manifests
from kfm.model.public_run import artifact_id
from tests.delivery.ledger_runs import public_runs
from tests.delivery.sites import Site
from tests.sampling import sampled
from tests.sinks.graph.server import Neo4jServer, free_port
from tests.sinks.graph.test_neo4j import holds
from tests.sinks.graph.test_told import known as known
from tests.sinks.graph.test_told import place as place

pytestmark = pytest.mark.xdist_group("neo4j")


@pytest.fixture
def site(place: Path, known: Neo4jServer) -> Site:
    return Site(place / "site", ("demo", "other"), f"graph: {known.url}\nneo4j: {{timeout_s: 20}}\n")


def processed(server: Neo4jServer) -> dict[str, dict[str, Any]]:
    """The processed zone: of each artifact and ref all but when it was first named, the number of the run that said so
    last, and what is published."""
    rows = server.ask(
        "MATCH (d:Dataset) WHERE d.removed_by IS NULL AND d.hash IS NOT NULL AND NOT d.key CONTAINS '/published/' "
        "RETURN properties(d) AS d"
    )
    return {row["d"]["key"]: {k: row["d"].get(k) for k in ("hash", "version", "stac_id", "withdrawn")} for row in rows}


def published(server: Neo4jServer) -> dict[str, tuple[str, str]]:
    """The published zone: of each artifact its content, and the version in which it got it."""
    rows = server.ask("MATCH (d:Dataset) WHERE d.published_hash IS NOT NULL RETURN properties(d) AS d")
    return {row["d"]["key"]: (row["d"]["published_hash"], row["d"]["published_version"]) for row in rows}


EDITIONS = [{"a": "1", "b": "2"}, {"a": "x", "c": "3"}, {"b": "y", "c": "3", "d": "4"}]


@pytest.mark.long
def test_after_a_rollback_the_published_zone_is_what_it_was_and_the_processed_one_stays(
    site: Site, known: Neo4jServer
) -> None:
    with site.open() as session:
        views, versions = [], []
        for rows in EDITIONS:
            versions.append(site.publish(session, rows))
            views.append(published(known))
        assert len({str(each) for each in views}) == 3
        made = processed(known)
        for at in (1, 0, 2, 0, 1):
            site.operate(session, "rollback", {"to": versions[at]})
            assert published(known) == views[at] and processed(known) == made
        site.operate(session, "promote", {"to": session.state.refs.at("processed/demo")})
        assert published(known) == views[2], "what was processed last, promoted again"
        site.operate(session, "rollback", {"to": versions[0]})
        site.publish(session, {**EDITIONS[2], "e": "5"})
        forward = published(known)
        site.operate(session, "rollback", {"to": versions[2]})
        assert published(known) == views[2]
        site.operate(session, "promote", {"to": session.state.refs.at("processed/demo")})
        assert published(known) == forward
        site.operate(session, "rollback", {"to": "nothing"})
        assert published(known) == {} and hashes(known) == entries(session, session.state.refs.at("processed/demo"))
        assert session.sink_problems == []
        holds(known, list(public_runs(session.state, session.objects)))


def test_an_ingest_after_a_rollback_is_what_it_would_have_been_without(site: Site, known: Neo4jServer) -> None:
    with site.open() as session:
        first = site.publish(session, EDITIONS[0])
        site.publish(session, EDITIONS[1])
        site.operate(session, "rollback", {"to": first})
        site.publish(session, EDITIONS[2])
        assert hashes(known) == entries(session, session.state.refs.at("processed/demo"))
        assert public_hashes(known) == entries(session, session.state.refs.at("published/demo"))


def entries(session: Session, version: str) -> dict[str, str]:
    if not version:
        return {}
    return {artifact_id("demo", each.key): each.digest for each in manifests.entries(session.objects, version)}


def hashes(server: Neo4jServer) -> dict[str, str]:
    return {key: each["hash"] for key, each in processed(server).items() if "/row/" in key}


def public_hashes(server: Neo4jServer) -> dict[str, str]:
    return {key: hash for key, (hash, _) in published(server).items()}


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
def test_whatever_is_done_the_graph_has_both_zones_as_their_refs_are(site: Site, known: Neo4jServer, seed: int) -> None:
    rng = random.Random(seed)
    with site.open() as session:
        for _ in range(12):
            history = [each.after for each in session.state.refs.history("published/demo") if each.after]
            what = rng.choice(["ingest", "ingest", "promote", "rollback"])
            if what == "rollback" and history:
                to = rng.choice(history)
                if to != session.state.refs.at("published/demo"):
                    site.operate(session, "rollback", {"to": to})
            elif what == "promote" and session.state.refs.at("processed/demo") != session.state.refs.at(
                "published/demo"
            ):
                site.operate(session, "promote", {"to": session.state.refs.at("processed/demo")})
            else:
                rows = {key: str(rng.randrange(3)) for key in rng.sample("abcde", rng.randrange(1, 5))}
                site.ingest(session, rows)
        holds(known, list(public_runs(session.state, session.objects)))
        assert hashes(known) == entries(session, session.state.refs.at("processed/demo"))
        assert public_hashes(known) == entries(session, session.state.refs.at("published/demo"))


SPOILT = {
    "a run is gone": "MATCH (r:Run) WITH r ORDER BY r.seq LIMIT 1 DETACH DELETE r",
    "a run says something else": "MATCH (r:Run) WITH r ORDER BY r.seq LIMIT 1 SET r.outcome = 'fine', r.more = 1",
    "an edge is gone": "MATCH (:Asset)-[e:USED_IN]->(:Run) WITH e LIMIT 1 DELETE e",
    "an edge is new": "MATCH (a:Asset), (r:Run) WHERE NOT (a)-->(r) WITH a, r LIMIT 1 CREATE (a)-[:USED_IN]->(r)",
    "an edge has another digest": "MATCH (:Run)-[g:GENERATED]->(:Dataset) WITH g LIMIT 1 SET g.hash = 'sha256:0'",
    "an artifact is gone": "MATCH (d:Dataset) WHERE d.key CONTAINS '/row/' WITH d LIMIT 1 DETACH DELETE d",
    "a ref stands elsewhere": "MATCH (d:Dataset {key: 'kfm://ref/published/demo'}) SET d.version = 'sha256:0'",
    "something seems newer": "MATCH (d:Dataset) SET d.seq = 1000, d.care_label = 'Open'",
    "an input was seen before": "MATCH (a:Asset) SET a.first_seen_at = '1999'",
    "all of it is gone": "MATCH (n) DETACH DELETE n",
    "a run is forged": "CREATE (:Run {id: 'forged', status: 'SUCCESS', dataset: 'demo', seq: 99})",
    "a source is forged": "MATCH (a:Asset {uri: 'kfm://dataset/demo'}) WITH a LIMIT 1 "
    "CREATE (:Asset {uri: 'x', hash: 'y'})-[:USED_IN]->(:Run {id: 'forged'})-[:MADE]->(a)",
    "an asset says more": "MATCH (a:Asset) WITH a LIMIT 1 SET a.more = 1",
    "an asset has another address": "MATCH (a:Asset) WITH a LIMIT 1 SET a.uri = 'kfm://elsewhere'",
    "a member is gone": "MATCH (:Asset)-[e:HAD_MEMBER]->(:Asset) WITH e LIMIT 1 DELETE e",
    "a member is new": "MATCH (v:Asset)-[:HAD_MEMBER]->(), (a:Asset) WHERE NOT (v)-->(a) WITH v, a LIMIT 1 "
    "CREATE (v)-[:HAD_MEMBER]->(a)",
    "a ref presents something else": "MATCH (:Asset)-[e:SPECIALIZATION_OF]->(:Asset) WITH e LIMIT 1 DELETE e",
    "a ref points elsewhere": "MATCH (d:Dataset {key: 'kfm://ref/published/demo'})-[e:POINTS_TO]->(a), (b:Asset) "
    "WHERE a <> b WITH d, e, b LIMIT 1 DELETE e CREATE (d)-[:POINTS_TO]->(b)",
    "a key seems published": "MATCH (d:Dataset) WITH d LIMIT 1 SET d.published_hash = 'sha256:0'",
    "a key is forged": "CREATE (:Dataset {key: 'kfm://dataset/demo/row/forged', hash: 'sha256:0'})",
}


@pytest.mark.parametrize("part", sampled(range(10)))
def test_reconcile_finds_spoilt_nodes_and_sends_them_again(site: Site, known: Neo4jServer, part: int) -> None:
    with site.open() as session:
        first = site.publish(session, EDITIONS[0])
        site.publish(session, EDITIONS[1])
        site.publish(session, {"z": "1"}, "other")
        site.operate(session, "rollback", {"to": first})
        holds(known, list(public_runs(session.state, session.objects)))
        assert drifts(session) == ([], [])
        for name, statement in list(SPOILT.items())[part::10]:
            known.ask(statement)
            found, problems = drifts(session)
            assert found and not problems and {each.place for each in found} == {"graph"}, name
            assert ("forged" in name) <= ("foreign" in {each.what for each in found}), name
            was, left, problems = repair(session)
            assert (was, left, problems) == (found, [], []), name
            holds(known, list(public_runs(session.state, session.objects)))  # the repair is a run, too


def test_reconcile_finds_forged_runs_and_altered_assets(site: Site, known: Neo4jServer) -> None:
    with site.open() as session:
        site.publish(session, EDITIONS[0])
        known.ask("CREATE (:Other {id: 'of another program'})")
        assert drifts(session) == ([], [])
        for name in ("a source is forged", "an asset says more"):
            known.ask(SPOILT[name])
        found, problems = drifts(session)
        assert not problems and sorted((each.what, "forged" in each.about) for each in found) == [
            ("altered", False), ("foreign", False), ("foreign", True),
        ]  # fmt: skip
        assert repair(session)[1:] == ([], [])
        assert known.ask("MATCH (o:Other) RETURN count(o) AS n") == [{"n": 1}]
        known.ask("MATCH (o:Other) DELETE o")
        holds(known, list(public_runs(session.state, session.objects)))


def test_an_unreachable_graph_is_reported_as_unchecked(site: Site, known: Neo4jServer) -> None:
    with site.open() as session:
        site.publish(session, EDITIONS[0])
    settings = site.folder / "kfm.yml"
    settings.write_text(settings.read_text().replace(known.url, f"bolt://127.0.0.1:{free_port()}"))
    with site.open() as session:
        found, problems = drifts(session)
        assert found == [] and [(name, problem.code) for name, problem in problems] == [("graph", "unavailable")]
        assert [name for name, _ in repair(session)[2]][-1] == "graph"
