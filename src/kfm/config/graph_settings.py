"""The setting `graph`, and the section `neo4j` with its credentials."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Seconds, Text
from kfm.model.records import Record
from kfm.parsing.documents import Document

_SCHEMES = "(?:neo4j|bolt)(?:[+]s)?"


class Neo4jConfig(Record, frozen=True):
    """How KFM reaches `graph: neo4j://HOST:PORT`."""

    user: Annotated[Text, Meta(description="env:NAME or file:PATH")] = "env:NEO4J_USERNAME"
    password: Annotated[Text, Meta(description="env:NAME or file:PATH")] = "env:NEO4J_PASSWORD"  # noqa: S105 its name
    database: Annotated[Text, Meta(description="a database that no other program writes to")] = "neo4j"
    timeout_s: Annotated[Seconds, Meta(description="how long the server may be silent")] = 30


def check_graph(document: Document, graph: str, neo4j: Neo4jConfig, allow: tuple[str, ...]) -> None:
    if not graph and neo4j == Neo4jConfig():
        return
    import re

    for key in ("user", "password"):
        if not re.match(r"[a-z][a-z0-9+.-]*:.", getattr(neo4j, key)):
            document.refuse(("neo4j", key), "is not a reference", "write env:NAME or file:PATH")
    if not re.match(r"[A-Za-z0-9][A-Za-z0-9.-]{2,62}\Z", neo4j.database):
        document.refuse(("neo4j", "database"), "is not a database name", "use letters, digits, dots and dashes")
    if not graph:
        return
    found = re.match(rf"({_SCHEMES})://((?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?)\Z", graph)
    if found is None:
        hint = "write neo4j+s://HOST:PORT; user, password and database are in the section neo4j"
        document.refuse(("graph",), "is not a Neo4j address", hint)
        return
    scheme, place = found[1], found[2].lower()
    host = place if place.endswith("]") else place.rpartition(":")[0] or place
    local = host in ("localhost", "127.0.0.1", "[::1]")
    if not scheme.endswith("+s") and not local and not {host, place} & {each.lower() for each in allow}:
        hint = f"a password is sent there: use {scheme}+s, or name the host in network.allow if the network is yours"
        document.refuse(("graph",), "is not encrypted", hint)
