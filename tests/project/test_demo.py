"""The demo works, and its kill in the middle is one, however fast or busy the machine is."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.project import quickly
from tests.project.bans import ROOT
from tests.sampling import sampled

DEMO = ROOT / "examples" / "demo.py"


@pytest.fixture
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_under_test", DEMO)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


QUICKLY = """
import runpy, sys
module = runpy.run_path(sys.argv[1], run_name="demo")
typed = module["Project"].command
module["Project"].command = lambda self, *words: (  # what is to be killed is a process of its own
    [sys.argv[2], *words] if words[0] == "--json" else typed(self, *words)
)
sys.exit(module["main"](sys.argv[3:]))
"""


@pytest.mark.parametrize("quick", sampled([True, False]))
def test_the_demo_ends_well_and_says_what_it_showed(quick: bool, tmp_path: Path) -> None:
    command = [sys.executable, str(DEMO), str(tmp_path)]
    if quick:
        (tmp_path / "kfm").write_text(quickly.script())
        (tmp_path / "kfm").chmod(0o755)
        command[1:-1] = ["-c", QUICKLY, str(DEMO), str(tmp_path / "kfm")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    killed = re.search(r"killed with (\d+) of (\d+) steps done", done.stderr)
    assert killed is not None and 0 < int(killed[1]) < int(killed[2])
    assert done.stderr.count("✓") == 12
    assert (tmp_path / "demo" / "public" / "datasets" / "usgs-earthquakes" / "current.json").exists()


def test_a_run_that_ends_before_it_can_be_killed_is_not_taken_for_a_killed_one(
    demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = demo.Project(tmp_path / "demo", 1)
    monkeypatch.setattr(project, "command", lambda *_words: [sys.executable, "-c", "pass"])
    assert demo.killed_in_the_middle(project, "kgs-tops") == (0, 0)


def test_every_further_edition_has_all_rows_of_the_one_before(demo: ModuleType) -> None:
    first = b"A,B\n1,2\n3,4\n"
    second = demo.with_last_line_again(first)
    assert second == b"A,B\n1,2\n3,4\n3,4\n"
    assert demo.with_last_line_again(second) == second + b"3,4\n"
