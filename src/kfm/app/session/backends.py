"""Opens the backends that the configuration chose: the tables of the state, the object store, the publisher, the log.

No other module constructs a store or a publisher.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TextIO

from kfm.clock import Clock, from_environment
from kfm.config import Resolved
from kfm.errors import Refused
from kfm.model import refs
from kfm.model.ports import Lock, Log, Objects, Publisher, State, Tables
from kfm.sinks.noop import NoopPublisher
from kfm.store.objects import DryObjects, FileObjects
from kfm.telemetry.log import EventLog, Sink, human, jsonl, tracebacks

if TYPE_CHECKING:
    from kfm.model.ports import Bell
    from kfm.sinks.file_tree import FileTree
    from kfm.store.filesystem_check import CheckResult
    from kfm.store.state import StoredState
    from kfm.store.stored_objects import StoredObjects

Mode = Literal["write", "read", "dry"]


def open_tables(resolved: Resolved, mode: Mode, *, in_place: bool | None = None) -> Tables:
    """Return the state's tables; for `read` and `dry` a view that cannot write. A large database is read in place for
    `read`, and copied for `dry`, because a dry run leaves no side file and no lock. `in_place` says otherwise."""
    return open_tables_at(resolved, resolved.config.state, mode, in_place=in_place)


def open_tables_at(resolved: Resolved, url: str, mode: Mode, *, in_place: bool | None = None) -> Tables:
    """Return the tables at an address, as `state:` may name it, with all other settings of this configuration."""
    scheme, path = resolved.location(url)
    if scheme == "memory":
        from kfm.store.memory import MemoryTables

        return MemoryTables()
    if scheme == "postgresql":
        from kfm.app.session.servers import open_postgres

        return open_postgres(resolved, url, mode == "write")
    if scheme != "jsonl" and mode == "write":
        from kfm.store.sqlite import SqliteTables

        return SqliteTables(path)
    from kfm.store.overlay import OverlayTables

    if scheme == "jsonl":
        from kfm.store.jsonl import JsonlTables
        from kfm.store.memory import MemoryTables

        if mode == "write":
            return JsonlTables(path)
        return OverlayTables(JsonlTables(path, create=False) if os.path.exists(path) else MemoryTables())
    if in_place or (in_place is None and mode == "read"):
        from kfm.store.readers.live_reader import open_reader

        return OverlayTables(open_reader(path))
    from kfm.store.snapshot import SnapshotTables

    return OverlayTables(SnapshotTables(path))


def open_stored(resolved: Resolved) -> tuple[Tables, int]:
    """Return the tables of the state for reading, as they are stored, and their format; 0 if there is no state."""
    from kfm.store.overlay import OverlayTables

    scheme, path = resolved.location(resolved.config.state)
    if scheme == "memory":
        raise Refused("a state in memory ends with its process", hint="name a place for `state:` in kfm.yml")
    if scheme == "postgresql":
        from kfm.app.session.servers import open_stored_postgres

        rows = open_stored_postgres(resolved)
        return OverlayTables(rows), rows.format
    if not os.path.exists(path):
        from kfm.store.memory import MemoryTables

        return MemoryTables(), 0
    if scheme == "jsonl":
        from kfm.store.jsonl import JsonlTables

        journal = JsonlTables(path, create=False, upgrades=False)
        return OverlayTables(journal), journal.format
    from kfm.store.snapshot import StoredTables

    tables = StoredTables(path)
    return OverlayTables(tables), tables.format


def open_objects(resolved: Resolved, state: StoredState, mode: Mode) -> Objects:
    """Return the object store; for `read` and `dry` a view that keeps new objects in memory."""
    real = open_objects_at(resolved, resolved.config.objects, state)
    return real if mode == "write" else DryObjects(real)


def open_objects_at(resolved: Resolved, url: str, state: StoredState) -> StoredObjects:
    """Return the object store at an address, as `objects:` may name it, for reading and writing."""
    scheme, path = resolved.location(url)
    if scheme == "s3":
        from kfm.app.session.servers import open_bucket_objects

        return open_bucket_objects(resolved, url, state)
    return FileObjects(path, state)


def open_publisher(resolved: Resolved, state: State, mode: Mode) -> Publisher:
    """Return the publisher that the configuration names; for `read` and `dry` one that only records its effects."""
    if mode == "write":
        return open_public(resolved, state)
    scheme, _ = resolved.location(resolved.config.publish)
    return NoopPublisher(dry_run=True, shares_files=scheme != "github")


def open_public(resolved: Resolved, state: State) -> Publisher:
    """Return the publisher that the configuration names."""
    scheme, path = resolved.location(resolved.config.publish)
    if scheme == "noop":
        return NoopPublisher(dry_run=False)
    lock, is_latest = lock_of(resolved, state, "publish"), partial(_is_latest, state)
    from kfm.sinks.folder_publisher import FilesPublisher

    # Whoever shares a folder shares its file locks: a lease in the state would only make all writers wait for it.
    here = file_lock(resolved, state, "publish")
    private = resolved.at(".kfm")
    roots = {"": path if scheme == "file" else private, "receipts": private, "events": private}
    files: Publisher = FilesPublisher(roots, lock=here, is_latest=is_latest)
    if resolved.location(resolved.config.objects)[0] == "s3":  # receipts and events go where the objects go
        from kfm.app.session.servers import open_private_bucket
        from kfm.sinks.split_publisher import SplitPublisher

        files = SplitPublisher(files, open_private_bucket(resolved, lock))
    if scheme == "s3":
        from kfm.app.session.servers import open_bucket_publisher

        return open_bucket_publisher(resolved, lock, is_latest, files)
    return files if scheme != "github" else _open_github(resolved, state, files, lock)


def lock_of(resolved: Resolved, state: State, name: str) -> Callable[[], Lock]:
    """Return a lock of this installation: a file next to its settings, or a lease where several machines share the
    state."""
    if resolved.location(resolved.config.state)[0] == "postgresql":
        from kfm.store.state_lock import StateLock

        return partial(StateLock, state, name)
    return file_lock(resolved, state, name)


def file_lock(resolved: Resolved, state: State, name: str) -> Callable[[], Lock]:
    """Return a lock between the processes that see the folder of this installation. Refused when it is taken, if
    published files were moved elsewhere meanwhile: nobody would take back what a slow process wrote at the old place.
    (The lease of a state on a server is refused as every transaction is.)"""
    from kfm.store.locks import FileLock

    class PlacedLock(FileLock):
        def take(self) -> bool:
            is_taken = super().take()
            if is_taken:
                try:
                    state.check_home()
                except BaseException:
                    self.release()
                    raise
            return is_taken

    return partial(PlacedLock, os.path.join(resolved.at(".kfm"), f"{name}.lock"))


def _is_latest(state: State, pointer: Mapping[str, Any]) -> bool:
    """Return whether this pointer names the version to which the published ref moved last."""
    last = state.refs.history(refs.published(pointer["dataset"]), reverse=True, limit=1)
    return [(entry.run_id, entry.after) for entry in last] == [(pointer["run_id"], pointer["version"])]


def _open_github(resolved: Resolved, state: State, files: Publisher, lock: Callable[[], Lock]) -> Publisher:
    from kfm.sinks.github_releases import GitHubPublisher
    from kfm.sinks.http_transport import HttpTransport

    settings = resolved.config.github
    return GitHubPublisher(
        resolved.config.publish.partition(":")[2],
        lambda: resolved.secret(settings.token, os.environ, shortest=1).reveal().decode("latin-1"),
        HttpTransport(),
        files,
        lock,
        api=settings.api,
        uploads=settings.uploads,
        is_latest=partial(_is_latest, state),
    )


def open_tree(resolved: Resolved, url: str) -> FileTree:
    """Return the place of pages or of a catalog: a folder, or a part of a bucket. Nothing is connected yet."""
    scheme, place = resolved.location(url)
    if scheme == "s3":
        from kfm.app.session.servers import bucket_at
        from kfm.sinks.bucket_tree import BucketTree

        return BucketTree(partial(bucket_at, resolved, url))
    from kfm.sinks.folder_tree import FolderTree

    return FolderTree(place)


def open_bell(resolved: Resolved, clock: Clock) -> Bell:
    """Return what wakes workers: the broker that the configuration names, or nothing. Refused if its libraries are not
    installed, or its secret cannot be read. Nothing is connected yet."""
    if not resolved.config.queue:
        from kfm.queues.inbox_bell import InboxBell

        return InboxBell(clock)
    from kfm.queues.broker_address import broker_address
    from kfm.queues.celery_bell import CeleryBell

    redis = resolved.config.redis
    password = resolved.secret(redis.password, os.environ, shortest=1) if redis.password else None
    return CeleryBell(broker_address(*resolved.location(resolved.config.queue), password), redis.name)


def open_log(
    stream: TextIO | None,
    *,
    service: str = "kfm",
    lines: Literal["human", "jsonl"] = "human",
    events: list[dict[str, Any]] | None = None,
    causes: TextIO | None = None,
    clock: Clock | None = None,
    heard: Sink | None = None,
) -> Log:
    """Return a log that writes each event as a line, for people or for programs, and appends it to `events` if given.
    `heard` receives each line as a mapping.
    `causes` receives the traceback of errors in an author's code, with the values in it."""
    sinks: list[Sink] = [] if events is None else [events.append]
    if heard is not None:
        sinks.append(heard)
    if stream is not None:
        sinks.append(human(stream) if lines == "human" else jsonl(stream))
    reported = tracebacks(causes) if causes is not None else None
    return EventLog(clock or from_environment(), *sinks, service=service, causes=reported)


def sink_lock(resolved: Resolved, state: State, sink: str) -> Callable[[], Lock]:
    """Return the lock of a sink that follows the ledger: one process at a time reports to it."""
    return lock_of(resolved, state, f"sink-{sink}")


def folders(resolved: Resolved) -> Iterator[tuple[str, str]]:
    """Yield the folders of the state and of the objects, each with its name. What a server keeps has none."""
    scheme, path = resolved.location(resolved.config.state)
    if scheme not in ("memory", "postgresql"):
        yield "state", os.path.dirname(path)
    scheme, path = resolved.location(resolved.config.objects)
    if scheme == "file":
        yield "objects", path


def place_verdicts(resolved: Resolved) -> list[CheckResult]:
    """Return what the mount table says about the folders of the state and of the objects."""
    from kfm.store.filesystem_check import examine

    return [verdict for what, folder in folders(resolved) for verdict in examine(folder, what)]
