"""The parser of the command line. The commands themselves are listed in `commands`, each with its module."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from kfm.cli import DEFAULTS, WAIT_LIMIT_S
from kfm.cli.commands import ALIASES, GROUPS, KNOWN, RUNNER, Command, Group, load, meant
from kfm.errors import EXIT_CODES, KfmError
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.cli.render import Screen

COMMANDS = frozenset(KNOWN)
EXIT_TEXT = {
    "done": "done; a NOOP too, unless --exit-code is given",
    "failed": "the run failed, or an internal error",
    "usage": "the command line is wrong",
    "refused": "the input, the data or the plan is refused: fix it",
    "denied": "a gate denies it: ask its owner",
    "sovereignty": "the owners of the data have a say, and have not given it: ask them",
    "frozen": "a freeze flag is set: wait for the thaw",
    "busy": "another worker has it, or the world moved: look again",
    "noop": "nothing changed (only with --exit-code)",
    "corrupt": "stored bytes are not what was stored",
    "unavailable": "a source or service does not answer: retry later",
    "storage": "the disk failed; nothing more was acknowledged",
    "interrupted": "interrupted by Ctrl-C; a run under way is left resumable",
    "pipe": "the reader of the output stopped reading",
    "terminated": "terminated by SIGTERM; a run under way is left resumable",
}
ABOUT = {
    "kfm": "KFM fetches open data, checks it, and publishes versioned copies that\n"
    "you can trace, verify and roll back.",
    "updater": "Runs what kfm.yml declares: fetch, check, plan, execute, commit.",
}
STREAMS = "stdout is data, stderr is for people; --json makes the data JSON."


class Usage(KfmError):
    """Raised if the command line itself is wrong."""

    code = "usage"
    exit_code = 2


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width. argparse makes a formatter for every argument, and to query the terminal each time is
    slow."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=_width())


class RunnerFormatter(Formatter):
    """Help of the same width in every terminal, because the Node runner prints the same text."""

    def __init__(self, prog: str) -> None:
        argparse.RawDescriptionHelpFormatter.__init__(self, prog, max_help_position=28, width=100)


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:4]) >= 40:
        return int(columns[:4])
    return 100


class Parser(argparse.ArgumentParser):
    """A parser that raises `Usage`. `is_kfm` is false for `python -m updater`, which has what both runners have."""

    def __init__(self, **options: Any) -> None:
        self.is_kfm = options.pop("is_kfm", True)
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", Formatter if self.is_kfm else RunnerFormatter)
        super().__init__(**options)
        self._below: Any = None

    def below(self, dest: str) -> Any:
        """Return the argparse action to which subcommands are added."""
        if self._below is None:
            self._below = self.add_subparsers(
                dest=dest, metavar="COMMAND", required=dest == "subcommand", parser_class=Parser, prog=self.prog
            )
        return self._below

    def command(
        self,
        name: str,
        handler: Callable[[argparse.Namespace, Screen], int],
        summary: str,
        more: str = "",
        *,
        reports: bool = False,
    ) -> Parser:
        """Add a subcommand. `reports`: its output only repeats what it did, so that --quiet silences it."""
        parser: Parser = self.below("subcommand").add_parser(
            name, help=summary, description=f"{summary}.\n{more}".strip(), is_kfm=self.is_kfm
        )
        parser.add_globals()
        parser.set_defaults(handler=handler, reports=reports)
        return parser

    def add_globals(self) -> None:
        # SUPPRESS: a flag that is absent after the command must not undo the one before it.
        group = self.add_argument_group("everywhere")
        hidden: dict[str, Any] = {"default": argparse.SUPPRESS}
        quiet, verbose = (["-q"], ["-v"]) if self.is_kfm else ([], [])
        group.add_argument(
            "--config", metavar="FILE", help="kfm.yml to use (default: the nearest one upward)", **hidden
        )
        group.add_argument("--json", action="store_true", help="write JSON to stdout", **hidden)
        group.add_argument(
            *quiet,
            "--quiet",
            action="store_true",
            help="only errors; a command that changes something is silent if it went well"
            if self.is_kfm
            else "nothing on stderr but errors",
            **hidden,
        )
        group.add_argument("--no-color", action="store_true", help="no colours (NO_COLOR works too)", **hidden)
        group.add_argument(
            *verbose, "--verbose", action="store_true", help="a line on stderr for every event", **hidden
        )

    def add_person(
        self, who: str = "who; default KFM_ACTOR or the user's name", *, reason: str = "", wants_reason: bool = False
    ) -> None:
        """Add the flags for actor and reason. An operation has the reason that is recorded by default, or wants one. A
        run has neither."""
        told = "why; goes into the ledger"
        if reason or wants_reason:
            told += f" (default: KFM_REASON, else `{reason}`)" if reason else "; required, here or as KFM_REASON"
            self.set_defaults(default_reason=reason)
        self.add_argument("--reason", default="", metavar="TEXT", help=told)
        self.add_argument("--actor", default=None, metavar="NAME", help=who)

    def add_wait(self) -> None:
        """Add the flags of a command that can wait for the sinks."""
        self.add_argument("--wait", action="store_true", help="wait until every sink has followed; exit 69 if not")
        self.add_argument(
            "--wait-limit",
            type=count,
            default=WAIT_LIMIT_S,
            metavar="S",
            help=f"for at most so many seconds (default: {WAIT_LIMIT_S})",
        )

    def add_signing(self) -> None:
        """Add the flags of a command that people sign if there is a key list."""
        self.add_key()
        self.add_argument(
            "--days",
            type=_week,
            default=7,
            metavar="N",
            help="if others must agree: for how long (default: 7, the most)",
        )

    def add_key(self) -> None:
        self.add_argument(
            "--key",
            action="append",
            default=[],
            metavar="FILE",
            help="private key to sign with, in a file of mode 600; may be repeated",
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the options and the words that no argument takes. Names that may be repeated may stand between flags;
        argparse alone accepts them only in one place."""
        options, unknown = super().parse_known_args(args, namespace)
        at = unknown.index("--") if "--" in unknown else len(unknown)
        words = [*unknown[:at], *unknown[at + 1 :]]
        if words:
            takers = [each for each in self._get_positional_actions() if each.nargs == "*" and each.choices is None]
            if not takers or any(self._parse_optional(word) is not None for word in unknown[:at]):
                return options, unknown
            setattr(options, takers[0].dest, [*getattr(options, takers[0].dest), *words])
        return options, []

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from kfm.parsing.record_shape import nearest

        known = [str(choice) for choice in action.choices]
        what = "command" if isinstance(action, argparse._SubParsersAction) else (action.metavar or action.dest)
        close = nearest(str(value), known)
        hint = f"did you mean {close}?" if close else f"see `{self.prog} --help`"
        raise Usage(f"{self.prog} has no {str(what).lower()} {printable(str(value), 40)}", hint=hint)

    def error(self, message: str) -> NoReturn:
        raise Usage(message, hint=f"see `{self.prog} --help`")


