"""A small installation, and the command line called in this process."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kfm.cli.main import main
from tests.kept import once


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line of an error; fails if there is more or less than one."""
        lines = [line for line in self.err.splitlines() if line.startswith("kfm: ")]
        assert len(lines) == 1, self.err
        assert lines[0].isprintable()
        assert "Traceback" not in self.err
        return lines[0]


Kfm = Callable[..., Answer]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder of its own, in memory where there is some: what is typed wrong does not care for the disk."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(tmp_path)
    folder = tempfile.mkdtemp(prefix="kfm-cli-", dir=base)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KFM_") or name in ("NO_COLOR", "SOURCE_DATE_EPOCH"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KFM_ACTOR", "tester")
    monkeypatch.setenv("KFM_REASON", "a test")
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")  # the temporary folder may be one in memory


@pytest.fixture
def kfm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Kfm:
    """Calls `kfm ARGS…` in an empty folder; bytes that are no text come back as escapes."""
    folder = tmp_path / "installation"
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)

    def call(*arguments: str) -> Answer:
        capfdbinary.readouterr()
        code = main(list(arguments))
        out, err = capfdbinary.readouterr()
        return Answer(code, out.decode("utf-8", "backslashreplace"), err.decode("utf-8", "backslashreplace"))

    return call


@pytest.fixture
def started(kfm: Kfm) -> Kfm:
    """`kfm init`, not run yet."""
    once("started", [Path()], lambda: done(kfm("init")))
    return kfm


def done(*answers: Answer) -> None:
    assert [answer.code for answer in answers] == [0] * len(answers), answers


@pytest.fixture
def ran(started: Kfm) -> Kfm:
    """`kfm init`, run once, promoted once."""
    once("ran", [Path()], lambda: done(started("run"), started("promote", "rain-gauges", "--reason", "first")))
    return started


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command.replace("kfm", f"{sys.executable} -m kfm.cli.main")], capture_output=True, text=True
    )


def tree(folder: Path | None = None) -> dict[str, str]:
    """Every path below a folder with a digest of what is there: equal means nothing changed."""
    root = folder or Path.cwd()
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = "link " + os.readlink(path)
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
