"""The plugin in a user's own pytest: the fixture is there, its message is shown, and nothing else changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.project.bans import ROOT

UPDATER = """\
from kfm import Output, Plan, Step, Updater


class Rain(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rain")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output.text(read.text("rain").upper())
"""
CONFIG = """\
datasets:
  rain:
    updater: updaters/rain.py:Rain
    sources:
      rain: {uri: "https://example.org/rain.txt"}
"""
TEST = """\
def test_rain(kfm_updater):
    trial = kfm_updater("rain", sources={"rain": "a little"})
    trial.check()
    assert trial.outputs() == {"all": b"A LITTLE"}
"""


def pytest_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "kfm.testing.plugin", "-p", "no:cacheprovider", "-q", *words],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def installation(folder: Path) -> Path:
    for name, text in (("kfm.yml", CONFIG), ("updaters/rain.py", UPDATER), ("tests/test_rain.py", TEST)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_the_dataset_around_a_test_is_tried_and_its_failure_is_reported_plainly(tmp_path: Path) -> None:
    folder = installation(tmp_path)
    passed = pytest_in(folder)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["kfm.yml", "tests", "updaters"], "nothing is left"
    code = folder / "updaters" / "rain.py"
    code.write_text(code.read_text().replace("read.text(", "__import__('uuid').uuid4().hex + read.text("))
    failed = pytest_in(folder)
    assert failed.returncode == 1
    assert "updater rain does not give the same bytes twice (output.varies)" in failed.stdout
    assert "E         do:     Do not use the time, randomness, uuid" in failed.stdout
    assert "kfm/testing/trial.py" not in failed.stdout, "a newcomer sees the own test, and not what tries it"


def test_whoever_does_not_ask_for_it_loads_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "test_else.py").write_text(
        "import sys\n\n\ndef test_it():\n"
        "    loaded = {name.partition('.')[2] for name in sys.modules if name.startswith('kfm.')}\n"
        "    assert loaded == {'testing', 'testing.plugin'}, loaded\n"
        "    assert 'apsw' not in sys.modules and 'msgspec' not in sys.modules\n"
    )
    done = pytest_in(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pytest_finds_it_by_itself() -> None:
    """Under the name it has as a module, so that `-p` next to it is no second plugin."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"kfm.testing.plugin": "kfm.testing.plugin"}
