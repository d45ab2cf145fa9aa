"""Completion scripts, made from the parser itself: what can be typed is what is offered."""

from __future__ import annotations

import argparse
from collections.abc import Iterator


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    commands = list(_walk(parser, ()))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


class _Command:
    """One command with what may follow it."""

    def __init__(self, path: tuple[str, ...], parser: argparse.ArgumentParser) -> None:
        self.path = path
        self.flags: list[tuple[str, str, bool]] = []  # name, help, takes a value
        self.words: list[tuple[str, str]] = []  # subcommands or fixed values, with help
        for action in parser._actions:
            summary = (action.help or "").replace("\n", " ")
            if isinstance(action, argparse._SubParsersAction):
                self.words += [(choice.dest, choice.help or "") for choice in action._choices_actions]
            elif action.option_strings:
                self.flags += [(flag, summary, action.nargs != 0) for flag in action.option_strings]
            elif action.choices:
                self.words += [(str(choice), "") for choice in action.choices]


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
  local path='' word skip='' offered='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    if [[ -n $skip ]]; then skip=''; continue; fi
    case "$word" in {valued}) skip=1; continue ;; -*) continue ;; esac
    case "${{path:+$path }}$word" in {groups}) path="${{path:+$path }}$word" ;; esac
  done
  if [[ -n $skip ]]; then COMPREPLY=(); compopt -o default 2>/dev/null; return; fi
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$offered" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -F _kfm kfm
"""


def _zsh(commands: list[_Command]) -> str:
    cases = "\n".join(
        f"    '{' '.join(c.path)}') offered=({' '.join(_zsh_item(n, h) for n, h in _offers(c))}) ;;" for c in commands
    )
    groups = "|".join(f"'{' '.join(c.path)}'" for c in commands if c.path)
    valued = "|".join(sorted({flag for c in commands for flag, _, takes in c.flags if takes}))
    return f"""#compdef kfm
_kfm() {{
  local place='' word skip='' i
  local -a offered
  for ((i = 2; i < CURRENT; i++)); do
    word="${{words[i]}}"
    if [[ -n $skip ]]; then skip=''; continue; fi
    case "$word" in {valued}) skip=1; continue ;; -*) continue ;; esac
    case "${{place:+$place }}$word" in {groups}) place="${{place:+$place }}$word" ;; esac
  done
  if [[ -n $skip ]]; then _files; return; fi
  case "$place" in
{cases}
  esac
  _describe kfm offered
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
        for name, summary in command.words:
            lines.append(f"complete -c kfm -n {_quoted(test)} -a {_quoted(name)} -d {_quoted(summary)}")
        for flag, summary, takes in command.flags:
            kind = "-l" if flag.startswith("--") else "-s"
            required = " -r" if takes else ""
            lines.append(
                f"complete -c kfm -n {_quoted(test)} {kind} {flag.lstrip('-')}{required} -d {_quoted(summary)}"
            )
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