class Root(Parser):
    """The parser of a program; its help lists the commands by group."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        for group in self._action_groups[1:]:
            formatter.start_section(group.title)
            formatter.add_arguments(a for a in group._group_actions if not isinstance(a, argparse._SubParsersAction))
            formatter.end_section()
        codes = "\n".join(f"  {code:>3}  {EXIT_TEXT[name]}" for name, code in EXIT_CODES.items())
        return (
            f"usage: {self.prog} COMMAND [ARGUMENTS]\n\n{ABOUT[self.prog]}\n\n{_overview(self.prog)}\n"
            f"{formatter.format_help()}\nexit codes:\n{codes}\n\n{STREAMS}\n"
            f"`{self.prog} COMMAND --help` explains a command.\n"
        )


def _overview(program: str) -> str:
    """Return the commands by group, a line each."""
    own = Group("commands", "", tuple(Command(name, one.summary) for name, one in RUNNER.items()))
    longest = max(map(len, _commands(program)))
    return "\n".join(
        f"{group.title}:\n" + "".join(f"  {one.name:<{longest}}  {one.summary}\n" for one in group.commands)
        for group in (GROUPS if program == "kfm" else (own,))
    )


def _commands(program: str) -> dict[str, Command]:
    """Return, for every command of a program, the command of kfm that it calls."""
    return KNOWN if program == "kfm" else RUNNER


def parse(argv: list[str], program: str = "kfm") -> argparse.Namespace:
    """Return the options that were typed after `program`. Global flags may stand before or after the command. Raise
    Usage for a wrong line, and SystemExit after --help."""
    at = _command_at(argv)
    if program == "kfm" and at >= 0 and argv[at] == "help":  # `kfm help runs show` is `kfm runs show --help`
        argv = [*argv[:at], *argv[at + 1 :], "--help"]
        at = _command_at(argv)
    name = "" if at < 0 else argv[at]
    if program == "kfm":
        name = ALIASES.get(name, name)
    if name and name not in _commands(program) and {"-h", "--help"}.isdisjoint(argv[:at]):
        raise _unknown([word for word in argv[at:] if not word.startswith("-")], program)
    if name == "publish" and not {"--check", "--repair"}.isdisjoint(argv):
        raise Usage("kfm publish has no --check and no --repair", hint="see `kfm reconcile --help`")
    parser = build(name or None, program)
    typed = [*argv[:at], name, *argv[at + 1 :]] if name else argv
    options, unknown = parser.parse_known_args(typed, argparse.Namespace(**DEFAULTS))
    if unknown:
        raise _unrecognized(parser, options.command, unknown)
    options.typed = typed
    return options


def _command_at(argv: list[str]) -> int:
    """Return the position of the command among the words; -1 if there is none."""
    for at, word in enumerate(argv):
        if word == "--" or (not word.startswith("-") and (at == 0 or argv[at - 1] != "--config")):
            return at if word != "--" else -1
    return -1


def _unknown(words: list[str], program: str) -> Usage:
    """Return the error for an unknown command. It names the command that does what the word means, or one that is
    spelled like it."""
    from kfm.parsing.record_shape import nearest

    if program == "kfm":
        by_meaning, known = meant(words), sorted((*KNOWN, *ALIASES))
    else:
        by_meaning, known = (words[0] if words[0] in KNOWN else meant(words)), sorted(RUNNER)
    if by_meaning:
        hint = f"use kfm {by_meaning}"
    else:
        close = nearest(words[0], known)
        hint = f"did you mean {close}?" if close else f"see `{program} --help`"
    return Usage(f"{program} has no command {printable(words[0], 40)}", hint=hint)


def _unrecognized(parser: argparse.ArgumentParser, command: str | None, unknown: list[str]) -> Usage:
    from kfm.parsing.record_shape import nearest

    flags = {flag.lstrip("-").replace("-", "_"): flag for flag in _flags(parser)}
    words = [word.partition("=")[0].lstrip("-") for word in unknown if word.startswith("-")]
    close = nearest(words[0], sorted(flags)) if words else ""
    asked = f"{parser.prog} {command}" if command else parser.prog
    hint = f"did you mean {flags[close]}?" if close else f"see `{asked} --help`"
    return Usage(f"unrecognized arguments: {printable(' '.join(unknown), 100)[1:-1]}", hint=hint)


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    """Return every flag of a parser and of those below it."""
    found = {flag for action in parser._actions for flag in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                found |= _flags(child)
    return found


def build(only: str | None = "", program: str = "kfm") -> Parser:
    """Return the parser of every command; with a name the parser of that one; with None that of global flags alone."""
    is_kfm = program == "kfm"
    parser = Root(prog=program, is_kfm=is_kfm)
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_globals()
    below = parser.below("command")
    for name, command in _commands(program).items():
        if only in ("", name):
            module = load(command.name)
            description = f"{command.summary}.\n{getattr(module, 'MORE', '')}".strip()
            child = below.add_parser(name, help=command.summary, description=description, is_kfm=is_kfm)
            child.add_globals()
            module.arguments(child)
    return parser


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError("must be a whole number")
    return int(text)


def port(text: str) -> int:
    if count(text) > 65535:
        raise argparse.ArgumentTypeError("must be at most 65535")
    return int(text)


def address(text: str) -> tuple[str, int]:
    """Return host and port of a text like 127.0.0.1:8750."""
    host, colon, number = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and number.isascii() and number.isdigit() and int(number) <= 65535):
        raise argparse.ArgumentTypeError("is no address: write host and port, such as 127.0.0.1:8750")
    return host, int(number)


def _week(text: str) -> int:
    if text not in ("1", "2", "3", "4", "5", "6", "7"):
        raise argparse.ArgumentTypeError("must be a number of days, from 1 to 7")
    return int(text)
