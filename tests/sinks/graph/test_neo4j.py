"""A real Neo4j receives many runs twice, out of order and over kills. It has each once, and the newest."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from kfm.errors import Conflict, Denied, Refused, Unavailable
from kfm.model.outbox_messages import Letter
from kfm.model.public_run import PublicRun
from kfm.projections import cypher
from kfm.sinks import neo4j
from kfm.sinks.neo4j import GraphSink
from tests.sinks.graph.crowd import (
    a_run,
    crowd,
    digest,
    generated,
    letters,
    made,
    made_things,
    members,
    pointed,
    read,
    specialisations,
    used,
)
from tests.sinks.graph.server import Neo4jServer

pytestmark = pytest.mark.xdist_group("neo4j")


def sink_of(server: Neo4jServer, *, password: str = "", seconds: float = 30, **fields: Any) -> GraphSink:
    known = (server.user, password or server.password)
    fields = {"database": "neo4j", "constraints": cypher.CONSTRAINTS, **fields}
    return GraphSink(fields.pop("url", server.url), lambda: known, seconds=seconds, **fields)


def holds(server: Neo4jServer, runs: Sequence[PublicRun]) -> None:
    """The graph says exactly this of these runs: each thing once, its edges, and what is newest of it."""
    ids = [row["id"] for row in server.ask("MATCH (r:Run) RETURN r.id AS id")]
    assert sorted(ids) == sorted(run.run_id for run in runs)
    assets = [(row["uri"], row["hash"]) for row in server.ask("MATCH (a:Asset) RETURN a.uri AS uri, a.hash AS hash")]
    parts, special, pointers = members(runs), specialisations(runs), pointed(runs)
    things = {each[:2] for each in used(runs) | made_things(runs)} | {each[1:] for each in pointers}
    things |= {each[at : at + 2] for each in parts | special for at in (0, 2)}
    assert sorted(assets) == sorted(things)
    edges = server.ask("MATCH (a:Asset)-[:USED_IN]->(r:Run) RETURN a.uri AS uri, a.hash AS hash, r.id AS run")
    assert sorted((row["uri"], row["hash"], row["run"]) for row in edges) == sorted(used(runs))
    edges = server.ask("MATCH (r:Run)-[g:GENERATED]->(d:Dataset) RETURN r.id AS run, d.key AS key, g.hash AS hash")
    assert sorted((row["run"], row["key"], row["hash"]) for row in edges) == sorted(generated(runs))
    edges = server.ask("MATCH (r:Run)-[:MADE]->(a:Asset) RETURN a.uri AS uri, a.hash AS hash, r.id AS run")
    assert sorted((row["uri"], row["hash"], row["run"]) for row in edges) == sorted(made_things(runs))
    for kind, wanted in (("HAD_MEMBER", parts), ("SPECIALIZATION_OF", special)):
        edges = server.ask(f"MATCH (a:Asset)-[:{kind}]->(b:Asset) RETURN [a.uri, a.hash, b.uri, b.hash] AS edge")
        assert sorted(tuple(row["edge"]) for row in edges) == sorted(wanted)
    edges = server.ask("MATCH (d:Dataset)-[:POINTS_TO]->(a:Asset) RETURN [d.key, a.uri, a.hash] AS edge")
    assert sorted(tuple(row["edge"]) for row in edges) == sorted(pointers)
    exactly = sum(map(len, (used(runs), generated(runs), made_things(runs), parts, special, pointers)))
    assert server.ask("MATCH ()-[e]->() RETURN count(e) AS n") == [{"n": exactly}]
    there = {row["d"]["key"]: row["d"] for row in server.ask("MATCH (d:Dataset) RETURN properties(d) AS d")}
    assert there == newest(runs)
    (row,) = server.ask("MATCH (d:Dataset) RETURN count(d) AS n, count(DISTINCT d.key) AS keys")
    assert row["n"] == row["keys"] == len(there)


def newest(runs: Sequence[PublicRun]) -> dict[str, dict[str, Any]]:
    """Of each artifact and ref what the last run said that had to do with it, in the order of the ledger."""
    known: dict[str, dict[str, Any]] = {}
    for run in sorted(runs, key=lambda run: run.index):
        care = {"care_label": run.labels.care} if run.labels else {}
        said: dict[str, dict[str, Any]] = {key: {"removed_by": run.run_id} for key in run.removed}
        for move in run.moves:
            version = {"version": move.after} if move.after else {}
            said[f"kfm://ref/{move.ref}"] = {"hash": move.after, "withdrawn": not move.after, **version}
        for each in run.artifacts:
            named = {"stac_id": each.stac_id} if each.stac_id else {}
            said[each.id] = {"hash": each.digest, "version": run.version, **named}
        for part in run.restored:
            named = {"stac_id": part.stac_id} if part.stac_id else {}
            there = {"hash": part.digest, "version": part.version, **named}
            if part.zone == "processed":
                said[part.id] = there if part.digest else {"removed_by": run.run_id}
                continue
            before = known.get(part.id, {"key": part.id, "created_at": run.finished_at, "seq": -1})
            kept = {name: value for name, value in before.items() if not name.startswith("published_")}
            public = {"published_hash": part.digest, "published_version": part.version} if part.digest else {}
            known[part.id] = {**kept, "published_seq": run.index, **public}
        for key, what in said.items():
            before = known.get(key, {"created_at": run.finished_at})
            kept = {name: value for name, value in before.items() if name.startswith(("published_", "created_at"))}
            known[key] = {"key": key, "seq": run.index, **kept, **care, **what}
    return known


def told_over_kills(server: Neo4jServer, runs: Sequence[PublicRun], rng: random.Random, kills: int) -> int:
    """Every run twice, in any order, some thirty at a time; now and then the server is killed while it is told. How
    often it was cut off in the middle."""
    waiting = [*letters(runs), *letters(runs)]
    rng.shuffle(waiting)
    cut = 0
    deaths = sorted(rng.sample(range(len(waiting) // 2, len(waiting)), kills))
    while waiting:
        some = waiting[-30:]
        doomed = bool(deaths) and len(waiting) <= deaths[-1]
        killer = threading.Timer(rng.random() / 4, server.kill)
        if doomed:
            deaths.pop()
            killer.start()
        try:
            while True:  # the doomed one until it is dead, the others once
                sink_of(server).send(some)
                if not doomed:
                    break
        except Unavailable:
            assert doomed, "nobody was killed"
            cut += 1
        if doomed:
            killer.join()
            server.start()
            continue
        del waiting[-30:]
    return cut


@pytest.mark.parametrize(
    ("count", "kills", "seed"),
    [
        pytest.param(20, 1, 1, marks=pytest.mark.long),
        pytest.param(1000, 4, 2, marks=pytest.mark.long),
        pytest.param(1000, 4, 3, marks=pytest.mark.long),
    ],
)
def test_runs_sent_twice_out_of_order_and_over_kills_are_there_once(
    server: Neo4jServer, count: int, kills: int, seed: int
) -> None:
    runs = crowd(count, seed)
    assert {run.op for run in runs} == {"ingest", "promote", "rollback"} and any(run.removed for run in runs)
    cut = told_over_kills(server, runs, random.Random(seed), kills)
    assert cut == kills
    holds(server, runs)


def test_what_is_older_changes_nothing_in_one_batch_and_over_several(server: Neo4jServer) -> None:
    runs = [a_run(n, artifacts=(made("rain", "ks", n),), version=digest(n), ref="processed/rain") for n in (1, 2, 3)]
    sink = sink_of(server)
    sink.send(letters([runs[2], runs[0], runs[1]]))  # rows of one statement
    holds(server, runs)
    sink.send(letters([runs[0]]))
    holds(server, runs)


def test_a_withdrawal_and_a_rollback_are_where_the_ref_stands(server: Neo4jServer) -> None:
    def moved(index: int, version: str) -> PublicRun:
        from kfm.model.records import RefMove

        move = RefMove(ref="published/rain", before="", after=version)
        return a_run(index, op="rollback", ref=move.ref, version=version, moves=(move,))

    runs = [moved(1, digest("one")), moved(2, digest("two")), moved(3, digest("one")), moved(4, "")]
    ask = "MATCH (d:Dataset {key: 'kfm://ref/published/rain'}) RETURN d.version AS version, d.withdrawn AS withdrawn"
    for n, run in enumerate(runs, 1):
        sink_of(server).send(letters([run]))
        assert server.ask(ask) == [{"version": run.version or None, "withdrawn": not run.version}]
        holds(server, runs[:n])


def test_a_batch_is_there_as_a_whole_or_not_at_all(server: Neo4jServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neo4j, "ROWS", 20)
    runs = [a_run(n, inputs=(read("https://example.org/a.csv", n),)) for n in range(1, 31)]
    bad = letters([a_run(31)])[0]
    bad = Letter(
        index=31,
        run_id=bad.run_id,
        dataset="rain",
        key=bad.key,
        body=[*bad.body, ("UNWIND $rows AS row CREATE (:Run {id: row})", {"rows": ["run-000030"]})],
    )
    with pytest.raises(Refused, match="ConstraintValidationFailed") as refused:
        sink_of(server).send([*letters(runs), bad])
    assert "run-0000" not in str(refused.value)
    holds(server, runs[:30])  # three whole batches, and nothing of the last
    assert server.ask("SHOW CONSTRAINTS YIELD name RETURN count(*) AS n") == [{"n": len(cypher.CONSTRAINTS)}]


def test_a_run_with_more_rows_than_a_transaction_takes_is_sent_in_several(
    server: Neo4jServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neo4j, "ROWS", 1500)
    many = tuple(made("rain", f"{n:05d}", n) for n in range(4000))
    runs = [a_run(1), a_run(2, artifacts=many, version=digest(2), ref="processed/rain"), a_run(3)]
    told = letters(runs)
    sizes = [sum(len(rows) for each in batch.values() for rows in each.values()) for batch in neo4j.batches(told)]
    assert len(sizes) > 2 and max(sizes) <= 2501
    sink_of(server).send(told)
    holds(server, runs)


def test_a_refused_login_is_reported_without_the_password(server: Neo4jServer) -> None:
    wrong = "canary-of-a-wrong-password"
    with pytest.raises(Denied, match="denies access") as denied:
        sink_of(server, password=wrong).send(letters([a_run(1)]))
    assert wrong not in repr(denied.value.__dict__) + str(denied.value) and denied.value.exit_code == 4
    with pytest.raises(Unavailable, match="cannot open the database nowhere"):
        sink_of(server, database="nowhere").send(letters([a_run(1)]))
    holds(server, [])


def test_a_graph_with_foreign_nodes_is_not_written_to(server: Neo4jServer) -> None:
    server.ask("CREATE (:Run {id: 'canary-1'}), (:Run {id: 'canary-1'})")
    with pytest.raises(Conflict, match="cannot create the uniqueness constraints") as conflict:
        sink_of(server).send(letters([a_run(1)]))
    assert "canary-1" not in str(conflict.value)
    assert server.ask("MATCH (n) RETURN count(n) AS n") == [{"n": 2}]
