"""The lineage of runs as Cypher statements with parameters, in the shape
`(:Asset)-[:USED_IN]->(:Run)-[:GENERATED]->(:Dataset)`. Pure.

Every statement may be repeated, in any order: nodes and edges are merged by key, and properties that a later run may
change carry the run's ledger index, so an older run never overwrites them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kfm.model.public_run import PublicPart, PublicRun, artifact_id
from kfm.model.records import Record

BATCH = 1000  # rows per statement
REF = "kfm://ref/"

CONSTRAINTS = (
    "CREATE CONSTRAINT kfm_run IF NOT EXISTS FOR (r:Run) REQUIRE r.id IS UNIQUE",
    "CREATE CONSTRAINT kfm_asset IF NOT EXISTS FOR (a:Asset) REQUIRE (a.uri, a.hash) IS UNIQUE",
    "CREATE CONSTRAINT kfm_dataset IF NOT EXISTS FOR (d:Dataset) REQUIRE d.key IS UNIQUE",
)

# A run never changes, so merging it again changes nothing.
RUNS = """\
UNWIND $runs AS row
MERGE (r:Run {id: row.id})
ON CREATE SET r.updater_id = row.updater_id, r.version = row.version, r.started_at = row.started_at,
  r.finished_at = row.finished_at, r.trigger_type = row.trigger_type, r.wal_id = row.wal_id, r.op = row.op,
  r.status = row.status, r.outcome = row.outcome, r.dry_run = row.dry_run, r.plan_hash = row.plan_hash,
  r.receipt = row.receipt, r.seq = row.seq, r.dataset = row.dataset"""

USED = """\
UNWIND $used AS row
MATCH (r:Run {id: row.run})
MERGE (a:Asset {uri: row.uri, hash: row.hash})
ON CREATE SET a.first_seen_at = row.at
ON MATCH SET a.first_seen_at = CASE WHEN row.at < a.first_seen_at THEN row.at ELSE a.first_seen_at END
MERGE (a)-[:USED_IN]->(r)"""

# Other runs use the version that a run made: so a query can go from run to run, upstream or downstream.
MADE = """\
UNWIND $made AS row
MATCH (r:Run {id: row.run})
MERGE (a:Asset {uri: row.uri, hash: row.hash})
ON CREATE SET a.first_seen_at = row.at
ON MATCH SET a.first_seen_at = CASE WHEN row.at < a.first_seen_at THEN row.at ELSE a.first_seen_at END
MERGE (r)-[:MADE]->(a)"""

# A dataset node holds what the newest run states, in all its properties, so the order of reports leaves no trace.
# `created_at` comes from the first run that named it. A ref is such a node, too: its version, or `withdrawn`.
_DATASET = """\
MERGE (d:Dataset {key: row.key})
ON CREATE SET d.created_at = row.at, d.seq = -1
FOREACH (_ IN CASE WHEN row.at < d.created_at THEN [1] ELSE [] END | SET d.created_at = row.at)
FOREACH (_ IN CASE WHEN row.seq >= d.seq THEN [1] ELSE [] END |
  SET d.seq = row.seq, d.hash = row.hash, d.version = row.version, d.stac_id = row.stac_id,
    d.care_label = row.care_label, d.withdrawn = row.withdrawn, d.removed_by = row.removed_by)"""

# The edge keeps the digest that this run produced.
GENERATED = f"""\
UNWIND $generated AS row
MATCH (r:Run {{id: row.run}})
{_DATASET}
MERGE (r)-[g:GENERATED]->(d)
SET g.hash = row.hash"""

# Keys that the run removed, keys restored by a rollback, and other refs that it moved.
STANDING = f"""\
UNWIND $standing AS row
{_DATASET}"""


# Queries that read the graph for a comparison, and statements that remove wrong content before it is sent again.
SAID_OF_RUNS = """\
UNWIND $ids AS id
MATCH (r:Run {id: id})
RETURN r.id AS id, properties(r) AS said, [(a:Asset)-[:USED_IN]->(r) | [a.uri, a.hash]] AS used,
  [(r)-[:MADE]->(m:Asset) | [m.uri, m.hash]] AS made, [(r)-[g:GENERATED]->(d:Dataset) | [d.key, g.hash]] AS generated"""
SAID_OF_DATASETS = """\
UNWIND $keys AS key
MATCH (d:Dataset {key: key})
RETURN d.key AS id, properties(d) AS said"""
SAID_OF_ASSETS = """\
UNWIND $assets AS row
MATCH (a:Asset {uri: row.uri, hash: row.hash})
RETURN a.uri AS uri, a.hash AS hash, properties(a) AS said"""
FORGET_RUNS = """\
UNWIND $ids AS id
MATCH (r:Run {id: id})
DETACH DELETE r"""
FORGET_DATASETS = """\
UNWIND $keys AS key
MATCH (d:Dataset {key: key})
SET d = {key: key, seq: -1, created_at: '9999'}"""
FORGET_ASSETS = """\
UNWIND $assets AS row
MATCH (a:Asset {uri: row.uri, hash: row.hash})
SET a = {uri: row.uri, hash: row.hash, first_seen_at: '9999'}"""


class CypherStatement(Record, frozen=True):
    text: str
    parameters: dict[str, list[dict[str, Any]]]  # one name with its rows


def batch(runs: Iterable[PublicRun], size: int = BATCH) -> list[CypherStatement]:
    """Return the statements that add these runs, ordered so that each statement finds the nodes it matches."""
    texts = {"runs": RUNS, "used": USED, "made": MADE, "generated": GENERATED, "standing": STANDING}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in texts}
    for run in runs:
        for name, found in rows_of(run).items():
            rows[name] += found
    return [
        CypherStatement(text=texts[name], parameters={name: part})
        for name, found in rows.items()
        for part in _parts(found, size)
    ]


def rows_of(run: PublicRun) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a run for each statement, by the name of the statement's parameter."""
    made = []
    if run.made_a_version() and run.status == "SUCCESS":
        uri = artifact_id(run.dataset, ())
        made.append({"run": run.run_id, "uri": uri, "hash": run.version, "at": run.finished_at})
    return {
        "runs": [_run(run)],
        "used": [
            {"run": run.run_id, "uri": each.id, "hash": each.checksum, "at": run.started_at} for each in run.inputs
        ],
        "made": made,
        "generated": _generated(run),
        "standing": _standing(run),
    }


