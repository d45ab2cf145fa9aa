"""The lineage of runs as Cypher statements with parameters, in the shape
`(:Asset)-[:USED_IN]->(:Run)-[:GENERATED]->(:Dataset)`. Pure.

An asset is a thing in one state: a source, a version, a member of a version, a ref at a version, or a public file. It
never changes, and `USED_IN` and `MADE` lead from asset to asset over any number of runs. A dataset node is the present
state of a key or a ref.

Every statement may be repeated, in any order: nodes and edges are merged by key, and properties that a later run may
change carry the run's ledger index, so an older run never overwrites them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kfm.model import refs
from kfm.model.public_run import PublicPart, PublicRun, Thing, artifact_id, ref_id
from kfm.model.records import Record, RefMove

BATCH = 1000  # rows per statement

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
  r.receipt = row.receipt, r.seq = row.seq, r.dataset = row.dataset, r.operator = row.operator"""

_ASSET, _WHOLE = (
    f"""\
MERGE ({name}:Asset {{uri: row.{uri}, hash: row.{hash}}})
ON CREATE SET {name}.first_seen_at = row.at
ON MATCH SET {name}.first_seen_at = CASE WHEN row.at < {name}.first_seen_at THEN row.at ELSE {name}.first_seen_at END"""
    for name, uri, hash in (("a", "uri", "hash"), ("of", "of", "of_hash"))
)

USED = f"""\
UNWIND $used AS row
MATCH (r:Run {{id: row.run}})
{_ASSET}
MERGE (a)-[:USED_IN]->(r)"""

# Other runs use what a run made, under the same name: so a query can go from run to run, upstream or downstream.
MADE = f"""\
UNWIND $made AS row
MATCH (r:Run {{id: row.run}})
{_ASSET}
MERGE (r)-[:MADE]->(a)"""

# The members of a version, and the files of a published ref.
MEMBERS = f"""\
UNWIND $members AS row
{_WHOLE}
{_ASSET}
MERGE (of)-[:HAD_MEMBER]->(a)"""

# A ref at a version presents the version, a public file presents a member.
SPECIAL = f"""\
UNWIND $special AS row
{_WHOLE}
{_ASSET}
MERGE (of)-[:SPECIALIZATION_OF]->(a)"""

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

# Keys that the run removed, and keys of the processed zone that an operation changed.
STANDING = f"""\
UNWIND $standing AS row
{_DATASET}"""

# The published zone has properties of its own, so that a rollback of the one says nothing of the other.
PUBLISHED = """\
UNWIND $published AS row
MERGE (d:Dataset {key: row.key})
ON CREATE SET d.created_at = row.at, d.seq = -1
FOREACH (_ IN CASE WHEN row.at < d.created_at THEN [1] ELSE [] END | SET d.created_at = row.at)
FOREACH (_ IN CASE WHEN row.seq >= coalesce(d.published_seq, -1) THEN [1] ELSE [] END |
  SET d.published_seq = row.seq, d.published_hash = row.hash, d.published_version = row.version)"""

# A ref points to the version of the newest run that moved it; a withdrawn ref points to none.
REFS = f"""\
UNWIND $refs AS row
{_DATASET}
WITH d, row WHERE d.seq = row.seq
OPTIONAL MATCH (d)-[old:POINTS_TO]->(:Asset)
DELETE old
WITH DISTINCT d, row WHERE row.version IS NOT NULL
{_ASSET}
MERGE (d)-[:POINTS_TO]->(a)"""


# Queries that read the graph for a comparison, and statements that remove wrong content before it is sent again.
SAID_OF_RUNS = """\
UNWIND $ids AS id
MATCH (r:Run {id: id})
RETURN r.id AS id, properties(r) AS said, [(a:Asset)-[:USED_IN]->(r) | [a.uri, a.hash]] AS used,
  [(r)-[:MADE]->(m:Asset) | [m.uri, m.hash]] AS made, [(r)-[g:GENERATED]->(d:Dataset) | [d.key, g.hash]] AS generated"""
SAID_OF_DATASETS = """\
UNWIND $keys AS key
MATCH (d:Dataset {key: key})
RETURN d.key AS id, properties(d) AS said, [(d)-[:POINTS_TO]->(a:Asset) | [a.uri, a.hash]] AS points"""
SAID_OF_ASSETS = """\
UNWIND $assets AS row
MATCH (a:Asset {uri: row.uri, hash: row.hash})
RETURN a.uri AS uri, a.hash AS hash, properties(a) AS said,
  [(a)-[:HAD_MEMBER]->(m:Asset) | [m.uri, m.hash]] AS members,
  [(a)-[:SPECIALIZATION_OF]->(g:Asset) | [g.uri, g.hash]] AS special"""
