"""The lines of a kfm.yml that put an installation on the test servers, and what the servers then hold of it."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from kfm.app.session.servers import bucket_at
from kfm.config import Resolved, load
from tests.servers import postgres, seaweed
from tests.servers.redis import RedisServer
from tests.servers.seaweed import ACCESS, KEPT, SECRET

_numbers = itertools.count()


class Placement:
    """Where one installation is: a schema of its own, a part of the bucket of its own. The keys are references to
    secrets: of Postgres, the access key and the secret key of the store."""

    def __init__(self, folder: Path, *, store: str = "", queue: str = "", keys: Sequence[str]) -> None:
        self.dsn, self.schema = postgres.place(folder / "state")
        self.prefix = f"{os.getpid()}-{next(_numbers)}"
        password, access, secret = keys
        address = f"postgresql://{self.dsn['user']}@{self.dsn['host']}:{self.dsn['port']}/{self.dsn['dbname']}"
        self.lines = [
            f"state: {address}",
            f"postgres: {{password: '{password}', schema: {self.schema}, wait_s: 5}}",
        ]
        if store:
            self.lines += [
                f"objects: s3://{KEPT}/{self.prefix}/objects",
                f"publish: s3://{KEPT}/{self.prefix}/public",
                f"s3: {{{KEPT}: {{endpoint: '{store}', access_key: '{access}', secret_key: '{secret}'}}}}",
            ]
        if queue:
            self.lines += [f"queue: {queue}", f"redis: {{name: q{self.prefix}}}"]


def all_servers(folder: Path) -> str:
    """Return the lines of an installation in this folder whose state, objects, public files and queue are on servers.
    Its secrets are files in the folder, so that every process that is started there can read them."""
    secrets = folder / "secrets"
    secrets.mkdir(parents=True, exist_ok=True)
    names = [str(secrets / name) for name in ("postgres", "access", "secret")]
    for name, text in zip(names, (postgres.PASSWORD, ACCESS, SECRET), strict=True):
        with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    keys = [f"file:{name}" for name in names]
    made = Placement(folder, store=seaweed.shared().endpoint, queue=broker().url, keys=keys)
    return "\n".join(made.lines) + "\n"


@cache
def broker() -> RedisServer:
    """Return the broker of this process."""
    folder = Path(tempfile.mkdtemp(prefix="kfm-redis-"))
    server, owner = RedisServer(folder), os.getpid()

    def end() -> None:
        if os.getpid() == owner:
            server.kill()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return server


def on_servers(folder: str) -> Resolved | None:
    """Return the settings of an installation that has its objects in a bucket; else None."""
    said = Path(folder, "kfm.yml")
    if not said.exists() or "objects: s3://" not in said.read_text():  # most have none, and reading YAML takes long
        return None
    return load(str(said), {})


def in_buckets(folder: str) -> dict[str, str]:
    """Return every object that this installation has in the bucket, with the digest of its bytes, under the path of the
    file that it would be in a folder; nothing if it has no bucket. The threads of obstore do not survive a fork: ask in
    a process that forks no other."""
    resolved = on_servers(folder)
    return {} if resolved is None else dict(_objects(resolved))


def without_part(folder: str, found: dict[str, str]) -> dict[str, str]:
    """Return the same without the part of the bucket that this installation has for itself."""
    resolved = on_servers(folder)
    if resolved is None:
        return found
    part = resolved.location(resolved.config.objects)[1].removesuffix("/objects")
    return {place: body.replace(part, "…") for place, body in found.items()}


def _objects(resolved: Resolved) -> Iterator[tuple[str, str]]:
    for url in (resolved.config.objects, resolved.config.publish):
        bucket = bucket_at(resolved, url)
        for each in bucket.below(""):
            read = bucket.read(each.path)
            if read is not None:
                yield _as_file(url, each.path), hashlib.sha256(read[0]).hexdigest()


def _as_file(url: str, path: str) -> str:
    if url.endswith("/public"):
        return f"public/{path}"
    return f".kfm/objects/{path}" if path.startswith("sha256/") else f".kfm/{path}"


def everything_on_servers(folder: Path) -> dict[str, object]:
    """Return all that can be told of an installation on the servers: rows with the transactions that wrote them,
    objects with the time they were written, and what is in the queue."""
    resolved = load(str(folder / "kfm.yml"), {})
    bucket = bucket_at(resolved, resolved.config.objects.removesuffix("/objects"))
    found = [(each.path, each.etag, each.changed_ms) for each in bucket.below("")]
    return {**on_server(folder), "objects": sorted(map(str, found)), "messages": sorted(broker().client().keys())}


def on_server(folder: Path) -> dict[str, list[str]]:
    """Return every row of every table of this installation in Postgres, each with the transaction that wrote it."""
    dsn, schema = postgres.place(folder / "state")
    cluster = postgres.Cluster(folder, port=int(dsn["port"]))
    tables = cluster.execute(f"select tablename from pg_tables where schemaname = '{schema}'")
    return {
        str(name): sorted(map(str, cluster.execute(f'select xmin, t::text from {schema}."{name}" t')))
        for (name,) in tables
    }


def drop(folder: str) -> None:
    """Forget the schema of an installation that is no longer needed: thousands would make the server slow."""
    if os.path.exists(os.path.join(folder, "state.postgres")):
        dsn, schema = postgres.place(Path(folder) / "state")
        with contextlib.suppress(Exception):  # a process that was killed just now may hold its lock for a moment
            postgres.Cluster(Path(folder), port=int(dsn["port"])).execute(f"drop schema if exists {schema} cascade")
