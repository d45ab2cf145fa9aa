"""Runs a page as a reader would: lays out its files, types its commands, and compares what it says they answer.

    ```csv file=data/wells.csv      a file, written where the reader stands
    ```sh                           commands, typed into a shell that stops at the first failure
    ```sh exit=3                    commands that end with this exit code
    ```text                         what the commands before it answer, stdout and stderr together
    ```python                       a program of its own, if it is no file

In an answer `…` stands for anything within a line, and alone on a line for any lines. A page may be followed at a
terminal of so many columns: then the answers are what a person sees there, and no table may be wider. Any other block
is refused: what is not run is not known to be right. Only what no test can wait for may stay unrun, and the statements
of the graph, which are made of the code and run by the tests of the graph.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.project import terminal

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.M | re.S)
_UNRUN = {
    "cron": "no test waits for a clock",
    "cypher": "made of the code, and run by the tests of the graph",
    "cluster": "no test has a cluster or an engine of containers; tests/deploy holds what they get against schemas",
}


class Block(NamedTuple):
    kind: str
    file: str
    exit_code: int
    body: str


def blocks(text: str) -> list[Block]:
    found = []
    for kind, rest, body in _BLOCK.findall(text):
        words = dict(word.split("=", 1) for word in rest.split() if "=" in word)
        found.append(Block(kind, words.get("file", ""), int(words.get("exit", "0")), body))
    return found


def follow(
    page: Path,
    folder: Path,
    python: str = sys.executable,
    section: str = "",
    columns: int = 0,
    kfm: str = "",
    clone: Path = ROOT,
    programs: Mapping[str, Path] | None = None,
) -> int:
    """Do what the page says, or one section of it, in an empty folder; returns how many blocks were run. `kfm` is a
    script for the command of that name, if it is not this Python's. `clone` is what the page calls $KFM. `programs` are
    others that the page needs."""
    tools = folder / "bin"
    tools.mkdir(parents=True)
    for name, module in (("kfm", " -m kfm"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{python}"{module} "$@"\n')
        (tools / name).chmod(0o755)
    if kfm:
        (tools / "kfm").write_text(kfm)
    for name, program in (programs or {}).items():
        (tools / name).symlink_to(program)
    (tools / "make").symlink_to("/bin/true")  # its targets have tests of their own
    here, note = folder / "reader", folder / "pwd"
    (here / ".venv" / "bin").mkdir(parents=True)
    (here / ".venv" / "bin" / "activate").write_text("")
    environment = {
        "PATH": f"{tools}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(here),
        "KFM": str(clone),
        "LC_ALL": "C.UTF-8",
        "KFM_ACTOR": "you",
        "KFM_ACCEPT_WEAK_STORAGE": "true",  # the temporary folder may be one in memory
        "PYTEST_PLUGINS": "kfm.testing.plugin",  # as an installation has it; of a clone nobody may have told pytest
    }
    answer = ""
    ran = 0
    text = page.read_text(encoding="utf-8")
    if section:
        text = re.split(r"^## ", text.partition(f"\n## {section}\n")[2], flags=re.M)[0]
    for block in blocks(text):
        if block.file:
            (here / block.file).write_text(block.body, encoding="utf-8")
        elif block.kind in ("sh", "python"):
            typed = ["sh", "-eu", "-c", f'{block.body}\npwd > "{note}"']
            command = typed if block.kind == "sh" else [python, "-c", block.body]
            code, answer = _answer(command, here, environment, columns)
            assert code == block.exit_code, f"{page.name}: {block.body}ended with {code}:\n{answer}"
            if note.exists():
                here = Path(note.read_text().rstrip("\n"))
            ran += 1
        elif block.kind == "text":
            assert matches(block.body, answer), f"{page.name} says\n{block.body}\nbut the answer is\n{answer}"
        else:
            assert block.kind in _UNRUN, f"{page.name} has a block of {block.kind or 'nothing'} that nobody runs"
    return ran


def _answer(command: list[str], folder: Path, environment: dict[str, str], columns: int) -> tuple[int, str]:
    if columns:
        code, shown = terminal.typed(command, folder, environment, columns)
        assert not (wide := terminal.too_wide(shown, columns)), f"wider than {columns} columns: {wide}"
        return code, terminal.plain(shown)
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.returncode, done.stdout.decode()


def matches(said: str, answer: str) -> bool:
    pattern = ""
    for line in said.splitlines():
        if line.strip() == "…":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(map(re.escape, line.split("…"))) + r"\n"
    return re.fullmatch(pattern, answer if answer.endswith("\n") or not answer else answer + "\n") is not None
