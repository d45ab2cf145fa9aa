"""A kill during the upgrade of an older state leaves the old state or the new one, never half of each."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from kfm.clock import FixedClock
from kfm.model.ports import Tables
from kfm.store.index_check import differences
from kfm.store.jsonl import JsonlTables
from kfm.store.sqlite import SqliteTables
from kfm.store.state import StoredState
from kfm.store.state_formats import FORMAT
from tests.crash import counts
from tests.crash.harness import Voice, answer_of, in_child
from tests.crash.oracle import rows_of
from tests.crash.points import Points, install
from tests.golden.test_golden import STATES
from tests.sampling import sampled

OLDER = [path for path in STATES if path.parent.name != f"format-{FORMAT}"]
PARTS = 6
Rows = dict[str, dict[str, bytes]]


def path_in(folder: Path, kind: str) -> str:
    return str(folder / ("state.db" if kind == "sqlite" else "journal.jsonl"))


def opened(folder: Path, kind: str) -> Tables:
    return (SqliteTables if kind == "sqlite" else JsonlTables)(path_in(folder, kind))


def migrate(folder: Path, kind: str, at: int = 0) -> Any:
    """Open it in a child, and die at place number `at`."""

    def work(_voice: Voice) -> list[str]:
        points = Points(at)
        install(points)
        opened(folder, kind).close()
        return points.labels

    return in_child(work) if at else answer_of(work)


def raw(folder: Path, kind: str) -> tuple[int, Any]:
    """The format it says, and what is in it, with nothing of ours in between. Of a copy: looking may write."""
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    try:
        return _raw_database(copy) if kind == "sqlite" else _raw_journal(copy)
    finally:
        shutil.rmtree(copy)


def _raw_database(folder: Path) -> tuple[int, Any]:
    database = apsw.Connection(path_in(folder, "sqlite"))
    names = sorted(row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type='table'"))
    rows = {name: sorted(database.execute(f"SELECT * FROM {name}")) for name in names}
    version = database.execute("PRAGMA user_version").fetchone()
    database.close()
    assert version is not None
    return int(version[0]), rows


def _raw_journal(folder: Path) -> tuple[int, Any]:
    lines = (folder / "journal.jsonl").read_bytes().split(b"\n")[:-1]  # what is not ended was never acknowledged
    said = [(*msgspec.json.decode(line.split(b" ", 2)[2]), 0)[3] for line in lines]
    return max(said) or int(folder.parent.name[-1]), lines


@pytest.mark.parametrize("part", sampled(range(PARTS)))
@pytest.mark.parametrize("golden", sampled(OLDER, every=6), ids=lambda path: "/".join(path.parts[-2:]))
def test_a_kill_leaves_the_old_format_or_the_new_one(golden: Path, part: int, scratch: str) -> None:
    kind, number = golden.name, golden.parent.name[-1]
    folder = Path(scratch) / number / "state"
    shutil.copytree(golden / "state", folder)
    old = raw(folder, kind)
    labels = migrate(folder, kind)
    new = raw(folder, kind)
    assert old[0] == int(number) and new[0] == FORMAT and len(labels) > 10
    wanted = answer_of(lambda _voice: _read(folder, kind))
    left = set()
    for at in range(1 + part, len(labels) + 1, PARTS):
        shutil.rmtree(folder)
        shutil.copytree(golden / "state", folder)
        ended = migrate(folder, kind, at)
        assert ended.killed, f"nothing was killed at {at} {labels[at - 1]}: {ended.failure}"
        counts.add("singles")
        found = raw(folder, kind)
        assert found in (old, new), f"killed at {at} {labels[at - 1]}: neither the old state nor the new one"
        left.add(found[0])
        assert answer_of(lambda _voice: _read(folder, kind)) == wanted
    assert left == {old[0], FORMAT}, "the sweep saw only one of the two"


def _read(folder: Path, kind: str) -> dict[str, dict[str, str]]:
    """What is there once it was opened again; and that its maps say what its records say."""
    tables = opened(folder, kind)
    assert differences(StoredState(tables, FixedClock().now_ms)) == []
    rows: Rows = rows_of(tables)
    tables.close()
    return {table: {key: body.hex() for key, body in rows[table].items()} for table in rows}
