"""A row is found without reading the large rows next to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.store.sqlite import SqliteTables

LARGE = b"x" * 200_000


def bytes_read() -> int:
    """That the system gave this process so far."""
    with open("/proc/self/io") as file:
        return int(dict(line.split(": ") for line in file)["rchar"])


@pytest.mark.parametrize("table", ["segments", "archived", "plans", "objects", "receipts"])
def test_a_small_row_among_large_ones_costs_a_few_pages(table: str, tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    tables = SqliteTables(path)
    tables.begin()
    tables.put_many(table, [(f"large-{n:04d}", LARGE) for n in range(60)])
    tables.commit()
    tables.close()
    tables = SqliteTables(path)
    try:
        before = bytes_read()
        tables.begin()
        assert tables.add(table, "large-0030-and-a-half", b"small")
        tables.commit()
        assert tables.get(table, "large-0029-and-a-half") is None
        assert bytes_read() - before < 50_000
        assert tables.get(table, "large-0030") == LARGE
        assert bytes_read() - before > len(LARGE), "a large row was not read from the file: nothing was measured"
    finally:
        tables.close()
