"""Places to die: every call that leaves a trace on the disk, numbered by wrapping the ports.

The product has no hook for this. Inside a child process that is about to end anyway, the methods of
the ports are replaced by ones that count: the file system of the store (`Fs`), the tables' begin, put,
commit, SQLite's own writes and syncs (a VFS), the publisher and its file calls. A clean run gives
each its number; a later run does something at one of them: dies, stops, fails.

A write has three places (before, in the middle with half of its bytes written, after); what is after
one call and before the next is the same place unless the call itself is the last of its kind, so
`after` is counted only for calls that make something visible or durable.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from typing import Any

import apsw

import kfm.fsio
import kfm.sinks.folder_publisher
import kfm.store.jsonl
import kfm.store.sqlite
from kfm.bucket import Bucket
from kfm.sinks.bucket_publisher import BucketPublisher
from kfm.store.postgres.tables import PostgresTables

Act = Callable[[str], None]


def die(_label: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop(_label: str) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def fail(number: int) -> Act:
    """The call fails as the disk would make it fail."""

    def act(label: str) -> None:
        if label.startswith("sqlite."):
            raise apsw.FullError("injected") if number == errno.ENOSPC else apsw.IOError("injected")
        raise OSError(number, os.strerror(number))

    return act


class Points:
    """Counts places; at number `at` it acts, and `forever` after. Number 0 never comes: that run is the clean one."""

    def __init__(
        self, at: int = 0, act: Act = die, *, only: Callable[[str], bool] | None = None, forever: bool = False
    ) -> None:
        self.labels: list[str] = []
        self.acted = 0
        self._at = at
        self._act = act
        self._only = only
        self._forever = forever

    def here(self, label: str) -> None:
        if self._only is not None and not self._only(label):
            return
        self.labels.append(label)
        n = len(self.labels)
        if n == self._at or (self._forever and 0 < self._at < n):
            self.acted += 1
            self._act(label)


# Calls that change what others see or what survives: also the place right after them is counted.
LASTING = {"commit", "sync", "sync_dir", "link", "replace", "fsync", "unlink", "truncate", "xSync", "xTruncate"}
LASTING |= {"create", "upload"}  # of a bucket: there an object appears whole
BOUNDARIES = (
    "tables.begin", "tables.commit", "fs.sync", "fs.link", "fs.truncate", "sqlite.xSync", "publisher.",
    "files.replace", "bucket.",
)  # fmt: skip


_FS = (
    "make_dirs", "rmdir", "create", "open_append", "open_write", "truncate", "sync", "sync_dir", "link", "unlink",
    "replace", "sync_all", "close",
)  # fmt: skip


def boundary(label: str) -> bool:
    """The coarser set, for pairs and for stopping: transactions, syncs, names given, things published."""
    return label.startswith(BOUNDARIES)


def install(points: Points) -> None:
    """Replace the ports of this process for good; only ever in a child."""
    for kind in (kfm.store.sqlite.SqliteTables, kfm.store.jsonl.JsonlTables, PostgresTables):
        for name in ("begin", "put", "add", "put_many", "delete", "commit"):
            _wrap(points, kind, "tables", name)
    fs = kfm.fsio.Fs
    files = type("Files", (fs,), {})  # as the publisher sees them
    for kind, prefix in ((files, "files"), (fs, "fs")):
        for name in _FS:
            _wrap(points, kind, prefix, name)
        _wrap_write(points, kind, prefix)
    for name in ("create", "replace", "write", "upload", "remove"):
        _wrap(points, Bucket, "bucket", name)
    publisher = kfm.sinks.folder_publisher.FilesPublisher
    for kind in (publisher, BucketPublisher):
        for name in ("write_file", "update_metadata", "emit_event"):
            _wrap(points, kind, "publisher", name)
    made = publisher.__init__

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        self._fs = files()

    publisher.__init__ = make  # type: ignore[method-assign]
    _CountingVfs(points)


def _wrap(points: Points, kind: type, prefix: str, name: str) -> None:
    real = getattr(kind, name)
    label = f"{prefix}.{name}"
    lasting = name in LASTING

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        points.here(label + " before")
        result = real(self, *args, **kwargs)
        if lasting:
            points.here(label + " after")
        return result

    setattr(kind, name, counted)


def _wrap_write(points: Points, fs: type, prefix: str) -> None:
    write, write_at = fs.write, fs.write_at  # type: ignore[attr-defined]

    def counted(self: Any, fd: int, body: bytes | memoryview) -> None:
        points.here(f"{prefix}.write before")
        half = len(body) // 2
        write(self, fd, body[:half])
        points.here(f"{prefix}.write mid")
        write(self, fd, body[half:])

    def counted_at(self: Any, fd: int, body: bytes, offset: int) -> None:
        points.here(f"{prefix}.write_at before")
        half = len(body) // 2
        write_at(self, fd, body[:half], offset)
        points.here(f"{prefix}.write_at mid")
        write_at(self, fd, body[half:], offset + half)

    fs.write, fs.write_at = counted, counted_at  # type: ignore[attr-defined]


class _CountingVfs(apsw.VFS):
    """SQLite's own file calls, counted. It becomes the default of this process."""

    kept: list[_CountingVfs] = []

    def __init__(self, points: Points) -> None:
        self._points = points
        self._base = apsw.vfs_names()[0]
        super().__init__(f"counting-{len(self.kept)}", self._base, makedefault=True)
        self.kept.append(self)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _CountingFile(self._points, self._base, name, flags)

    def xDelete(self, name: str, sync_dir: bool) -> None:
        self._points.here("sqlite.xDelete before")
        super().xDelete(name, sync_dir)


_PASSED_THROUGH = {
    "xDlOpen", "xDlSym", "xDlClose", "xDlError", "xRandomness", "xSleep", "xCurrentTime", "xCurrentTimeInt64",
    "xGetLastError", "xSetSystemCall", "xGetSystemCall", "xNextSystemCall",
}  # fmt: skip


class _CountingFile(apsw.VFSFile):
    def __init__(self, points: Points, base: str, name: Any, flags: list[int]) -> None:
        self._points = points
        super().__init__(base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._points.here("sqlite.xWrite before")
        half = len(data) // 2
        if half:
            super().xWrite(data[:half], offset)
            self._points.here("sqlite.xWrite mid")
        super().xWrite(data[half:], offset + half)

    def xSync(self, flags: int) -> None:
        self._points.here("sqlite.xSync before")
        super().xSync(flags)
        self._points.here("sqlite.xSync after")

    def xTruncate(self, size: int) -> None:
        self._points.here("sqlite.xTruncate before")
        super().xTruncate(size)
        self._points.here("sqlite.xTruncate after")
