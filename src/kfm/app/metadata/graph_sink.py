"""The Neo4j sink: reports runs as graph statements."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from kfm.config import Resolved
from kfm.delivery.followers import Follower, each_run
from kfm.delivery.public_runs import public_run
from kfm.model.ports import Lock, Objects, State
from kfm.model.public_run import PublicRun
from kfm.projections import cypher
from kfm.sinks.neo4j import GraphSink


def graph_follower(resolved: Resolved, state: State, objects: Objects, lock: Callable[[], Lock]) -> Follower:
    """Return the follower that keeps the graph current."""
    read = partial(public_run, state, objects)
    return Follower(graph_sink(resolved), each_run(read, statements), lock)


def graph_sink(resolved: Resolved) -> GraphSink:
    """Return the sink for the configured server. Credentials are read when it connects."""
    said = resolved.config.neo4j

    def credentials() -> tuple[str, str]:
        read = partial(resolved.secret, env=os.environ, shortest=1)
        user, password = (
            read(reference).reveal().decode("utf-8", "replace") for reference in (said.user, said.password)
        )
        return user, password

    return GraphSink(
        resolved.config.graph,
        credentials,
        database=said.database,
        constraints=cypher.CONSTRAINTS,
        seconds=said.timeout_s,
    )


def statements(run: PublicRun) -> list[tuple[str, dict[str, list[dict[str, Any]]]]]:
    """Return the Cypher statements that report a run, with their parameters."""
    return [(statement.text, statement.parameters) for statement in cypher.batch([run])]
