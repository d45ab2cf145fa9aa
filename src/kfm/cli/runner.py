"""What can be typed at the runners' door: `python -m updater …` here, `node updater.mjs …` there, the same words.

argparse has other words in every version of Python, so this door reads its words itself; node/runner.mjs is this
file line by line. What is typed means what it means to `kfm`.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, Literal, NamedTuple, NoReturn

from kfm.cli import DEFAULTS
from kfm.cli.commands import load
from kfm.cli.parser import EXIT_TEXT, Usage
from kfm.errors import EXIT_CODES
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest


class Flag(NamedTuple):
    """`--name`, `--name VALUE`, or `--name VALUE` any number of times."""

    name: str
    takes: Literal["nothing", "one", "many"] = "nothing"
    fallback: Any = False


HELP_FLAGS = ("-h", "--help")
EVERYWHERE = (
    Flag("--config", "one", None), Flag("--json"), Flag("--quiet"), Flag("--no-color"), Flag("--verbose"),
)  # fmt: skip
FLAGS: dict[str, tuple[Flag, ...]] = {
    "": (Flag("--version"), *EVERYWHERE),
    "run": (
        Flag("--dry-run"), Flag("--window", "one", ""), Flag("--force"),
        Flag("--allow-deletions", "one", None), Flag("--abandon"), Flag("--artifacts", "one", None),
        Flag("--exit-code"), Flag("--reason", "one", ""), Flag("--actor", "one", None), *EVERYWHERE,
    ),
    "webhook": EVERYWHERE,
    "webhook verify": (Flag("--body", "one", "-"), Flag("--header", "many", ()), *EVERYWHERE),
}  # fmt: skip
COMMANDS: dict[str, tuple[str, ...]] = {"": ("run", "webhook"), "webhook": ("verify",)}
HANDLERS = {"run": ("run", "run"), "webhook verify": ("webhooks", "verify")}

_EVERYWHERE_TEXT = """\
everywhere:
  -h, --help        show this help
  --config FILE     kfm.yml to use (default: the nearest one upward)
  --json            write JSON to stdout
  --quiet           nothing on stderr but errors
  --no-color        no colours (NO_COLOR works too)
  --verbose         a line on stderr for every event
"""
_CODES = "".join(f"  {code:>3}  {EXIT_TEXT[name]}\n" for name, code in EXIT_CODES.items())
HELP = {
    "": f"""\
usage: updater [--version] COMMAND ...

Runs what kfm.yml declares: fetch, check, plan, execute, commit.

commands:
  run               update datasets
  webhook           look at what a webhook sends

options:
  --version         print the version

{_EVERYWHERE_TEXT}
exit codes:
{_CODES}
stdout is data, stderr is for people; --json makes the data JSON.
""",
    "run": f"""\
usage: updater run [DATASET ...] [options]

Update datasets: fetch, check, plan, execute, commit.
A run over unchanged inputs is a NOOP. What it makes is processed, not published: see `kfm publish`.

  DATASET           its name in kfm.yml (default: all)

options:
  --dry-run         do the work, change nothing, tell what would change
  --window W        the days meant: 2026-01-01/2026-01-31, or P30D to today
  --force           run again although nothing changed; needs --reason
  --allow-deletions N  let at most N keys go, whatever the deletion budget; needs --reason
  --abandon         end an unfinished run of the same work and begin anew; needs --reason
  --artifacts DIR   write the artifacts of the run here
  --exit-code       exit 10 if nothing changed
  --reason TEXT     why; goes into the ledger
  --actor NAME      who; default KFM_ACTOR or the user's name

{_EVERYWHERE_TEXT}""",
    "webhook": f"""\
usage: updater webhook COMMAND ...

Look at what a webhook sends.

commands:
  verify            tell whether the door would take a request now, and why not

{_EVERYWHERE_TEXT}""",
    "webhook verify": f"""\
usage: updater webhook verify SOURCE [options]

Tell whether the door would take a request now, and why not.

  SOURCE            its name under `webhooks:`

options:
  --body FILE       the raw body (default: stdin)
  --header H        'Name: value'; may be repeated

