"""The state in Postgres: needs the extra `postgres`."""

from __future__ import annotations

from kfm.store.postgres.reader import open_postgres_reader
from kfm.store.postgres.tables import PostgresTables

__all__ = ["PostgresTables", "open_postgres_reader"]