COUNTS = """\
CALL { MATCH (r:Run) RETURN count(r) AS runs }
CALL { MATCH (a:Asset) RETURN count(a) AS assets }
CALL { MATCH (d:Dataset) RETURN count(d) AS datasets }
RETURN runs, assets, datasets"""
ALL_RUNS = "MATCH (r:Run) RETURN elementId(r) AS node, r.id AS id, r.dataset AS dataset"
ALL_ASSETS = "MATCH (a:Asset) RETURN elementId(a) AS node, a.uri AS uri, a.hash AS hash"
ALL_DATASETS = "MATCH (d:Dataset) RETURN elementId(d) AS node, d.key AS id"
FORGET_NODES = """\
UNWIND $nodes AS node
MATCH (n:Run|Asset|Dataset) WHERE elementId(n) = node
DETACH DELETE n"""
FORGET_RUNS = """\
UNWIND $ids AS id
MATCH (r:Run {id: id})
DETACH DELETE r"""
FORGET_DATASETS = """\
UNWIND $keys AS key
MATCH (d:Dataset {key: key})
OPTIONAL MATCH (d)-[p:POINTS_TO]->()
DELETE p
SET d = {key: key, seq: -1, created_at: '9999'}"""
FORGET_ASSETS = """\
UNWIND $assets AS row
MATCH (a:Asset {uri: row.uri, hash: row.hash})
OPTIONAL MATCH (a)-[e:HAD_MEMBER|SPECIALIZATION_OF]->()
DELETE e
SET a = {uri: row.uri, hash: row.hash, first_seen_at: '9999'}"""


class CypherStatement(Record, frozen=True):
    text: str
    parameters: dict[str, list[dict[str, Any]]]  # one name with its rows


STATEMENTS = {
    "runs": RUNS,
    "used": USED,
    "made": MADE,
    "members": MEMBERS,
    "special": SPECIAL,
    "generated": GENERATED,
    "standing": STANDING,
    "published": PUBLISHED,
    "refs": REFS,
}


def batch(runs: Iterable[PublicRun], size: int = BATCH) -> list[CypherStatement]:
    """Return the statements that add these runs, ordered so that each statement finds the nodes it matches."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in STATEMENTS}
    for run in runs:
        for name, found in rows_of(run).items():
            rows[name] += found
    return [
        CypherStatement(text=STATEMENTS[name], parameters={name: part})
        for name, found in rows.items()
        for part in _parts(found, size)
    ]


def rows_of(run: PublicRun) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a run for each statement, by the name of the statement's parameter."""
    id, at = run.run_id, run.finished_at
    return {
        "runs": [_run(run)],
        "used": [{"run": id, "uri": each.id, "hash": each.checksum, "at": run.started_at} for each in run.used()],
        "made": [{"run": id, **_asset(thing, at)} for thing in run.outputs()],
        "members": [_between(whole, part, at) for whole, parts in run.collections().items() for part in parts],
        "special": [_between(one, other, at) for one, other in run.specialisations()],
        "generated": _generated(run),
        "standing": _standing(run),
        "published": [_published(run, part) for part in run.restored if part.zone == "published"],
        "refs": [
            {**_ref(run, move), "uri": artifact_id(refs.parse(move.ref).dataset, ())}
            for move in run.moves
            if move.ref.startswith(refs.VERSIONS)
        ],
    }


def _asset(thing: Thing, at: str) -> dict[str, str]:
    return {"uri": thing[0], "hash": thing[1], "at": at}


def _between(one: Thing, other: Thing, at: str) -> dict[str, str]:
    return {"of": one[0], "of_hash": one[1], **_asset(other, at)}


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
        "operator": run.operator or None,
    }


def _generated(run: PublicRun) -> list[dict[str, Any]]:
    if not run.artifacts:
        return [_ref(run, move) for move in run.moves if move.ref == run.ref]
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
    removed = [{**_said(run, key), "removed_by": run.run_id} for key in run.removed]
    return [*removed, *(_processed(run, part) for part in run.restored if part.zone == "processed")]


def _processed(run: PublicRun, part: PublicPart) -> dict[str, Any]:
    if not part.digest:
        return {**_said(run, part.id), "removed_by": run.run_id}
    own = {"hash": part.digest, "version": part.version, "stac_id": part.stac_id or None}
    return {**_said(run, part.id), **own}


def _published(run: PublicRun, part: PublicPart) -> dict[str, Any]:
    """Return the row of a key in the published zone; without hash and version if it is no longer published."""
    said = {"key": part.id, "seq": run.index, "at": run.finished_at}
    return {**said, "hash": part.digest or None, "version": part.version or None}


def _ref(run: PublicRun, move: RefMove) -> dict[str, Any]:
    own = {"hash": move.after, "version": move.after or None, "withdrawn": not move.after}
    return {**_said(run, ref_id(move.ref)), **own}


def _said(run: PublicRun, key: str) -> dict[str, Any]:
    care = run.labels.care if run.labels else None
    return {"run": run.run_id, "key": key, "care_label": care, "seq": run.index, "at": run.finished_at}


def _parts(rows: list[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