def _run(run: PublicRun) -> dict[str, Any]:
    return {
        "id": run.run_id,
        "updater_id": run.updater_id,
        "version": run.updater_version,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "trigger_type": run.trigger,
        "wal_id": run.wal_id,
        "op": run.op,
        "status": run.status,
        "outcome": run.outcome,
        "dry_run": run.dry_run,
        "plan_hash": run.plan_hash,
        "receipt": run.receipt_digest,
        "seq": run.index,
        "dataset": run.dataset,
    }


def _generated(run: PublicRun) -> list[dict[str, Any]]:
    if not run.artifacts:
        return [_ref(run, REF + run.ref, run.version)] if run.ref else []
    return [
        {
            **_said(run, artifact.id),
            "hash": artifact.digest,
            "version": run.version,
            "stac_id": artifact.stac_id or None,
        }
        for artifact in run.artifacts
    ]


def _standing(run: PublicRun) -> list[dict[str, Any]]:
    own = {key for key, _ in run.outputs()}
    moved = [_ref(run, REF + move.ref, move.after) for move in run.moves if REF + move.ref not in own]
    removed = [{**_said(run, key), "removed_by": run.run_id} for key in run.removed]
    return [*removed, *(_restored(run, part) for part in run.restored), *moved]


def _restored(run: PublicRun, part: PublicPart) -> dict[str, Any]:
    if not part.digest:
        return {**_said(run, part.id), "removed_by": run.run_id}
    own = {"hash": part.digest, "version": part.version, "stac_id": part.stac_id or None}
    return {**_said(run, part.id), **own}


def _ref(run: PublicRun, key: str, version: str) -> dict[str, Any]:
    return {**_said(run, key), "hash": version, "version": version or None, "withdrawn": not version}


def _said(run: PublicRun, key: str) -> dict[str, Any]:
    care = run.labels.care if run.labels else None
    return {"run": run.run_id, "key": key, "care_label": care, "seq": run.index, "at": run.finished_at}


def _parts(rows: list[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
