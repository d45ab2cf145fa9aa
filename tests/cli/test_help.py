"""Help, versions and completion: what the command line says about itself."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm import __version__
from kfm.cli.commands import ALIASES, GROUPS, MEANT
from kfm.cli.completion import script
from kfm.cli.parser import COMMANDS, EXIT_TEXT, Usage, build, parse
from kfm.errors import EXIT_CODES, KfmError

from .conftest import Kfm


def commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield (*path, name)
                yield from commands(child, (*path, name))


ROOT = Path(__file__).resolve().parents[2]
ALL = list(commands(build()))
WANTED = """init; run; plan; resume; runs list; runs show; runs steps; refs list; refs history; cat; publish; rollback;
freeze; thaw; runs receipts; runs receipt; runs wal; runs compact; doctor; config show; config schema;
config completion"""


def test_every_promised_command_is_there() -> None:
    assert {" ".join(path) for path in ALL} >= {" ".join(name.split()) for name in WANTED.split(";")}


def test_the_list_of_commands_is_the_one_the_parser_has() -> None:
    assert {path[0] for path in ALL} == COMMANDS


def test_the_help_has_few_commands_in_groups_of_at_most_ten(kfm: Kfm) -> None:
    assert len(COMMANDS) <= 58
    lines = kfm("--help").out.splitlines()
    for group in GROUPS:
        assert 0 < len(group.commands) <= 10
        at = lines.index(f"{group.title}:")
        for line, command in zip(lines[at + 1 :], group.commands, strict=False):
            assert line.split(maxsplit=1) == [command.name, command.summary] and len(line) <= 80


def test_a_word_of_another_tool_or_an_older_spelling_is_answered_with_the_command_that_does_it(kfm: Kfm) -> None:
    assert not set(MEANT) & (COMMANDS | set(ALIASES))
    for words, command in MEANT.items():
        answer = kfm(*words.split())
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == f"kfm: kfm has no command '{words.split()[0]}'; use kfm {command}\n"
    for words, command in (
        ("datasets", "status"), ("log", "runs list"), ("history", "refs history REF"), ("undo", "rollback DATASET"),
        ("versions", "refs history published/DATASET"), ("receipts list", "runs receipts"),
        ("receipts show last", "runs receipt RUN"), ("check", "config check, or kfm doctor"),
    ):  # fmt: skip
        assert kfm(*words.split()).err.endswith(f"use kfm {command}\n")
    assert "see `kfm reconcile --help`" in kfm("publish", "--check").err


def test_every_command_that_is_suggested_can_be_typed() -> None:
    for command in {each for text in MEANT.values() for each in text.split(", or kfm ") if "any command" not in each}:
        if command.startswith("config check"):
            continue
        try:
            parse(command.split())
        except Usage as problem:
            assert "are required" in problem.message, command


def test_another_name_of_a_command_means_the_same() -> None:
    for other, name in ALIASES.items():
        rest = ["verify", "a"] if name == "webhooks" else ["a"]
        assert vars(parse([other, *rest])) == vars(parse([name, *rest]))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_explains_itself(kfm: Kfm, path: tuple[str, ...]) -> None:
    answer = kfm(*path, "--help")
    assert answer.code == 0
    assert answer.err == ""
    assert answer.out.startswith(f"usage: kfm {' '.join(path)}")
    for flag in ("--config", "--json", "--quiet", "--no-color", "--verbose"):
        assert flag in answer.out


@pytest.mark.parametrize("name", ["run", "promote", "rollback", "freeze", "thaw"])
def test_every_command_that_changes_something_has_a_dry_run_a_reason_and_an_actor(kfm: Kfm, name: str) -> None:
    help_text = kfm(name, "--help").out
    for flag in ("--dry-run", "--reason", "--actor"):
        assert flag in help_text


def test_help_names_every_exit_code(kfm: Kfm) -> None:
    text = kfm("--help").out
    assert set(EXIT_TEXT) == set(EXIT_CODES)
    for name, code in EXIT_CODES.items():
        assert f"{code}  {EXIT_TEXT[name]}" in text


def listed_in(text: str) -> set[int]:
    """The exit codes in the rows of the first table or list of exit codes."""
    begin = re.search(r"^(\| (exit )?code \||exit codes:)", text, re.M)
    assert begin
    rows = text[begin.start() :].partition("\n\n")[0].splitlines()
    begun = [re.match(r"(\|| {2}) *(\d[\d, ]*?) *(\||  )", row) for row in rows]
    return {int(code) for row in begun if row for code in row[2].split(",")}


@pytest.mark.parametrize("place", ["--help", "docs/reference/errors.md", "docs/guides/operations.md"])
def test_every_list_of_exit_codes_is_complete(kfm: Kfm, place: str) -> None:
    root = Path(__file__).parents[2]
    text = kfm(place).out if place == "--help" else (root / place).read_text().partition("## Errors")[0]
    kinds = [KfmError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    codes = {kind.exit_code for kind in kinds if kind.__module__ == "kfm.errors"} | set(EXIT_CODES.values())
    signals = re.findall(r"return (\d{3})\b", (root / "src/kfm/cli/main.py").read_text())
    assert len(signals) == 3
    assert listed_in(text) == codes | set(map(int, signals))


def test_no_command_shows_the_help_and_is_a_usage_error(kfm: Kfm) -> None:
    answer = kfm()
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("usage: kfm")


def test_the_version_is_one_line(kfm: Kfm) -> None:
    for arguments in (["--version"], ["--quiet", "--version"]):
        assert kfm(*arguments) == (0, f"kfm {__version__}\n", "")


def test_asking_for_the_version_loads_nothing_heavy() -> None:
    program = (
        "import sys; before = set(sys.modules); sys.argv = ['kfm', '--version']\n"
        "from kfm.cli.main import main; main()\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "src"},
        cwd=ROOT,
    )
    version, loaded = done.stdout.splitlines()
    assert version == f"kfm {__version__}"
    assert set(loaded.split()) <= {"kfm", "kfm.cli", "kfm.cli.main", "__future__"}


def test_flags_stand_before_or_after_the_command(kfm: Kfm) -> None:
    kfm("init")
    before = kfm("--json", "--config", "kfm.yml", "config", "show")
    after = kfm("config", "show", "--json", "--config", "kfm.yml")
    between = kfm("config", "--json", "show", "--config", "kfm.yml")
    assert before.code == 0
    assert before == after == between


# ------------------------------------------------------------------------------------ completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_offers_every_command_and_flag(kfm: Kfm, shell: str) -> None:
    answer = kfm("config", "completion", shell)
    assert answer.code == 0
    for path in ALL:
        assert path[-1] in answer.out
    for flag in ("dry-run", "window", "force", "i-accept", "resolved", "format"):
        assert flag in answer.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_parse_where_the_shell_is_installed(shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([found, "-n"], input=script(shell, build()), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def complete(*words: str) -> list[str]:
    """What bash would offer for the last of the words."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    quoted = " ".join(f"'{word}'" for word in words)
    program = (
        f'{script("bash", build())}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _kfm; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run([bash, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_flags_and_values() -> None:
    assert complete("kfm", "ru") == ["run", "runs", "runners"]
    assert complete("kfm", "runs", "s") == ["show", "steps", "signals"]
    assert complete("kfm", "run", "--dr") == ["--dry-run"]
    assert complete("kfm", "--json", "runs", "l") == ["list"]
    assert complete("kfm", "--config", "kfm.yml", "doc") == ["doctor"]
    assert complete("kfm", "config", "completion", "f") == ["fish"]
    assert complete("kfm", "run", "--window", "") == []
