"""Puts a fault into a copy of the repository and shows whether the tests that should notice it do.

A bug is a replacement in one place; the tests named with it run in that copy. In Python of the product the place is a
function: `kfm.delivery.public_files:Telling._tell` is module, colon, and the innermost function, class or constant with
all of the text; nothing behind the colon is the whole module. Anything else is a path in the repository. A place that
is
gone, or has the text not exactly once, is an error too: the bug has to be seeded anew.
"""

from __future__ import annotations

import ast
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.project.bans import ROOT, repository_files


class Bug(NamedTuple):
    place: str  # module:function, or a path in the repository; that of a file in the package may begin with kfm/
    old: str
    new: str
    tests: str  # what pytest is given; the first failure ends it


class Misplaced(Exception):
    """The bug cannot be put in; says why."""


def planted(bug: Bug, root: Path) -> tuple[Path, str]:
    """The file below root that the bug is in, and its text with the bug."""
    where, colon, name = bug.place.partition(":")
    file = _file_of(where, root) if colon else root / (f"src/{where}" if where.startswith("kfm/") else where)
    if not file.is_file():
        raise Misplaced(f"there is no {where}: seed it anew")
    if not colon and file.suffix == ".py" and file.is_relative_to(root / "src"):
        raise Misplaced(f"{where} is Python of the product: name the function, as module:function")
    lines = io.StringIO(file.read_text(encoding="utf-8")).readlines()
    first, last = _span(where, name, "".join(lines)) if name else (0, len(lines))
    inside = "".join(lines[first:last])
    if inside.count(bug.old) != 1:
        raise Misplaced(f"its text is {inside.count(bug.old)} times in {bug.place}, not once: seed it anew")
    return file, "".join([*lines[:first], inside.replace(bug.old, bug.new), *lines[last:]])


def _file_of(module: str, root: Path) -> Path:
    path = root.joinpath("src", *module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _span(module: str, name: str, text: str) -> tuple[int, int]:
    """Where the lines of what has this name begin, decorators included, and where they end."""
    found = [node for known, node in _named(ast.parse(text)) if known == name]
    if len(found) != 1:
        raise Misplaced(f"{name} is {len(found)} times in {module}, not once: seed it anew")
    decorators = getattr(found[0], "decorator_list", [])
    return min(each.lineno for each in (found[0], *decorators)) - 1, found[0].end_lineno or 0


def _named(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield inside + child.name, child
            yield from _named(child, f"{inside}{child.name}.")
            continue
        if isinstance(child, ast.Assign | ast.AnnAssign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            yield from ((inside + target.id, child) for target in targets if isinstance(target, ast.Name))
        yield from _named(child, inside)


def misplaced(bug: Bug) -> str:
    """'' if the bug can be put in and what it names is there; otherwise what is wrong."""
    try:
        planted(bug, ROOT)
    except Misplaced as problem:
        return str(problem)
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
    try:
        file, text = planted(bug, copy)
    except Misplaced as problem:
        return str(problem)
    file.write_text(text, encoding="utf-8")
    command = [str(python), "-m", "pytest", "-x", "-m", "not long", "-p", "no:cacheprovider", *bug.tests.split()]
    environment = {**os.environ, "TESTED_HISTORIES": "100", "TESTED_BOTH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
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
