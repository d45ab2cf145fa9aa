"""Compares the Neo4j graph with the runs that were reported to it, and repairs it.

A `Run`, `Asset` or `Dataset` that no run of the ledger mentions is foreign: the database is KFM's own, and a reader
would take it for lineage. Nodes with other labels are ignored.
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
from kfm.model.outbox_messages import Letter, is_followed
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
    foreign: dict[str, str]  # nodes that no run mentions: the server's id of each, and its name

    def __bool__(self) -> bool:
        return bool(self.runs or self.datasets or self.assets or self.foreign)


class _Expected:
    """The expected properties and edges of nodes that several runs mention, combined."""

    def __init__(self) -> None:
        self.runs: set[str] = set()
        self.datasets: dict[str, dict[str, Any]] = {}
        self.points: dict[str, set[Asset]] = {}
        self.assets: dict[Asset, str] = {}
        self.members: dict[Asset, set[Asset]] = {}
        self.special: dict[Asset, set[Asset]] = {}

    def add(self, rows: dict[str, list[dict[str, Any]]]) -> None:
        self.runs.update(row["id"] for row in rows["runs"])
        for row in (*rows["used"], *rows["made"]):
            self._see((row["uri"], row["hash"]), row["at"])
        for edges, name in ((self.members, "members"), (self.special, "special")):
            for row in rows[name]:
                of, asset = (row["of"], row["of_hash"]), (row["uri"], row["hash"])
                self._see(of, row["at"])
                self._see(asset, row["at"])
                edges.setdefault(of, set()).add(asset)
        for row in (*rows["generated"], *rows["standing"], *rows["refs"]):
            self._set(row, _PROPERTIES)
        for row in rows["published"]:
            self._set({**row, **{f"published_{name}": row[name] for name in ("seq", "hash", "version")}}, _PUBLISHED)
        for row in rows["refs"]:
            asset = (row["uri"], row["hash"])
            self.points[row["key"]] = {asset} if row["hash"] else set()
            if row["hash"]:
                self._see(asset, row["at"])

    def _see(self, asset: Asset, at: str) -> None:
        self.assets[asset] = min(at, self.assets.get(asset, at))

    def _set(self, row: dict[str, Any], names: tuple[str, ...]) -> None:
        before = self.datasets.get(row["key"], {"seq": -1, "created_at": row["at"]})
        kept = {name: value for name, value in before.items() if name not in names or name == "seq"}
        said = {name: row[name] for name in names if row.get(name) is not None}
        created = min(row["at"], before["created_at"])
        self.datasets[row["key"]] = {**kept, **said, "key": row["key"], "created_at": created}


_PROPERTIES = ("seq", "hash", "version", "stac_id", "care_label", "withdrawn", "removed_by")
_PUBLISHED = ("published_seq", "published_hash", "published_version")


def reported_runs(session: Session) -> Iterator[PublicRun]:
    """Yield the runs that were reported to the graph, in ledger order."""
    outbox, name = session.state.outbox, GraphSink.name
    cursor = outbox.cursor(name)
    not_yet = {*outbox.waiting(name), *(message.index for message in outbox.dead(name))}
    for entry in session.state.ledger.entries():
        if entry.index > cursor:
            return
        if entry.index not in not_yet and is_followed(entry):
            yield public_run(session.state, session.objects, entry)


def compare(session: Session) -> GraphDifferences:
    """Return how the Neo4j graph differs from the runs that were reported to it. Unavailable if the server does not
    answer."""
    sink, expected, wrong = graph_sink(session.resolved), _Expected(), GraphDifferences({}, {}, {}, {})
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
        said = {row["id"]: (row["said"], _pairs(row["points"])) for row in found}
        for key in keys:
            if said.get(key) != (expected.datasets[key], sorted(expected.points.get(key, ()))):
                wrong.datasets[key] = "altered" if key in said else "missing"
    for assets in _some(list(expected.assets)):
        (found,) = sink.ask([(cypher.SAID_OF_ASSETS, {"assets": _rows(assets)})])
        seen = {(row["uri"], row["hash"]): row for row in found}
        for asset in assets:
            if asset not in seen:
                wrong.assets[asset] = "missing"
            elif not _is_as_expected(asset, seen[asset], expected):
                wrong.assets[asset] = "altered"
    ((counts,),) = sink.ask([(cypher.COUNTS, {})])
    known_counts = {"runs": len(expected.runs), "assets": len(expected.assets), "datasets": len(expected.datasets)}
    if wrong or counts != known_counts:  # the server counts at no cost; listing everything is not cheap
        wrong.foreign.update(_foreign(session, sink, expected))
    return wrong


def _foreign(session: Session, sink: GraphSink, expected: _Expected) -> dict[str, str]:
    """Return the nodes that no run of the ledger mentions, by the server's id of each: its name."""
    for entry in session.state.ledger.entries():  # a run may be there although its delivery was not acknowledged
        if entry.run_id not in expected.runs:
            expected.add(cypher.rows_of(public_run(session.state, session.objects, entry)))
    every = (cypher.ALL_RUNS, cypher.ALL_ASSETS, cypher.ALL_DATASETS)
    runs, assets, datasets = sink.ask([(text, {}) for text in every])
    found = {row["node"]: f"run {row['id']}" for row in runs if row["id"] not in expected.runs}
    found |= {
        row["node"]: f"{row['uri']} {str(row['hash'])[:19]}"
        for row in assets
        if (row["uri"], row["hash"]) not in expected.assets
    }
    return found | {row["node"]: str(row["id"]) for row in datasets if row["id"] not in expected.datasets}


def _is_as_expected(asset: Asset, there: dict[str, Any], expected: _Expected) -> bool:
    uri, hash = asset
    return (
        there["said"] == {"uri": uri, "hash": hash, "first_seen_at": expected.assets[asset]}
        and _pairs(there["members"]) == sorted(expected.members.get(asset, ()))
        and _pairs(there["special"]) == sorted(expected.special.get(asset, ()))
    )


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
        session.resolved, session.state, session.objects, sink_lock(session.resolved, session.state, GraphSink.name)
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
        (cypher.FORGET_NODES, {"nodes": list(wrong.foreign)}),
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
    keyed = (*rows["generated"], *rows["standing"], *rows["published"], *rows["refs"])
    things = (*rows["used"], *rows["made"], *rows["members"], *rows["special"])
    return (
        any(row["key"] in wrong.datasets for row in keyed)
        or any((row["uri"], row["hash"]) in wrong.assets for row in (*things, *rows["refs"]))
        or any((row["of"], row["of_hash"]) in wrong.assets for row in (*rows["members"], *rows["special"]))
    )
