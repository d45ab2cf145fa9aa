"""The one Neo4j of all these tests. Those that use it are of one group, so that one worker starts it once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.abilities import lacking
from tests.policy.tools import Absent
from tests.sinks.graph.server import Neo4jServer


@pytest.fixture(scope="session")
def one_neo4j(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    try:
        server = Neo4jServer(tmp_path_factory.mktemp("neo4j"))
    except Absent as problem:
        lacking(str(problem))
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def server(one_neo4j: Neo4jServer) -> Neo4jServer:
    """Running, and empty."""
    one_neo4j.start()
    one_neo4j.empty()
    return one_neo4j
