"""What `graph` and `neo4j` may say: an address without secrets in it, and references."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.config import load
from kfm.errors import BadInput

DATASETS = "datasets: {}\n"


def loaded(folder: Path, text: str) -> None:
    (folder / "kfm.yml").write_text(DATASETS + text)
    load(str(folder / "kfm.yml"), {})


@pytest.mark.parametrize(
    "graph",
    [
        "neo4j+s://graph.example.org",
        "bolt+s://graph.example.org:7687",
        "neo4j://127.0.0.1:7687",
        "bolt://localhost",
        "neo4j://[::1]:7687",
    ],
)
def test_an_address_of_a_graph_is_taken(tmp_path: Path, graph: str) -> None:
    loaded(tmp_path, f'graph: "{graph}"\n')


def test_a_host_that_is_named_may_be_reached_in_the_open(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="graph is not encrypted"):
        loaded(tmp_path, "graph: neo4j://graph.internal:7687\n")
    loaded(tmp_path, "graph: neo4j://graph.internal:7687\nnetwork: {allow: ['graph.internal:7687']}\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("graph: neo4j+s://neo4j:canary@graph.example.org\n", "graph is not a Neo4j address"),
        ("graph: neo4j+s://graph.example.org/neo4j\n", "graph is not a Neo4j address"),
        ("graph: neo4j+ssc://graph.example.org\n", "graph is not a Neo4j address"),
        ("graph: https://graph.example.org\n", "graph is not a Neo4j address"),
        ("neo4j: {password: canary}\n", "neo4j.password is not a reference"),
        ("neo4j: {user: canary}\n", "neo4j.user is not a reference"),
        ("neo4j: {database: 'a b'}\n", "neo4j.database is not a database name"),
        ("neo4j: {secret: canary}\n", "neo4j"),
    ],
)
def test_an_invalid_address_or_reference_is_refused_without_being_shown(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told) as refused:
        loaded(tmp_path, text)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("openlineage: {url: 'http://lineage.example.org'}\n", "openlineage.url is not encrypted"),
        ("openlineage: {url: 'https://user:canary@lineage.example.org'}\n", "openlineage.url is not an address"),
        ("openlineage: {url: 'https://lineage.example.org?key=canary'}\n", "openlineage.url is not an address"),
        (
            "openlineage: {url: 'https://lineage.example.org', api_key: canary}\n",
            "openlineage.api_key is not a reference",
        ),
        ("openlineage: {endpoint: '/../canary'}\n", "openlineage.endpoint is not a path"),
        ('openlineage: {file: "a\\tcanary"}\n', "openlineage.file holds a control character"),
        ("openlineage: {transport: canary}\n", "openlineage"),
    ],
)
def test_where_events_go_is_an_address_or_a_path(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told) as refused:
        loaded(tmp_path, text)
    assert "canary" not in str(refused.value)


def test_an_address_of_a_server_of_events_is_taken(tmp_path: Path) -> None:
    loaded(tmp_path, "openlineage: {url: 'https://lineage.example.org/marquez/', api_key: env:KEY}\n")
    loaded(tmp_path, "openlineage: {url: 'http://127.0.0.1:5000'}\n")
    loaded(tmp_path, "openlineage: {url: 'http://marquez:5000'}\nnetwork: {allow: [marquez]}\n")
    loaded(tmp_path, "openlineage: {url: env:OPENLINEAGE_URL, file: events.ndjson}\n")
