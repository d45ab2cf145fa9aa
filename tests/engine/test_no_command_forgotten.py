"""Every command either changes nothing, and is traced, or is listed here as one that changes something."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from kfm.cli.parser import COMMANDS, build
from tests.engine.test_dry_run import DRY, LOOKING, RUNNER
from tests.node.test_dry_run import DRY as BY_NODE

Command = tuple[str, ...]

# These change something by what they are, and cannot be rehearsed.
WRITING: frozenset[Command] = frozenset(
    {
        ("init",),
        ("jobs", "enqueue"),
        ("jobs", "retry"),
        ("jobs", "cancel"),
        ("hotfix", "new"),
        ("new",),
        ("resume",),
        ("attest",),
        ("catalog", "build"),
        ("runs", "compact"),
        ("backup",),
        ("restore",),
        ("doctor",),  # tries the disk by writing to it
        (
            "triggers",
            "watch",
        ),
        ("webhooks", "serve"),
        ("serve",),
        ("webhooks", "replay"),
        ("triggers", "retry"),
        ("triggers", "drop"),
        ("keys", "new"),
        ("keys", "revoke"),
        ("token", "new"),
        ("token", "revoke"),
        ("review", "approve"),
        ("review", "reject"),
        ("mask", "deploy"),
        ("policy", "deploy"),
        ("policy", "bundle"),
        ("review", "deploy"),
        ("runs", "cancel"),
        ("backfill", "start"),
        ("backfill", "resume"),
        ("backfill", "pause"),
        ("backfill", "cancel"),
        ("schedule", "pause"),
        ("schedule", "resume"),
        ("schedule", "trigger"),
        ("up",),
        ("preview", "build"),
        ("preview", "report"),  # lays the branch out
    }
)
# These write only if they are not told otherwise: the flag that every traced call of theirs has.
TAMED = {
    ("runs", "telemetry"): "--stdout",
    ("audit", "export"): "--stdout",
    ("runners", "write"): "--stdout",
}


# These only look unless another word follows, for which the flag is.
LOOKS: frozenset[Command] = frozenset({("sinks",)})


def leaves(parser: argparse.ArgumentParser, above: Command = ()) -> Iterator[tuple[Command, set[str]]]:
    """Every command that does something, with its flags."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for name, child in action.choices.items():
            yield from leaves(child, (*above, name))
    if not below:
        yield above, {flag for action in parser._actions for flag in action.option_strings}


def commands_in(typed: tuple[Command, ...], known: set[Command]) -> set[Command]:
    return {words[:n] for words in typed for n in (1, 2) if words[:n] in known}


def test_no_command_is_forgotten() -> None:
    flags = dict(leaves(build()))
    known = set(flags)
    assert {command[0] for command in known} == COMMANDS
    assert len(known) > 30
    traced = commands_in((*DRY, *LOOKING), known)
    assert traced | WRITING == known, "a command is neither traced nor named as one that writes"
    assert not traced & WRITING
    assert commands_in(DRY, known) >= {command for command in known if "--dry-run" in flags[command]}


def test_nothing_is_traced_without_the_word_that_keeps_it_from_writing() -> None:
    flags = dict(leaves(build()))
    for words in (*DRY, *LOOKING, *RUNNER, *BY_NODE):
        for command in commands_in((words,), set(flags)):
            assert "--dry-run" in words or "--dry-run" not in flags[command] or words in LOOKS, words
            assert TAMED.get(command, words[0]) in words, words


def test_no_command_of_the_runners_is_forgotten() -> None:
    known = {command for command, _ in leaves(build("", "updater"))}
    assert known == {("run",), ("webhook", "verify")}
    assert commands_in(RUNNER, known) == known
    assert commands_in(BY_NODE, known) == known
