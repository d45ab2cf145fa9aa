"""The list of tables agrees with the SQL that makes them, with their rows, and with what Node writes."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import msgspec
import pytest

from kfm.app.runs.run_control import resume_runs
from kfm.model.ports import Tables
from kfm.store.memory import MemoryTables
from kfm.store.sqlite import migrations
from kfm.store.state_tables import CATALOGUE, VITAL, WHOLE
from tests.crash.oracle import everything
from tests.golden.make import make, opened
from tests.store.compared import TABLES

ROOT = Path(__file__).resolve().parents[2]
NAMES = [table.name for table in CATALOGUE]


def test_it_has_the_tables_that_the_sql_makes() -> None:
    database = apsw.Connection(":memory:")
    for _, text in migrations():
        database.execute(text)
    made = [row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type='table'")]
    assert len(made) == len(NAMES) and set(made) == set(NAMES)


def test_every_row_is_what_its_table_says(tmp_path: Path) -> None:
    make(tmp_path, "sqlite")
    with opened(tmp_path / "kfm.yml") as session:
        seen = read_all(session.tables)
        assert list(resume_runs(session))
        assert session.archive.compact()
        seen |= read_all(session.tables)
    assert {table.name for table in CATALOGUE if not isinstance(table.row, str)} - seen == {
        "deliveries",
        "standings",
        "ticks",
    }


def read_all(tables: Tables) -> set[str]:
    """Every row as the record of its table; returns those that have any."""
    seen = set()
    for table in CATALOGUE:
        for key, body in tables.scan(table.name) if table.name in TABLES else ():
            seen.add(table.name)
            if not isinstance(table.row, str):
                fields = msgspec.to_builtins(msgspec.json.decode(body, type=table.row))
                assert set(table.differs) - {WHOLE} <= fields.keys(), (table.name, key)
    return seen


@pytest.mark.parametrize("table", TABLES)
def test_the_oracle_sees_a_row_in_every_table_but_the_journal(table: str, tmp_path: Path) -> None:
    tables = MemoryTables()
    before = everything(str(tmp_path), tables)
    tables.begin(True)
    tables.put(table, "k", b"{}" if table != "runs" else b'{"run_id":"k"}')
    tables.commit()
    assert (everything(str(tmp_path), tables) != before) == (table != "segments")


def test_node_writes_the_tables_that_it_is_said_to() -> None:
    text = "".join(path.read_text() for path in sorted((ROOT / "node/store").glob("*.mjs")))
    written = set(re.findall(r'\b_?(?:put|putMany|delete)\(\s*"([a-z_]+)"', text))
    written |= set(re.findall(r"\bINSERT OR REPLACE INTO ([a-z_]+)", text))
    assert written == {table.name for table in CATALOGUE if table.node}


def test_what_is_looked_at_in_a_large_database_is_in_the_catalogue() -> None:
    assert VITAL == ("guard", "meta", "refs", "open_runs", "leases", "inbox")
