"""The part of a state that tests compare: every table but the store's own, every field but those that may differ."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kfm.model.ports import Tables
from kfm.store.state_tables import CATALOGUE, WHOLE

TABLES = tuple(table.name for table in CATALOGUE if table.name != "guard")  # those that every backend keeps
LEFT_OUT = {table.name: frozenset(table.differs) for table in CATALOGUE}


def compared(tables: Tables) -> Iterator[tuple[str, str, bytes]]:
    """Table, key and row, without what a kill and a recovery may change."""
    for table in TABLES:
        if WHOLE in LEFT_OUT[table]:
            continue
        for key, body in tables.scan(table):
            if LEFT_OUT[table] and body.startswith(b"{"):
                fields = msgspec.json.decode(body)
                kept = {name: value for name, value in fields.items() if name not in LEFT_OUT[table]}
                body = msgspec.json.encode(kept, order="sorted")
            yield table, key, body
