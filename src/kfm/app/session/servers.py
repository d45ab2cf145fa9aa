"""Opens the backends that are servers: Postgres for the state, buckets for objects and public files.

Their clients are optional extras, so this module is imported only where kfm.yml names a server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kfm.config import Resolved
from kfm.config.s3_settings import BucketConfig
from kfm.errors import BadInput
from kfm.model.ports import Lock, Publisher, Tables
from kfm.model.secret import Secret

if TYPE_CHECKING:
    from kfm.bucket import Bucket
    from kfm.store.filesystem_check import CheckResult
    from kfm.store.postgres.reader import PostgresReader
    from kfm.store.state import StoredState
    from kfm.store.stored_objects import StoredObjects


def require(module: str, extra: str, setting: str) -> None:
    """Raise BadInput if the client of a server is not installed."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise BadInput(
            f"{setting} needs a client that is not installed",
            hint=f"pip install 'kansas-frontier-matrix[{extra}]'",
            key=setting,
        )


def postgres_address(resolved: Resolved, url: str) -> dict[str, Any]:
    """Return the parameters of a connection for an address such as postgresql://kfm@db:5432/kfm."""
    _, address = resolved.location(url)
    authority, _, database = address.rpartition("/")
    user, _, host = authority.rpartition("@")
    host, port = _host_and_port(host)
    said = resolved.config.postgres
    found: dict[str, Any] = {"dbname": database, "sslmode": said.sslmode}
    found.update({key: value for key, value in (("user", user), ("host", host), ("port", port)) if value})
    if said.password:
        found["password"] = _secret(resolved, said.password).reveal().decode("latin-1")
    return found


def _host_and_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = text.partition(":")
    return host, port


def _secret(resolved: Resolved, reference: str) -> Secret:
    return resolved.secret(reference, os.environ, shortest=1)


def open_postgres(resolved: Resolved, url: str, writes: bool) -> Tables:
    """Return the tables of a state in Postgres; unless `writes`, a view that cannot write."""
    require("psycopg", "postgres", "state")
    from kfm.store.postgres.reader import open_postgres_reader
    from kfm.store.postgres.tables import PostgresTables

    said = resolved.config.postgres
    address = postgres_address(resolved, url)
    if writes:
        return PostgresTables(address, schema=said.schema, wait_s=said.wait_s)
    from kfm.store.overlay import OverlayTables

    return OverlayTables(open_postgres_reader(address, schema=said.schema, wait_s=said.wait_s))


def open_stored_postgres(resolved: Resolved) -> PostgresReader:
    """Return the tables of a state in Postgres as they are stored, also of an older format; they are only read."""
    require("psycopg", "postgres", "state")
    from kfm.store.postgres.reader import PostgresReader

    said = resolved.config.postgres
    return PostgresReader(postgres_address(resolved, resolved.config.state), said.schema, said.wait_s)


def bucket_at(resolved: Resolved, url: str) -> Bucket:
    """Return the bucket of an address such as s3://bucket/prefix, for reading and writing below the prefix."""
    require("obstore", "bucket", "an address in S3")
    from kfm.bucket import open_bucket

    name, _, prefix = resolved.location(url)[1].partition("/")
    settings = resolved.config.s3.get(name, BucketConfig())
    return open_bucket(settings, name, prefix, lambda reference: _secret(resolved, reference).reveal())


def open_bucket_objects(resolved: Resolved, url: str, state: StoredState) -> StoredObjects:
    """Return the object store in a bucket. Objects on their way into it are nameless files of this machine."""
    from kfm.store.buckets.bucket_objects import BucketObjects

    return BucketObjects(bucket_at(resolved, url), state, resolved.at(".kfm/scratch"))


def open_bucket_publisher(
    resolved: Resolved, lock: Callable[[], Lock], is_latest: Callable[[Mapping[str, Any]], bool], private: Publisher
) -> Publisher:
    """Return the publisher into a bucket. `private` takes receipts and events."""
    from kfm.sinks.bucket_publisher import BucketPublisher
    from kfm.sinks.split_publisher import SplitPublisher

    return SplitPublisher(BucketPublisher(bucket_at(resolved, resolved.config.publish), lock, is_latest), private)


def open_private_bucket(resolved: Resolved, lock: Callable[[], Lock]) -> Publisher:
    """Return the publisher of receipts and events where the objects are in a bucket: below the same prefix."""
    from kfm.sinks.bucket_publisher import BucketPublisher

    return BucketPublisher(bucket_at(resolved, resolved.config.objects), lock)


def bucket_verdicts(resolved: Resolved) -> list[CheckResult]:
    """Return what was found by trying out the buckets of objects and of public files."""
    from kfm.clock import SystemClock
    from kfm.store.buckets.bucket_check import check_bucket

    found: list[CheckResult] = []
    for what, url in (("objects", resolved.config.objects), ("publish", resolved.config.publish)):
        if resolved.location(url)[0] == "s3":
            found += check_bucket(bucket_at(resolved, url), what, SystemClock().now_ms)
    return found
