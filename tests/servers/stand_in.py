"""Put Postgres in the place of a state file under tests that do not know of it: `TESTED_STATE=postgres pytest …`.

Every address of a state file then means a schema of its own on the test server. Tests that look into the file itself
are not for this.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kfm.app.session import backends
from kfm.config import Resolved
from kfm.model.ports import Tables

WANTED = os.environ.get("TESTED_STATE", "") == "postgres"
opened: set[str] = set()  # paths that were opened on the server, so that a test can say that it was


def install() -> None:
    """Let every state file be a schema on the test server, in this process and those that it forks."""
    real = backends.open_tables_at

    def open_tables_at(resolved: Resolved, url: str, mode: Any, *, in_place: bool | None = None) -> Tables:
        scheme, path = resolved.location(url)
        if scheme not in ("sqlite", "jsonl"):
            return real(resolved, url, mode, in_place=in_place)
        from kfm.store.overlay import OverlayTables
        from kfm.store.postgres import PostgresTables, open_postgres_reader
        from tests.servers import postgres

        dsn, schema = postgres.place(Path(path))
        opened.add(path)
        if mode == "write":
            return PostgresTables(dsn, schema, 10)
        return OverlayTables(open_postgres_reader(dsn, schema, 10))

    backends.open_tables_at = open_tables_at
