"""A run over a damaged or missing object of its version is no NOOP: it makes the object again and says so."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path

import pytest

from .conftest import Kfm

CONFIG = """\
datasets:
  birds:
    version: 1.0.0
    title: A list
    license: CC0-1.0
    sensitivity: public
    sources:
      list: {uri: list.csv, format: csv, contract: {columns: [{name: id}, {name: name}]}}
    outputs: {all: {from: list, format: %s}}
"""


def begin(kfm: Kfm, rows: int, form: str) -> None:
    Path("kfm.yml").write_text(CONFIG % form)
    Path("list.csv").write_text("id,name\n" + "".join(f"{n},bird {n}\n" for n in range(rows)))
    assert kfm("run").code == 0
    assert outcome(kfm) == "noop"


def outcome(kfm: Kfm) -> str:
    return str(kfm("run", "--json").data["receipts"][0]["outcome"])


def files() -> list[Path]:
    return [path for path in Path(".kfm/objects/sha256").rglob("*") if path.is_file()]


def flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"#")


def cut(path: Path) -> None:
    os.truncate(path, 1000)


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_a_damaged_or_missing_file_of_the_version_is_made_again(kfm: Kfm, form: str, damage: object) -> None:
    begin(kfm, 8000, form)
    before = {path: path.read_bytes() for path in files()}
    assert len(before) == (1 if form == "csv" else 2), "as CSV the output has the bytes of the source"
    for path in before:
        damage(path)  # type: ignore[operator]
    answer = kfm("run")
    assert answer.code == 0 and "were missing or damaged, and were made again" in answer.err, answer.err
    assert {path: path.read_bytes() for path in files()} == before
    assert outcome(kfm) == "noop" and kfm("doctor", "--deep").code == 0


def test_a_damaged_output_is_made_again_from_a_source_that_is_whole(kfm: Kfm) -> None:
    begin(kfm, 8000, "json")
    raw = hashlib.sha256(Path("list.csv").read_bytes()).hexdigest()
    (path,) = (path for path in files() if path.name != raw[2:])
    before = path.read_bytes()
    flip(path)
    assert outcome(kfm) == "unchanged" and path.read_bytes() == before
    assert outcome(kfm) == "noop"


def test_a_file_that_only_has_a_new_time_is_read_once_and_kept(kfm: Kfm) -> None:
    begin(kfm, 8000, "json")
    for path in files():
        os.utime(path)
    assert [outcome(kfm) for _ in range(2)] == ["noop", "noop"]


def test_a_damaged_small_object_is_a_damaged_state_and_the_run_says_so(kfm: Kfm) -> None:
    begin(kfm, 3, "json")
    state = sqlite3.connect(".kfm/state.db")
    with state:
        assert state.execute("update objects set value = replace(cast(value as text), 'bird', 'bard')").rowcount
    state.close()
    answer = kfm("run")
    assert answer.code == 65 and "is damaged; restore the state from a copy" in answer.err, answer
