"""`kfm new` writes a module with tests that pass as written, and touches no other file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine.installations import Installation
from tests.sampling import sampled
from tests.testing.test_plugin import pytest_in


def installation(folder: Path) -> Installation:
    there = Installation(folder)
    there.kfm("init")
    return there


@pytest.mark.parametrize("kind", sampled(["updater", "job", "connector"]))
def test_what_is_written_passes_its_own_tests(tmp_path: Path, kind: str) -> None:
    there = installation(tmp_path)
    answer = there.kfm("new", kind, "well-logs")
    word, count = ("job", 3) if kind == "job" else ("updater", 2)
    assert "updaters/well_logs.py" in answer.out and f"{word}: updaters/well_logs.py:WellLogs" in answer.out
    done = pytest_in(tmp_path, "tests/test_well_logs.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout


def test_what_it_says_to_declare_can_be_pasted(tmp_path: Path) -> None:
    there = installation(tmp_path)
    for kind in ("updater", "connector"):
        said = there.kfm("new", kind, f"some-{kind}", "--json").data
        assert [os.path.relpath(path, tmp_path) for path in said["written"]] == [
            f"updaters/some_{kind}.py",
            f"tests/test_some_{kind}.py",
        ]
        with (tmp_path / "kfm.yml").open("a") as file:
            file.write(said["declare"])
    (tmp_path / "data" / "some_updater.csv").write_text("id,group\n1,east\n")
    (tmp_path / "data" / "some_connector.json").write_text('{"files": ["data/some_updater.csv"]}')
    for name in ("some-updater", "some-connector"):
        (receipt,) = there.kfm("run", name, "--json", env={"KFM_ACCEPT_WEAK_STORAGE": "true"}).data["receipts"]
        assert receipt["outcome"] == "done"


def test_nothing_is_overwritten_and_a_bad_name_is_refused(tmp_path: Path) -> None:
    there = installation(tmp_path)
    there.kfm("new", "updater", "wells")
    before = (tmp_path / "updaters" / "wells.py").read_text()
    (tmp_path / "tests" / "test_wells.py").unlink()
    said = there.kfm("new", "job", "wells", expect=3).err
    assert "updaters/wells.py is there already" in said and "nothing was written" in said
    assert (tmp_path / "updaters" / "wells.py").read_text() == before
    assert not (tmp_path / "tests" / "test_wells.py").exists(), "all of it or nothing"
    assert "is not a valid name" in there.kfm("new", "updater", "../wells", expect=3).err
    assert "makes no name of a module" in there.kfm("new", "updater", "9to5", expect=3).err
    assert "makes no name of a module" in there.kfm("new", "updater", "json", expect=3).err
    assert "no kind 'dataset'" in there.kfm("new", "dataset", "wells", expect=2).err
