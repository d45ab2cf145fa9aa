"""A long table is read page by page, and each page is found where it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.store.sqlite import SqliteTables
from tests.store.backends import write

ROWS = 6000


@pytest.mark.parametrize("table", ["ledger", "receipts"])  # keyed rows, and rows next to their keys
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("prefix", ["", "n/"])
def test_a_row_that_was_read_is_not_passed_over_again(tmp_path: Path, table: str, reverse: bool, prefix: str) -> None:
    """Counted in SQLite's own steps: reading all must take few for each row, however many came before."""
    tables = SqliteTables(str(tmp_path / "state.db"))
    write(tables, {f"n/{n:06d}": b"%d" % n for n in range(ROWS)}, table)
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 100
        return False

    tables._db.set_progress_handler(count, 100)
    found = [key for key, _ in tables.scan(table, prefix, reverse=reverse)]
    tables._db.set_progress_handler(None)
    tables.close()
    assert sorted(found, reverse=reverse) == found and len(found) == ROWS
    assert ROWS < steps < 20 * ROWS
