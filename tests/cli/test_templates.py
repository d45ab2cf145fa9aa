"""`kfm init --template`: each template is an installation that runs, passes its own test, and has a schema for
editors.
"""

from __future__ import annotations

import configparser
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.installations import Installation, environment
from tests.sampling import sampled
from tests.testing.test_plugin import pytest_in

TRUSTED = {"KFM_ACCEPT_WEAK_STORAGE": "true"}


@pytest.mark.parametrize("template", sampled(["csv", "geojson", "stac", "python"], keep=2))
def test_a_template_runs_is_published_and_passes_its_test(tmp_path: Path, template: str) -> None:
    there = Installation(tmp_path)
    there.kfm("init", "--template", template)
    (receipt,) = there.kfm("run", "--json", env=TRUSTED).data["receipts"]
    assert receipt["outcome"] == "done"
    there.kfm("promote", receipt["dataset"], "--reason", "first", env=TRUSTED)
    if template in ("csv", "python"):  # the others differ in nothing that pytest sees
        done = pytest_in(tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    first = (tmp_path / "kfm.yml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=kfm.schema.json"
    assert json.loads((tmp_path / "kfm.schema.json").read_text()) == there.kfm("config", "schema", "config").data
    assert "/.kfm/" in (tmp_path / ".gitignore").read_text()


def test_what_a_repository_has_already_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".gitignore").write_text("mine")
    written = Installation(tmp_path).kfm("init", "--json").data["written"]
    assert not any(path.endswith(("README.md", ".gitignore")) for path in written)
    assert (tmp_path / "README.md").read_text() == (tmp_path / ".gitignore").read_text() == "mine"


def test_the_line_for_cron_works_as_pasted_and_is_silent(tmp_path: Path) -> None:
    there = Installation(tmp_path)
    there.kfm("init")
    (line,) = [line for line in (tmp_path / "README.md").read_text().splitlines() if line.startswith("*/15")]
    command = line.split(maxsplit=5)[5]
    assert command.startswith("/") and str(tmp_path / "kfm.yml") in command
    bare = {"PATH": "/usr/bin:/bin", "HOME": "/", "PYTHONPATH": environment().get("PYTHONPATH", ""), **TRUSTED}
    done = subprocess.run(["sh", "-c", command], cwd="/", env=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list((tmp_path / ".kfm").iterdir()), "and it did run"


def test_the_line_for_cron_speaks_when_something_is_wrong(tmp_path: Path) -> None:
    there = Installation(tmp_path)
    there.kfm("init")
    (line,) = [line for line in (tmp_path / "README.md").read_text().splitlines() if line.startswith("*/15")]
    bare = {"PATH": "/usr/bin:/bin", "HOME": "/", "PYTHONPATH": environment().get("PYTHONPATH", ""), **TRUSTED}
    (tmp_path / "data/rain_gauges.csv").unlink()
    command = line.split(maxsplit=5)[5]
    done = subprocess.run(["sh", "-c", command], cwd="/", env=bare, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.startswith("kfm: rain-gauges")


def test_the_unit_and_the_timer_are_what_systemd_reads(tmp_path: Path) -> None:
    Installation(tmp_path).kfm("init")
    blocks = (tmp_path / "README.md").read_text().split("```ini\n")[1:]
    names = ("kfm.service", "kfm.timer")
    read = {}
    for name, block in zip(names, blocks, strict=True):
        text = block.partition("```")[0]
        (tmp_path / name).write_text(text)
        read[name] = configparser.ConfigParser(strict=True, interpolation=None)
        read[name].optionxform = str  # type: ignore[assignment,method-assign]
        read[name].read_string(text)
    assert read["kfm.service"]["Service"]["Type"] == "oneshot"
    program, *words = read["kfm.service"]["Service"]["ExecStart"].split()
    assert os.access(program, os.X_OK) and words[-1] == str(tmp_path / "kfm.yml")
    assert set(read["kfm.timer"]) == {"DEFAULT", "Unit", "Timer", "Install"}
    assert read["kfm.timer"]["Timer"]["OnCalendar"] == "*:0/15"
    if analyze := shutil.which("systemd-analyze"):
        done = subprocess.run(
            [analyze, "verify", "--user", "--man=no", *(str(tmp_path / name) for name in names)],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_at_a_terminal_it_asks(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "kfm.cli.main", "init"]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdin=theirs, stderr=theirs, stdout=subprocess.PIPE
    )
    os.close(theirs)
    asked = b""
    while b"what do you have?" not in asked:
        asked += os.read(ours, 1000)
    os.write(ours, b"stac\n")
    out, _ = process.communicate()
    os.close(ours)
    assert process.returncode == 0 and b"data/scene.json" in out
