"""Completion scripts for shells, made from the parser itself, so that they offer what can be typed.

Names of datasets, refs, runs and schedules are looked up when they are needed: the scripts call `kfm config completion
KIND`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kfm.app.runs.due_schedules import schedules_of
from kfm.cli.session import opened, settings

if TYPE_CHECKING:
    from kfm.cli.render import Screen

SHELLS = ("bash", "zsh", "fish")
KINDS = {  # for each name of an argument, the kind of names it takes
    "DATASET": ("datasets",),
    "SCOPE": ("datasets",),
    "REF": ("refs",),
    "PREFIX": ("refs",),
    "RUN": ("runs",),
    "SCHEDULE": ("schedules",),
    "A": ("datasets", "refs"),
    "B": ("datasets", "refs"),
    "THING": ("datasets", "runs"),
}
MOST = 500  # how many names are offered
_PLAIN = re.compile(r"[A-Za-z0-9._/+-]+")  # characters that need no quotes in a shell; other names are not offered


def names(options: argparse.Namespace, screen: Screen, kind: str) -> Iterator[str]:
    """Return the names of a kind, such as datasets or refs."""
    return (name for name in islice(_names(options, screen, kind), MOST) if _PLAIN.fullmatch(name))


def _names(options: argparse.Namespace, screen: Screen, kind: str) -> Iterator[str]:
    resolved = settings(options)
    if kind == "datasets":
        yield from sorted(resolved.config.datasets)
    elif kind == "schedules":
        yield from (schedule.id for schedule in schedules_of(resolved))
    else:
        with opened(options, screen, "read", resolved) as session:
            if kind == "refs":
                yield from (ref for ref, _ in session.state.refs.all())
            else:
                from kfm.app.runs.queries import runs, short_run

                yield from ("last", *(short_run(session, row["run"]) for row in runs(session, 50, "")))


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    commands = list(_walk(parser, ()))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


class _Command:
    """One command and the words that may follow it."""

    def __init__(self, path: tuple[str, ...], parser: argparse.ArgumentParser) -> None:
        self.path = path
        self.flags: list[tuple[str, str, bool]] = []  # name, help, takes a value
        self.words: list[tuple[str, str]] = []  # subcommands or fixed values, with help
        self.kinds: dict[str, None] = {}  # kinds of names that may follow
        self.valued: dict[str, tuple[str, ...]] = {}  # for each flag, the kind of its value
        for action in parser._actions:
            summary = (action.help or "").replace("\n", " ")
            if isinstance(action, argparse._SubParsersAction):
                self.words += [(choice.dest, choice.help or "") for choice in action._choices_actions]
            elif action.option_strings:
                self.flags += [(flag, summary, action.nargs != 0) for flag in action.option_strings]
                if (kinds := KINDS.get(str(action.metavar))) and action.nargs != 0:
                    self.valued.update(dict.fromkeys(action.option_strings, kinds))
            elif action.choices:
                self.words += [(str(choice), "") for choice in action.choices]
            else:
                self.kinds |= dict.fromkeys(KINDS.get(str(action.metavar), ()))


def _walk(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[_Command]:
    yield _Command(path, parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from _walk(child, (*path, name))


def _bash(commands: list[_Command]) -> str:
    cases = "\n".join(
        f"    '{' '.join(c.path)}') offered='{' '.join([w for w, _ in c.words] + [f for f, _, _ in c.flags])}' ;;"
        for c in commands
    )
    groups = "|".join(f"'{' '.join(c.path)}'" for c in commands if c.path)
    valued = "|".join(sorted({flag for c in commands for flag, _, takes in c.flags if takes}))
    return f"""# bash completion for kfm
