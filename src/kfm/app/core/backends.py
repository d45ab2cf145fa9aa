"""Which tables the state is kept in, and where it lies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kfm.config import Resolved
from kfm.model.ports import Tables

if TYPE_CHECKING:
    from kfm.store.filesystem_check import Verdict

Mode = Literal["write", "read", "dry"]


def open_tables(resolved: Resolved, mode: Mode) -> Tables:
    """The state's tables; for `read` and `dry` a view that cannot write."""
    from kfm.store.overlay import OverlayTables

    scheme, path = resolved.location(resolved.config.state)
    if scheme == "memory":
        from kfm.store.memory import MemoryTables

        return MemoryTables()
    if scheme == "jsonl":
        from kfm.store.jsonl import JsonlTables
        from kfm.store.memory import MemoryTables

        if mode == "write":
            return JsonlTables(path)
        return OverlayTables(JsonlTables(path, create=False) if os.path.exists(path) else MemoryTables())
    if mode == "write":
        from kfm.store.sqlite import SqliteTables

        return SqliteTables(path)
    from kfm.store.snapshot import SnapshotTables

    return OverlayTables(SnapshotTables(path))


def folders(resolved: Resolved) -> Iterator[tuple[str, str]]:
    scheme, path = resolved.location(resolved.config.state)
    if scheme != "memory":
        yield "state", os.path.dirname(path)
    yield "objects", resolved.location(resolved.config.objects)[1]


def place_verdicts(resolved: Resolved) -> list[Verdict]:
    """What the mount table says about where state and objects lie."""
    from kfm.store.filesystem_check import examine

    return [verdict for what, folder in folders(resolved) for verdict in examine(folder, what)]
