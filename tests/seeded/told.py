"""Claims of docs/conformance.md about what sinks are told."""

from __future__ import annotations

from tests.seeded.planting import Bug

NEO4J = "tests/graph/test_neo4j.py"

TOLD: dict[str, Bug] = {
    "D11": Bug(
        "kfm/projections/cypher.py",
        "WHEN row.seq >= d.seq THEN",
        "WHEN true THEN",
        f"{NEO4J}::test_what_is_older_changes_nothing_in_one_batch_and_over_several",
    ),
    "D11 each thing once": Bug(
        "kfm/projections/cypher.py",
        "MERGE (a)-[:USED_IN]->(r)",
        "CREATE (a)-[:USED_IN]->(r)",
        f"{NEO4J}::test_runs_told_twice_out_of_order_and_over_kills_are_there_once",
    ),
}