_kfm() {{
  local path='' word skip='' offered='' kinds='' kind name now="${{COMP_WORDS[COMP_CWORD]}}" i
  local -a config=()
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    if [[ $skip == --config ]]; then config=(--config "$word"); fi
    if [[ -n $skip ]]; then skip=''; continue; fi
    case "$word" in {valued}) skip="$word"; continue ;; -*) continue ;; esac
    case "${{path:+$path }}$word" in {groups}) path="${{path:+$path }}$word" ;; esac
  done
  if [[ -n $skip ]]; then
    case "$skip" in {_by_flag(commands, "|", "{}) kinds='{}' ;;")} *) compopt -o default 2>/dev/null; return ;; esac
  else
    case "$path" in
{cases}
    esac
    case "$path" in {_by_path(commands, "{}) kinds='{}' ;;")} esac
    COMPREPLY=($(compgen -W "$offered" -- "$now"))
    [[ $now == -* ]] && return
  fi
  for kind in $kinds; do
    while IFS= read -r name; do
      [[ $name == "$now"* ]] && COMPREPLY+=("$name")
    done < <("${{COMP_WORDS[0]}}" "${{config[@]}}" config completion "$kind" 2>/dev/null </dev/null)
  done
}}
complete -F _kfm kfm
"""


def _by_path(commands: list[_Command], form: str) -> str:
    """Return the branches of a shell `case`: which names may follow which command."""
    return " ".join(form.format(f"'{' '.join(c.path)}'", " ".join(c.kinds)) for c in commands if c.kinds)


def _by_flag(commands: list[_Command], between: str, form: str) -> str:
    """Return the branches of a shell `case`: which names may follow which flag."""
    flags: dict[tuple[str, ...], dict[str, None]] = {}
    for command in commands:
        for flag, kinds in command.valued.items():
            flags.setdefault(kinds, {})[flag] = None
    return " ".join(form.format(between.join(some), " ".join(kinds)) for kinds, some in flags.items())


def _zsh(commands: list[_Command]) -> str:
    cases = "\n".join(
        f"    '{' '.join(c.path)}') offered=({' '.join(_zsh_item(n, h) for n, h in _offers(c))}) ;;" for c in commands
    )
    groups = "|".join(f"'{' '.join(c.path)}'" for c in commands if c.path)
    valued = "|".join(sorted({flag for c in commands for flag, _, takes in c.flags if takes}))
    return f"""#compdef kfm
_kfm() {{
  local place='' word skip='' kind i
  local -a offered kinds config
  for ((i = 2; i < CURRENT; i++)); do
    word="${{words[i]}}"
    if [[ $skip == --config ]]; then config=(--config "$word"); fi
    if [[ -n $skip ]]; then skip=''; continue; fi
    case "$word" in {valued}) skip="$word"; continue ;; -*) continue ;; esac
    case "${{place:+$place }}$word" in {groups}) place="${{place:+$place }}$word" ;; esac
  done
  if [[ -n $skip ]]; then
    case "$skip" in {_by_flag(commands, "|", "{}) kinds=({}) ;;")} *) _files; return ;; esac
  else
    case "$place" in
{cases}
    esac
    case "$place" in {_by_path(commands, "{}) kinds=({}) ;;")} esac
    _describe kfm offered
  fi
  [[ ${{words[CURRENT]}} == -* ]] && return
  for kind in $kinds; do
    compadd -- ${{(f)"$("${{words[1]}}" $config config completion $kind 2>/dev/null </dev/null)"}}
  done
}}
compdef _kfm kfm
"""


def _offers(command: _Command) -> list[tuple[str, str]]:
    return command.words + [(flag, summary) for flag, summary, _ in command.flags]


def _zsh_item(name: str, summary: str) -> str:
    return "'" + (name + ":" + summary.replace(":", "\\:")).replace("'", "'\\''") + "'"


def _fish(commands: list[_Command]) -> str:
    lines = ["# fish completion for kfm", "complete -c kfm -f"]
    for command in commands:
        if not command.path:
            names = " ".join(name for name, _ in command.words)
            test = f"not __fish_seen_subcommand_from {names}"
        else:
            test = "; and ".join(f"__fish_seen_subcommand_from {part}" for part in command.path)
            inner = [name for name, _ in command.words]
            test += f"; and not __fish_seen_subcommand_from {' '.join(inner)}" if inner else ""
        for kind in command.kinds:
            lines.append(f"complete -c kfm -n {_quoted(test)} -a {_quoted(_asked(kind))}")
        for name, summary in command.words:
            lines.append(f"complete -c kfm -n {_quoted(test)} -a {_quoted(name)} -d {_quoted(summary)}")
        for flag, summary, takes in command.flags:
            kind = "-l" if flag.startswith("--") else "-s"
            required = " -r" if takes else ""
            if kinds := command.valued.get(flag):
                required = f" -x -a {_quoted(' '.join(map(_asked, kinds)))}"
            lines.append(
                f"complete -c kfm -n {_quoted(test)} {kind} {flag.lstrip('-')}{required} -d {_quoted(summary)}"
            )
    return "\n".join(lines) + "\n"


def _asked(kind: str) -> str:
    return f"(kfm config completion {kind} 2>/dev/null)"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
