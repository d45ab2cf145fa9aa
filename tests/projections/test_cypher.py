"""The batch for a property graph: the shape of the seed, parameters only."""

from __future__ import annotations

import re

from kfm.projections import cypher
from tests.projections import samples

NAMES = [
    "trigger_type",
    "wal_id",
    "started_at",
    "first_seen_at",
    "created_at",
    "stac_id",
    "version",
    "hash",
    "care_label",
]


def test_every_value_travels_as_a_parameter() -> None:
    hostile = samples.run(run_id="'}) DETACH DELETE n //", updater_id="x'; MATCH (n)")
    texts = {statement.text for statement in cypher.batch([hostile])}
    assert texts == {statement.text for statement in cypher.batch([samples.run()])}
    assert not any("DETACH" in text or "'" in text for text in texts)


def test_the_shape_and_the_names_are_those_of_the_seed() -> None:
    whole = "\n".join(statement.text for statement in cypher.batch([samples.RUNS["masked"]]))
    assert "(a:Asset {uri: row.uri, hash: row.hash})" in whole
    assert "MERGE (a)-[:USED_IN]->(r)" in whole
    assert re.search(r"MERGE \(r\)-\[g:GENERATED\]->\(d\)", whole)
    assert [name for name in NAMES if not re.search(rf"[rad]\.{name} =|{name}: row", whole)] == []


def test_one_node_is_named_for_each_artifact() -> None:
    statements = cypher.batch([samples.RUNS["masked"], samples.RUNS["promote"]])
    rows = [row for each in statements for row in each.parameters.get("generated", [])]
    ids = [one.id for one in samples.RUNS["masked"].artifacts]
    assert [row["key"] for row in rows] == [*ids, "kfm://ref/published/stations"]
    assert [row["care_label"] for row in rows] == ["community"] * 3 + [None]
    assert rows[0]["stac_id"] == "stations-ks" and rows[0]["hash"] == samples.sha("bytes of ks")


def test_a_batch_is_cut_into_statements_of_few_rows() -> None:
    statements = cypher.batch([samples.RUNS["ingest"]] * 5, size=4)
    sizes = [len(rows) for each in statements for rows in each.parameters.values()]
    runs, used, made, members, generated, removed, refs = 5, 20, 20, 15, 15, 5, 5
    assert max(sizes) == 4 and sum(sizes) == runs + used + made + members + generated + removed + refs
