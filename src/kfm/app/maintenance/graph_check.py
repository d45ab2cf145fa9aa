"""Compares the Neo4j graph with the runs that were reported to it, and repairs it.

Only nodes and edges of reported runs are compared. Other data in the same database is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from kfm.app.metadata.graph_sink import graph_follower, graph_sink, statements
from kfm.app.session.backends import sink_lock
from kfm.app.session.session import Session
from kfm.delivery.followers import Follower, taking_turns
from kfm.delivery.public_runs import public_run
from kfm.model.outbox_messages import Letter
from kfm.model.public_run import PublicRun
from kfm.projections import cypher
from kfm.sinks.neo4j import GraphSink

AT_ONCE = 500  # runs or nodes in one query
Asset = tuple[str, str]


class GraphDifferences(NamedTuple):
    """The differences between the Neo4j graph and the reported runs. A run is listed if its own node or one of its
    edges differs."""

    runs: dict[str, tuple[str, str]]  # by id: the dataset, and `missing` or `altered`
    datasets: dict[str, str]  # artifacts and refs by key
    assets: dict[Asset, str]

    def __bool__(self) -> bool:
        return bool(self.runs or self.datasets or self.assets)


class _Expected:
    """The expected properties of nodes that several runs mention, combined."""

    def __init__(self) -> None:
        self.datasets: dict[str, dict[str, Any]] = {}
        self.assets: dict[Asset, str] = {}

    def add(self, rows: dict[str, list[dict[str, Any]]]) -> None:
        for row in (*rows["used"], *rows["made"]):
            asset = (row["uri"], row["hash"])
            self.assets[asset] = min(row["at"], self.assets.get(asset, row["at"]))
        for row in (*rows["generated"], *rows["standing"]):
            before = self.datasets.get(row["key"])
            said = {name: row[name] for name in _PROPERTIES if row.get(name) is not None}
            created = row["at"] if before is None else min(row["at"], before["created_at"])
            self.datasets[row["key"]] = {**said, "key": row["key"], "created_at": created}


_PROPERTIES = ("seq", "hash", "version", "stac_id", "care_label", "withdrawn", "removed_by")


def reported_runs(session: Session) -> Iterator[PublicRun]:
    """Yield the runs that were reported to the graph, in ledger order."""
    outbox, name = session.state.outbox, GraphSink.name
    cursor = outbox.cursor(name)
    not_yet = {*outbox.waiting(name), *(message.index for message in outbox.dead(name))}
    for entry in session.state.ledger.entries():
        if entry.index > cursor:
            return
        if entry.index not in not_yet:
            yield public_run(session.state, session.objects, entry)


def compare(session: Session) -> GraphDifferences:
    """Return how the Neo4j graph differs from the runs that were reported to it. Unavailable if the server does not
    answer."""
    sink, expected, wrong = graph_sink(session.resolved), _Expected(), GraphDifferences({}, {}, {})
    runs = reported_runs(session)
    while some := list(islice(runs, AT_ONCE)):
        known = {run.run_id: cypher.rows_of(run) for run in some}
        (found,) = sink.ask([(cypher.SAID_OF_RUNS, {"ids": list(known)})])
        there = {row["id"]: row for row in found}
        for run in some:
            rows = known[run.run_id]
            expected.add(rows)
            if run.run_id not in there:
                wrong.runs[run.run_id] = run.dataset, "missing"
            elif not _is_as_reported(there[run.run_id], rows):
                wrong.runs[run.run_id] = run.dataset, "altered"
    for keys in _some(list(expected.datasets)):
        (found,) = sink.ask([(cypher.SAID_OF_DATASETS, {"keys": keys})])
        said = {row["id"]: row["said"] for row in found}
        for key in keys:
            if said.get(key) != expected.datasets[key]:
                wrong.datasets[key] = "altered" if key in said else "missing"
    for assets in _some(list(expected.assets)):
        (found,) = sink.ask([(cypher.SAID_OF_ASSETS, {"assets": _rows(assets)})])
        seen = {(row["uri"], row["hash"]): row["said"].get("first_seen_at") for row in found}
        for asset in assets:
            if seen.get(asset) != expected.assets[asset]:
                wrong.assets[asset] = "altered" if asset in seen else "missing"
    return wrong


def _is_as_reported(there: dict[str, Any], rows: dict[str, list[dict[str, Any]]]) -> bool:
    (run,) = rows["runs"]
    return (
        there["said"] == {name: value for name, value in run.items() if value is not None}
        and _pairs(there["used"]) == sorted({(row["uri"], row["hash"]) for row in rows["used"]})
        and _pairs(there["made"]) == sorted({(row["uri"], row["hash"]) for row in rows["made"]})
        and _pairs(there["generated"]) == sorted({(row["key"], row["hash"]) for row in rows["generated"]})
    )


def _pairs(found: Any) -> list[tuple[str, str]]:
    return sorted((str(one), str(other)) for one, other in found)


def _some(things: list[Any]) -> Iterator[list[Any]]:
    return (things[at : at + AT_ONCE] for at in range(0, len(things), AT_ONCE))


def _rows(assets: Sequence[Asset]) -> list[dict[str, str]]:
    return [{"uri": uri, "hash": hash} for uri, hash in assets]


def repair(session: Session) -> None:
    """Delete the nodes and edges of the Neo4j graph that differ from the reported runs, and report those runs again.
    After a crash in between, the next comparison finds the rest."""
    follower = graph_follower(
        session.resolved, session.state, session.objects, sink_lock(session.resolved, GraphSink.name)
    )
    with taking_turns(follower, session.clock):
        wrong = compare(session)
        if wrong:
            _report_again(session, follower, wrong)


def _report_again(session: Session, follower: Follower, wrong: GraphDifferences) -> None:
    forget = [
        (cypher.FORGET_RUNS, {"ids": list(wrong.runs)}),
        (cypher.FORGET_DATASETS, {"keys": list(wrong.datasets)}),
        (cypher.FORGET_ASSETS, {"assets": _rows(list(wrong.assets))}),
    ]
    batch = [Letter(index=0, run_id="", dataset="", key="", body=forget)]
    for run in reported_runs(session):
        if run.run_id in wrong.runs or _mentions(cypher.rows_of(run), wrong):
            body = statements(run)
            batch.append(Letter(index=run.index, run_id=run.run_id, dataset=run.dataset, key=run.run_id, body=body))
        if len(batch) >= AT_ONCE:
            follower.sink.send(batch)
            batch = []
    follower.sink.send(batch)


def _mentions(rows: dict[str, list[dict[str, Any]]], wrong: GraphDifferences) -> bool:
    return any(row["key"] in wrong.datasets for row in (*rows["generated"], *rows["standing"])) or any(
        (row["uri"], row["hash"]) in wrong.assets for row in (*rows["used"], *rows["made"])
    )
