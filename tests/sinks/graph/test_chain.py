"""A graph that was filled from an export alone: plain Cypher walks from every public file to its source, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.kept import once
from tests.projections import chains
from tests.sinks.graph.server import Neo4jServer

pytestmark = pytest.mark.xdist_group("neo4j")
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "graph.md"
BACK = """\
MATCH (f:Asset)<-[:USED_IN|MADE*]-(n) WHERE f.uri ENDS WITH $path AND f.hash = $hash
RETURN DISTINCT coalesce(n.id, n.uri) AS name, n.hash AS hash, n.op AS op, n.operator AS operator"""
FORTH = """\
MATCH (:Asset {uri: $uri, hash: $hash})-[:USED_IN|MADE*]->(f:Asset) WHERE f.uri STARTS WITH 'kfm://public/'
RETURN DISTINCT f.uri AS uri"""


@pytest.fixture
def graph(kfm: Kfm, server: Neo4jServer) -> Neo4jServer:  # noqa: F811
    """Three datasets, each made of the one before, all published: what `kfm lineage export` writes, sent as it is."""
    once("chained", [Path()], lambda: chains.build(kfm))
    for line in kfm("lineage", "export", "--format", "cypher").out.splitlines():
        statement = json.loads(line)
        server.ask(statement["text"], **statement["parameters"])
    return server


def editions() -> tuple[str, str]:
    """The digests of the source: as it was first, and as it is."""
    return chains.digest(chains.KANSAS / chains.SOURCE), chains.digest(Path(chains.SOURCE))


def test_plain_cypher_walks_from_every_public_file_to_its_source_and_back(graph: Neo4jServer) -> None:
    files = list(chains.public_files())
    assert {file.dataset for file in files} == set(chains.NAMES)
    reached: dict[str, set[str]] = {}
    for digest in editions():
        rows = graph.ask(FORTH, uri=chains.SOURCE, hash=digest)
        reached[digest] = {row["uri"].removeprefix("kfm://public/") for row in rows}
    assert set().union(*reached.values()) == {file.path for file in files}
    for file in files:
        rows = graph.ask(BACK, path=file.path, hash=file.digest)
        sources = {row["hash"] for row in rows if row["name"] == chains.SOURCE}
        assert sources == {digest for digest in reached if file.path in reached[digest]} and len(sources) == 1
        runs = [row for row in rows if row["op"]]
        depth = chains.NAMES.index(file.dataset)
        # An ingest for each dataset on the way, the promotion of this one, and of the one that was read published.
        assert sorted(row["op"] for row in runs) == ["ingest"] * (depth + 1) + ["promote"] * (1 + (depth == 2))
        assert {row["operator"] for row in runs} == {"tester"}


def queries() -> Iterator[str]:
    """The queries of the guide, about the last dataset of the chain instead of its own."""
    for block in re.findall(r"^```cypher\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        for query in filter(None, map(str.strip, block.split(";\n"))):
            if "RETURN" in query:
                yield query.replace("/rain", "/drought-starts")


def test_every_query_of_the_guide_finds_what_the_guide_says(graph: Neo4jServer, kfm: Kfm) -> None:  # noqa: F811
    first, _ = editions()
    (file,) = (each for each in chains.public_files() if each.dataset == "drought-starts")
    refs = {row["ref"]: row["version"] for row in kfm("refs", "list", "--json").data}
    version = refs["published/drought-starts"]
    known = {"uri": chains.SOURCE, "hash": first, "version": version, "path": file.path}
    answers: list[list[dict[str, Any]]] = [graph.ask(query, **known) for query in queries()]
    assert len(answers) == 6
    downstream, upstream, public, back, published, ref = answers
    assert len(downstream) == 6  # three runs and three promotions; the second edition came of other bytes
    assert (chains.SOURCE, first) in {(row["a.uri"], row["a.hash"]) for row in upstream}
    for rows in (public, back):
        assert {(row["a.uri"], row["a.hash"]) for row in rows} >= {(chains.SOURCE, first)}
    names = {row["a.uri"] for row in back}
    assert {"kfm://ref/published/drought-severe", *(f"kfm://dataset/{name}" for name in chains.NAMES)} <= names
    assert [(row["r.operator"], row["r.op"]) for row in published] == [("tester", "promote")]
    assert ref == [{"d.version": version, "d.withdrawn": False}]