{_EVERYWHERE_TEXT}""",
}


def parse(argv: list[str]) -> argparse.Namespace:
    """What was typed. Flags for everywhere may stand before or after the command; after --help it exits with 0."""
    return _Typed(argv).all()


class _Typed:
    """The words, one after the other. `scope` is the command so far."""

    def __init__(self, argv: list[str]) -> None:
        self.words = argv
        self.at = 0
        self.scope = ""
        self.found: dict[str, Any] = {**DEFAULTS, "version": False, "command": None, "handler": ""}
        self.plain: list[str] = []  # words that are neither flags nor commands
        self.unknown: list[str] = []

    def all(self) -> argparse.Namespace:
        only_plain = False
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word == "--" and not only_plain:
                only_plain = True
            elif only_plain or not self._is_flag(word):
                self._plain(word)
            else:
                self._flag(word)
        self._complete()
        return argparse.Namespace(**self.found, help_text=HELP[self.scope])

    def _refuse(self, message: str, hint: str = "") -> NoReturn:
        raise Usage(message, hint=hint or f"see `{self._door()} --help`")

    def _door(self) -> str:
        return f"updater {self.scope}".rstrip()

    def _known(self, name: str) -> Flag | None:
        return next((flag for flag in FLAGS[self.scope] if flag.name == name), None)

    def _is_flag(self, word: str) -> bool:
        """A dash and a number is a value, and so is what begins with a dash and holds a space."""
        if not word.startswith("-") or len(word) == 1:
            return False
        if word in HELP_FLAGS or self._known(word.partition("=")[0]):
            return True
        return not re.match(r"-(?:[0-9]+|[0-9]*\.[0-9]+)\Z", word) and " " not in word

    def _flag(self, word: str) -> None:
        if word in HELP_FLAGS:
            sys.stdout.write(HELP[self.scope])
            raise SystemExit(0)
        name, equals, text = word.partition("=")
        flag = self._known(name)
        if flag is None:
            self.unknown.append(word)
            return
        key = name.removeprefix("--").replace("-", "_")
        if flag.takes == "nothing":
            if equals:
                self._refuse(f"argument {name}: ignored explicit argument {printable(text)}")
            self.found[key] = True
            return
        if not equals:
            if self.at == len(self.words) or self.words[self.at] == "--" or self._is_flag(self.words[self.at]):
                self._refuse(f"argument {name}: expected one argument")
            text = self.words[self.at]
            self.at += 1
        self.found[key] = text if flag.takes == "one" else [*self.found[key], text]

    def _plain(self, word: str) -> None:
        known = COMMANDS.get(self.scope)
        if known is None:
            self.plain.append(word)
            return
        if word not in known:
            close = nearest(word, list(known))
            hint = f"did you mean {close}?" if close else ""
            self._refuse(f"{self._door()} has no command {printable(word, 40)}", hint)
        self.found["command" if not self.scope else "subcommand"] = word
        self.scope = f"{self.scope} {word}".lstrip()
        for flag in FLAGS[self.scope]:
            key = flag.name.removeprefix("--").replace("-", "_")
            self.found.setdefault(key, list(flag.fallback) if flag.takes == "many" else flag.fallback)

    def _complete(self) -> None:
        if self.scope == "webhook":
            self._refuse("the following arguments are required: COMMAND")
        if self.scope == "webhook verify":
            if not self.plain:
                self._refuse("the following arguments are required: SOURCE")
            self.found["source"] = self.plain[0]
            self.unknown += self.plain[1:]
        if self.unknown:
            self._unrecognized()
        if self.scope == "run":
            self.found["dataset"] = self.plain
        if self.scope in HANDLERS:
            command, name = HANDLERS[self.scope]
            self.found["handler"] = getattr(load(command), name)

    def _unrecognized(self) -> NoReturn:
        flags = {flag.name.removeprefix("--").replace("-", "_"): flag.name for flag in FLAGS[self.scope]}
        flags["help"] = "--help"
        words = [word.partition("=")[0].lstrip("-") for word in self.unknown if word.startswith("-")]
        close = nearest(words[0], sorted(flags)) if words else ""
        hint = f"did you mean {flags[close]}?" if close else ""
        self._refuse(f"unrecognized arguments: {printable(' '.join(self.unknown), 100)[1:-1]}", hint)
