"""Names of datasets, refs, runs and schedules are completed, in a real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kfm.cli.completion import script
from kfm.cli.parser import build
from tests.abilities import lacking

from .conftest import Kfm

WANTED = {  # what is typed, and what must be among what is offered for its last word
    "kfm run ra": "rain-gauges",
    "kfm status ra": "rain-gauges",
    "kfm freeze rai": "rain-gauges",
    "kfm refs history publ": "published/rain-gauges",
    "kfm cat proc": "processed/rain-gauges",
    "kfm runs show ": "RUN",
    "kfm --json runs wal ": "RUN",
    "kfm diff ra": "rain-gauges",
    "kfm runs list --dataset ra": "rain-gauges",
    "kfm explain la": "last",
    "kfm help st": "",
}


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        lacking(f"{name} is not installed")
    return found


def kfm_in(folder: Path) -> dict[str, str]:
    """An environment in which `kfm` is this one."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "kfm").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kfm "$@"\n')
    (tools / "kfm").chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "xterm"}


def told(name: str, folder: Path, program: str) -> list[list[str]]:
    """What the shell writes that runs this program: too long a one for a word of a command."""
    (folder / "program").write_text(program)
    bare = ["-f"] if name == "zsh" else ["--no-config"] if name == "fish" else ["--norc"]
    command = [shell(name), *bare, str(folder / "program")]
    done = subprocess.run(command, capture_output=True, text=True, env=kfm_in(folder))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def in_bash(folder: Path, *lines: str) -> list[list[str]]:
    """As bash would after TAB: the words of the line, and the function it was told to ask."""
    asked = "\n".join(
        f"COMP_WORDS=({line}{' ' if not line.endswith(' ') else chr(39) * 2}); "
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kfm; echo "${COMPREPLY[*]}"'
        for line in lines
    )
    return told("bash", folder, f"{script('bash', build())}\n{asked}\n")


def in_fish(folder: Path, *lines: str) -> list[list[str]]:
    asked = "\n".join(f"echo (string join ' ' -- (complete -C'{line}' | string split -f1 \\t))" for line in lines)
    return told("fish", folder, f"{script('fish', build())}\n{asked}\n")


def in_zsh(folder: Path, *lines: str) -> list[list[str]]:
    """compadd and _describe stand in for the editor, and tell what they were given."""
    stand_in = """
compdef() { :; }
offer() { [[ $1 == ${words[CURRENT]}* ]] && print -n -- "$1 "; }
_describe() { local each; for each in ${(P)2}; do offer "${each%%:*}"; done; }
compadd() { shift; local each; for each in "$@"; do offer "$each"; done; }
_files() { :; }
"""
    asked = "\n".join(
        f"words=({line}{' ' if not line.endswith(' ') else chr(39) * 2}); CURRENT=$#words; _kfm; print"
        for line in lines
    )
    return told("zsh", folder, f"{stand_in}\n{script('zsh', build())}\n{asked}\n")


@pytest.mark.parametrize("asked", [in_bash, in_fish, in_zsh], ids=["bash", "fish", "zsh"])
def test_names_are_offered_where_they_may_stand(ran: Kfm, tmp_path: Path, asked: object) -> None:
    run = ran("runs", "list", "--json").data[0]["run"][:8]
    found = asked(tmp_path, *WANTED)  # type: ignore[operator]
    assert len(found) == len(WANTED)
    for (line, wanted), offered in zip(WANTED.items(), found, strict=True):
        assert not wanted or wanted.replace("RUN", run) in offered, (line, offered)


def test_bash_offers_no_names_where_none_belong_and_none_that_do_not_begin_so(ran: Kfm, tmp_path: Path) -> None:
    found = in_bash(
        tmp_path, "kfm run --", "kfm run x", "kfm config sh", "kfm --config nowhere.yml run ra", "kfm run --window ra"
    )
    assert not any("rain-gauges" in offered for offered in found), found
    assert "--dry-run" in found[0] and found[2] == ["show"]


def test_a_name_that_a_shell_would_read_otherwise_is_not_offered(ran: Kfm, tmp_path: Path) -> None:
    from kfm.cli import completion

    odd = ["$(touch pwned)", "a b", "`id`", "a;b", "fine-1"]
    assert [name for name in odd if completion._PLAIN.fullmatch(name)] == ["fine-1"]
    answer = ran("config", "completion", "datasets")
    assert answer == (0, "rain-gauges\n", "")
    assert ran("config", "completion", "runs").out.splitlines()[0] == "last"
    assert not (tmp_path / "pwned").exists()
