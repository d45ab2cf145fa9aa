"""Both languages make a database with small pages; a database with other pages keeps them."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from kfm.store.sqlite import SqliteTables
from tests.node.store_words import There


def page_size(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[16:18], "big")


def opened_by(language: str, path: Path) -> None:
    if language == "python":
        SqliteTables(str(path)).close()
        return
    with There() as there:
        assert "error" not in there.ask("open", "s", "sqlite", str(path))
        there.ask("close", "s")


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_new_database_has_pages_of_a_kibibyte(language: str, tmp_path: Path) -> None:
    opened_by(language, tmp_path / "state.db")
    assert page_size(tmp_path / "state.db") == 1024


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_database_keeps_the_pages_that_it_has(language: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SqliteTables(str(path)).close()
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode=DELETE").fetchall()
    db.execute("PRAGMA page_size=4096")
    db.execute("VACUUM")
    db.close()
    opened_by(language, path)
    assert page_size(path) == 4096
