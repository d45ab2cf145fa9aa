"""Both languages upgrade a state of an older format alike, and both refuse a newer one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kfm.store import state_formats
from kfm.store.jsonl import JsonlTables
from tests.golden.test_golden import STATES
from tests.node.store_words import Here, There
from tests.node.twin import ROOT
from tests.store.compared import TABLES
from tests.store.test_formats import line_of

OLDER = [path for path in STATES if path.parent.name != f"format-{state_formats.FORMAT}"]


def test_both_languages_know_the_same_formats() -> None:
    assert f"export const FORMAT = {state_formats.FORMAT};" in (ROOT / "node/store/state_formats.mjs").read_text()


@pytest.mark.parametrize("golden", OLDER, ids=lambda path: "/".join(path.parts[-2:]))
def test_an_older_state_becomes_the_same_in_both(golden: Path, tmp_path: Path) -> None:
    kind = golden.name
    found = []
    with There() as there:
        for each in (Here(), there):
            for mode in ("look", "write"):
                folder = tmp_path / type(each).__name__ / mode
                shutil.copytree(golden / "state", folder)
                path = str(folder / ("state.db" if kind == "sqlite" else "journal.jsonl"))
                word = kind if mode == "write" else f"overlay-{kind}"
                assert "ok" in each.ask("open", "s", word, path)
                found.append({table: each.ask("tables", "s", "scan", table)["ok"] for table in TABLES})
                each.ask("close", "s")
    assert any(found[0].values())
    assert all(each == found[0] for each in found)


def test_a_newer_journal_is_refused_by_both(tmp_path: Path) -> None:
    path = tmp_path / "state"
    tables = JsonlTables(str(path))
    path.write_bytes(line_of(tables, state_formats.FORMAT + 1, rows=1))
    tables.close()
    with There() as there:
        told = [each.ask("open", "s", "jsonl", str(path)) for each in (Here(), there)]
    assert told[0] == told[1]
    assert told[0]["error"]["message"].startswith("the journal has format")
