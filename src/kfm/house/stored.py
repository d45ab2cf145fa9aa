"""Which tables the state is kept in."""

from __future__ import annotations

import os
from typing import Literal

from kfm.config import Resolved
from kfm.contract.ports import Tables

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
