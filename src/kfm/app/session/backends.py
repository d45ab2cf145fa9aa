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
from kfm.model import refs
from kfm.model.ports import Lock, Log, Objects, Publisher, State, Tables
from kfm.sinks.noop import NoopPublisher
from kfm.store.memory import MemoryTables
from kfm.store.objects import DryObjects, FileObjects
from kfm.telemetry.log import EventLog, Sink, human, jsonl, tracebacks

if TYPE_CHECKING:
    from kfm.store.filesystem_check import CheckResult
    from kfm.store.state import StoredState

Mode = Literal["write", "read", "dry"]


def open_tables(resolved: Resolved, mode: Mode, *, in_place: bool | None = None) -> Tables:
    """Return the state's tables; for `read` and `dry` a view that cannot write. A large database is read in place for
    `read`, and copied for `dry`, because a dry run leaves no side file and no lock. `in_place` says otherwise."""
    scheme, path = resolved.location(resolved.config.state)
    if scheme == "memory":
        return MemoryTables()
    if scheme != "jsonl" and mode == "write":
        from kfm.store.sqlite import SqliteTables

        return SqliteTables(path)
    from kfm.store.overlay import OverlayTables

    if scheme == "jsonl":
        from kfm.store.jsonl import JsonlTables

        if mode == "write":
            return JsonlTables(path)
        return OverlayTables(JsonlTables(path, create=False) if os.path.exists(path) else MemoryTables())
    if in_place or (in_place is None and mode == "read"):
        from kfm.store.live_reader import open_reader

        return OverlayTables(open_reader(path))
    from kfm.store.snapshot import SnapshotTables

    return OverlayTables(SnapshotTables(path))


def open_objects(resolved: Resolved, state: StoredState, mode: Mode) -> Objects:
    """Return the object store; for `read` and `dry` a view that keeps new objects in memory."""
    real = FileObjects(resolved.location(resolved.config.objects)[1], state)
    return real if mode == "write" else DryObjects(real)


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
    from kfm.sinks.folder_publisher import FilesPublisher
    from kfm.store.locks import FileLock

    private = resolved.at(".kfm")
    lock = partial(FileLock, os.path.join(private, "publish.lock"))
    roots = {"": private if scheme == "github" else path, "receipts": private, "events": private}
    files = FilesPublisher(roots, lock=lock, is_latest=partial(_is_latest, state))
    return files if scheme != "github" else _open_github(resolved, state, files, lock)


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


def open_log(
    stream: TextIO | None,
    *,
    lines: Literal["human", "jsonl"] = "human",
    events: list[dict[str, Any]] | None = None,
    causes: TextIO | None = None,
    clock: Clock | None = None,
) -> Log:
    """Return a log that writes each event as a line, for people or for programs, and appends it to `events` if given.
    `causes` receives the traceback of errors in an author's code, with the values in it."""
    sinks: list[Sink] = [] if events is None else [events.append]
    if stream is not None:
        sinks.append(human(stream) if lines == "human" else jsonl(stream))
    return EventLog(clock or from_environment(), *sinks, causes=tracebacks(causes) if causes is not None else None)


def sink_lock(resolved: Resolved, sink: str) -> Callable[[], Lock]:
    """Return the lock of a sink that follows the ledger: one process at a time reports to it."""
    from kfm.store.locks import FileLock

    return partial(FileLock, os.path.join(resolved.at(".kfm"), f"sink-{sink}.lock"))


def folders(resolved: Resolved) -> Iterator[tuple[str, str]]:
    """Yield the folders of the state and of the objects, each with its name."""
    scheme, path = resolved.location(resolved.config.state)
    if scheme != "memory":
        yield "state", os.path.dirname(path)
    yield "objects", resolved.location(resolved.config.objects)[1]


def place_verdicts(resolved: Resolved) -> list[CheckResult]:
    """Return what the mount table says about the folders of the state and of the objects."""
    from kfm.store.filesystem_check import examine

    return [verdict for what, folder in folders(resolved) for verdict in examine(folder, what)]
