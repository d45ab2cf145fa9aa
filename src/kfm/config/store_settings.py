"""The settings `state`, `objects`, `publish` and `queue`: where bytes are kept, and how the servers are reached."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta

from kfm.model.records import Record
from kfm.model.secret_refs import check_reference
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document

SCHEMES = {
    "state": ("sqlite", "jsonl", "memory", "postgresql"),
    "objects": ("file", "s3"),
    "publish": ("file", "s3", "github", "noop"),
    "queue": ("redis", "rediss"),
}
SERVERS = ("postgresql", "redis", "rediss", "s3")
_FORMS = {
    "postgresql": "postgresql://USER@HOST:PORT/DATABASE",
    "redis": "redis://HOST:PORT/NUMBER",
    "rediss": "rediss://HOST:PORT/NUMBER",
    "s3": "s3://BUCKET/PREFIX",
    "memory": "memory",
    "noop": "noop",
}
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_USER = r"(?:[A-Za-z0-9._~-]+@)?"
_PATTERNS = {
    # Without a host: the socket of this machine, as libpq finds it.
    "postgresql": rf"postgresql://{_USER}(?:{_HOST})?/[A-Za-z0-9._-]+",
    "redis": rf"redis://{_USER}{_HOST}(?:/[0-9]{{1,4}})?",
    "rediss": rf"rediss://{_USER}{_HOST}(?:/[0-9]{{1,4}})?",
    "s3": r"s3://[a-z0-9][a-z0-9._-]{1,98}[a-z0-9](?:/[A-Za-z0-9._=-]+)*/?",
}


class PostgresConfig(Record, frozen=True):
    """How Postgres is reached, if it holds the state."""

    password: Annotated[
        str, Meta(max_length=1000, description="env:NAME or file:PATH; empty: none, or what the server trusts")
    ] = ""
    schema: Annotated[str, Meta(description="the schema that holds the tables of this installation")] = "kfm"
    sslmode: Annotated[
        Literal["disable", "prefer", "require", "verify-ca", "verify-full"],
        Meta(description="as libpq means it; away from this machine at least require"),
    ] = "prefer"
    wait_s: Annotated[
        float, Meta(ge=0, le=3600, description="how long a command waits for a server that restarts or is busy")
    ] = 30.0


class RedisConfig(Record, frozen=True):
    """How the broker is reached that wakes workers, if `queue` names one."""

    password: Annotated[str, Meta(max_length=1000, description="env:NAME or file:PATH; empty: none")] = ""
    name: Annotated[str, Meta(description="the name of the queue, of this installation alone")] = "kfm"


class WorkersConfig(Record, frozen=True):
    """How workers treat jobs."""

    attempts: Annotated[
        int, Meta(ge=1, le=100, description="how often a job is tried before it becomes a dead letter")
    ] = 5
    sweep_s: Annotated[
        float, Meta(gt=0, le=3600, description="seconds between two searches for jobs of which no message came")
    ] = 5.0
    backoff_s: Annotated[
        float, Meta(ge=0, le=3600, description="the wait before the second attempt; it doubles, up to an hour")
    ] = 1.0


def check_servers(document: Document, locations: dict[str, str], postgres: PostgresConfig, redis: RedisConfig) -> None:
    """Raise BadInput for an address that this version cannot use, and for secrets that are not references."""
    for key, url in locations.items():
        if url:
            check_location(document, key, url, SCHEMES[key])
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", postgres.schema):
        document.refuse(("postgres", "schema"), "is not a plain name", "use small letters, digits and _")
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,62}", redis.name):
        document.refuse(("redis", "name"), "is not a plain name", "use small letters, digits, . and -")
    for section, reference in (("postgres", postgres.password), ("redis", redis.password)):
        if reference:
            check_reference(document, (section, "password"), reference)


def check_location(document: Document, key: str, url: str, schemes: tuple[str, ...]) -> None:
    """Raise BadInput unless the address has one of these schemes and a form that this version can use."""
    scheme, colon, rest = url.partition(":")
    local, servers = [name for name in schemes if name not in SERVERS], [name for name in schemes if name in SERVERS]
    known = "; on a server ".join(
        " or ".join(_FORMS.get(name, f"{name}:PATH") for name in names) for names in (local, servers) if names
    )
    if scheme not in schemes or not (colon or scheme in ("memory", "noop")):
        document.refuse((key,), "is not a storage location that this version knows", f"use {known}")
    elif scheme in SERVERS:
        _check_server(document, key, scheme, url)
    elif scheme in ("memory", "noop"):
        if rest:
            document.refuse((key,), f"has text after {scheme}:", "nothing belongs there")
    elif not rest.strip("/.") or not is_printable(rest) or (rest.startswith("//") and not rest.startswith("///")):
        document.refuse((key,), "has no usable path", f"write {scheme}:some/path, or {scheme}:///absolute/path")


def _check_server(document: Document, key: str, scheme: str, url: str) -> None:
    """Raise BadInput for a wrong address. The message quotes nothing of it, because it may hold a password."""
    before_host = url.partition("://")[2].partition("/")[0]
    if ":" in before_host.rpartition("@")[0]:
        cures = {"postgresql": "postgres: {password: env:NAME}", "s3": "s3: {BUCKET: {secret_key: env:NAME}}"}
        cure = cures.get(scheme, "redis: {password: env:NAME}")
        document.refuse((key,), "holds a password", f"remove it, change it, and name a reference: {cure}")
    elif not re.fullmatch(_PATTERNS[scheme], url):
        document.refuse((key,), "is not an address of this form", f"write {_FORMS[scheme]}")
