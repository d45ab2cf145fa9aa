"""The errors for a damaged state database, and the checks of a row and of its disk."""

from __future__ import annotations

import os
from typing import Any
from zlib import crc32

from kfm.errors import Corrupt
from kfm.parsing.characters import printable


def damaged(what: str) -> Corrupt:
    return Corrupt(f"the state database is damaged: {what}", hint="restore it from a copy; nothing was changed")


def lost(commits: int, path: str) -> Corrupt:
    name = os.path.basename(path)
    return Corrupt(
        f"the last {commits} acknowledged commits are missing from the state database",
        hint=f"restore {name} together with {name}-wal; if an older copy was put back on purpose, remove {name}.ack",
        missing=commits,
    )


def lost_by_server(commits: int, place: str) -> Corrupt:
    return Corrupt(
        f"the last {commits} acknowledged commits are missing from the state on {place}",
        hint="an older copy or a standby that lagged took its place: restore the newest one, or start kfm anew on it",
        missing=commits,
    )


def check_row(table: Any, key: Any, value: Any, total: Any) -> None:
    if (
        not isinstance(value, bytes)
        or not isinstance(key, str)
        or (crc32(value, crc32(f"{table}/{key}".encode())) != total)
    ):
        raise Corrupt(
            f"record {table}/{printable(str(key))[1:-1]} is damaged",
            hint="restore the state from a copy; nothing was changed",
            record=str(key),
        )


def is_full(folder: str) -> bool:
    """Return whether the disk of a folder is full. SQLite reports "I/O error" if its shared memory finds no room."""
    try:
        place = os.statvfs(folder or ".")
    except OSError:
        return False
    return place.f_bavail * place.f_frsize < 1 << 16
