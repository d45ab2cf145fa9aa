"""Puts a fault into a copy of the repository and shows whether the tests that should notice it do.

A bug is a replacement in one file; the tests named with it run in that copy. A bug whose text is no longer in the
file is an error too: it has to be seeded anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import NamedTuple

from tests.house.bans import ROOT, repository_files


class Bug(NamedTuple):
    file: str  # by its path in the repository; that of the package may begin with kfm/
    old: str
    new: str
    tests: str  # what pytest is given; the first failure ends it

    @property
    def path(self) -> str:
        return f"src/{self.file}" if self.file.startswith("kfm/") else self.file


def misplaced(bug: Bug) -> str:
    """'' if the bug can be put in and what it names is there; otherwise what is wrong."""
    if not (ROOT / bug.path).is_file() or bug.old not in (ROOT / bug.path).read_text(encoding="utf-8"):
        return f"its text is no longer in {bug.path}: seed it anew"
    if bug.old == bug.new:
        return "it changes nothing"
    for word in bug.tests.split():
        path, _, name = word.partition("::")
        if not word.startswith("tests/"):
            continue
        if not (ROOT / path).exists():
            return f"{path} does not exist"
        if name and f"def {name.partition('[')[0]}(" not in (ROOT / path).read_text(encoding="utf-8"):
            return f"there is no {name} in {path}"
    return ""


def copied(scratch: Path) -> Path:
    """The repository as it may be committed, and what Node needs to run."""
    copy = scratch / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    for name in repository_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    if (ROOT / "node" / "node_modules").exists():
        (copy / "node" / "node_modules").symlink_to(ROOT / "node" / "node_modules")
    return copy


def python_of(scratch: Path) -> Path:
    """A Python that has the packages of this one and the product of the copy: also for what the tests start, which
    gets no variable of ours."""
    home = scratch / "python"
    if not home.exists():
        venv.EnvBuilder(symlinks=True).create(home)
        (packages,) = home.glob("lib/python*/site-packages")
        (packages / "copy.pth").write_text(f"{scratch / 'copy' / 'src'}\n{sysconfig.get_path('purelib')}\n")
        for command in Path(sys.executable).parent.iterdir():
            if not (home / "bin" / command.name).exists():
                (home / "bin" / command.name).symlink_to(command)
    return home / "bin" / "python"


def try_out(bug: Bug, scratch: Path) -> str:
    """'' if the tests noticed; otherwise what went wrong."""
    copy, python = copied(scratch), python_of(scratch)
    text = (copy / bug.path).read_text(encoding="utf-8")
    if bug.old not in text:
        return f"its text is no longer in {bug.path}: seed it anew"
    (copy / bug.path).write_text(text.replace(bug.old, bug.new, 1), encoding="utf-8")
    command = [str(python), "-m", "pytest", "-x", "-m", "not long", "-p", "no:cacheprovider", *bug.tests.split()]
    environment = {**os.environ, "TESTED_HISTORIES": "100", "KFM_TEST_BOTH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 1:
        return ""
    return "no test noticed" if done.returncode == 0 else f"pytest ended with {done.returncode}: {done.stdout[-500:]}"


def main(bugs: dict[str, Bug], names: list[str], scratch: Path) -> int:
    """Try them one by one and say which tests notice; all, or those that are named."""
    unknown = [name for name in names if name not in bugs]
    if unknown:
        print(f"no bug is called {unknown[0]!r}; there are: {', '.join(bugs)}", file=sys.stderr)
        return 2
    missed = 0
    for name in names or list(bugs):
        problem = try_out(bugs[name], scratch)
        missed += bool(problem)
        print(f"{'MISSED' if problem else 'caught'}  {name}{': ' + problem if problem else ''}", flush=True)
    total = len(names or bugs)
    print(f"{total - missed} of {total} caught")
    return 1 if missed else 0
