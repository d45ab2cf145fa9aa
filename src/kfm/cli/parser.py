"""What can be typed. Commands name their handler as `module:function`; it is imported when it is used."""

from __future__ import annotations

import argparse
import os
from typing import Any, NoReturn

from kfm.cli import (
    beginning,
    cataloguing,
    discovering,
    elsewhere,
    glancing,
    governing,
    lineages,
    parting,
    promotions,
    questions,
    timing,
)
from kfm.cli.plainly import DEFAULTS as DEFAULTS
from kfm.errors import EXIT_CODES, KfmError

EXIT_TEXT = {
    "done": "done; a NOOP too, unless --exit-code is given",
    "failed": "the run failed, or an internal error",
    "usage": "the command line is wrong",
    "refused": "the input, the data or the plan is refused: fix it",
    "denied": "a gate says no: ask someone",
    "sovereignty": "those whose data it is have a say, and have not given it: ask them",
    "frozen": "a switch is set: wait for the thaw",
    "busy": "another worker has it, or the world moved: look again",
    "noop": "nothing changed (only with --exit-code)",
    "corrupt": "stored bytes are not what was stored",
    "unavailable": "a source or service does not answer: retry later",
    "storage": "the disk said no; nothing more was acknowledged",
}

COMMANDS = frozenset(
    {
        "attest", "audit", "cat", "compact", "completion", "config", "doctor", "freeze", "held", "init", "plan",
        "promote", "publish", "receipts", "refs", "resume", "rollback", "run", "runs", "schema", "serve", "telemetry",
        "thaw", "triggers", "verify", "wal", "watch", "webhook", "workflow", *beginning.COMMANDS, *cataloguing.COMMANDS,
        *discovering.COMMANDS, *elsewhere.COMMANDS, *glancing.COMMANDS, *governing.COMMANDS, *lineages.COMMANDS,
        *parting.COMMANDS, *promotions.COMMANDS, *questions.COMMANDS, *timing.COMMANDS,
    }
)  # fmt: skip


class Usage(KfmError):
    """The command line itself is wrong."""

    code = "usage"
    exit_code = 2


class Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse makes one for every argument; asking for the width each time would load shutil and be slow."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=_width())


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:4]) >= 40:
        return int(columns[:4])
    return 100


class Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", Formatter)
        super().__init__(**options)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from kfm.parsing.characters import printable
        from kfm.parsing.record_shape import nearest

        known = [str(choice) for choice in action.choices]
        what = "command" if isinstance(action, argparse._SubParsersAction) else (action.metavar or action.dest)
        close = nearest(str(value), known)
        hint = f"did you mean {close}?" if close else f"see `{self.prog} --help`"
        raise Usage(f"{self.prog} has no {str(what).lower()} {printable(str(value), 40)}", hint=hint)

    def error(self, message: str) -> NoReturn:
        raise Usage(message, hint=f"see `{self.prog} --help`")


def parse(argv: list[str]) -> argparse.Namespace:
    """Global flags may stand before or after the command."""
    parser = build(_command_in(argv))
    options, unknown = parser.parse_known_args(argv, argparse.Namespace(**DEFAULTS))
    if unknown:
        raise _unrecognized(parser, options.command, unknown)
    return options


def _unrecognized(parser: argparse.ArgumentParser, command: str | None, unknown: list[str]) -> Usage:
    from kfm.parsing.characters import printable
    from kfm.parsing.record_shape import nearest

    flags = {flag.lstrip("-").replace("-", "_"): flag for flag in _flags(parser)}
    words = [word.partition("=")[0].lstrip("-") for word in unknown if word.startswith("-")]
    close = nearest(words[0], sorted(flags)) if words else ""
    hint = f"did you mean {flags[close]}?" if close else f"see `{f'kfm {command}' if command else 'kfm'} --help`"
    return Usage(f"unrecognized arguments: {printable(' '.join(unknown), 100)[1:-1]}", hint=hint)


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    """Every flag of the parser and of those below it."""
    found = {flag for action in parser._actions for flag in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                found |= _flags(child)
    return found


def _command_in(argv: list[str]) -> str:
    """The command that is meant, if that is plain: then the parsers of the others need not be built."""
    if "-h" in argv or "--help" in argv:
        return ""
    word = next((word for word in argv if not word.startswith("-")), "")
    return word if word in COMMANDS and "--config" not in argv[: argv.index(word)] else ""


class _Skipped:
    """Takes the place of a parser that is not needed now."""

    def __getattr__(self, _name: str) -> _Skipped:
        return self

    def __call__(self, *_arguments: Any, **_options: Any) -> _Skipped:
        return self


class _Commands:
    """Adds parsers, or only the one that is needed."""

    def __init__(self, real: Any, only: str) -> None:
        self._real = real
        self._only = only

    def add_parser(self, name: str, **options: Any) -> Any:
        return self._real.add_parser(name, **options) if self._only in ("", name) else _Skipped()


def build(only: str = "") -> Parser:
    codes = "\n".join(f"  {code:>3}  {EXIT_TEXT[name]}" for name, code in EXIT_CODES.items())
    parser = Parser(
        prog="kfm",
        description="Keeps open data true while it changes: planned, journaled, proved and reversible updates.",
        epilog=f"exit codes:\n{codes}\n\nstdout is data, stderr is for people; --json makes the data JSON.",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    _add_globals(parser)
    real = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser, prog="kfm")
    commands = _Commands(real, only)
    _add_running(commands)
    _add_reading(commands)
    _add_moving(commands)
    _add_receiving(commands)
    _add_keeping(commands)
    _add_proving(commands)
    _add_settings(commands)
    if only in ("", *beginning.COMMANDS):
        beginning.add(commands, _command)
    if only in ("", *glancing.COMMANDS):
        glancing.add(commands, _command)
    if only in ("", *cataloguing.COMMANDS):
        cataloguing.add(commands, _command, _group)
    if only in ("", *elsewhere.COMMANDS):
        elsewhere.add(commands, _command, _group)
    if only in ("", *governing.COMMANDS):
        governing.add(commands, _command, _group)
    if only in ("", *lineages.COMMANDS):
        lineages.add(commands, _command, _group)
    if only in ("", *promotions.COMMANDS):
        promotions.add(commands, _command, _group)
    if only in ("", *questions.COMMANDS):
        questions.add(commands, _command)
    if only in ("", *parting.COMMANDS):
        parting.add(commands, _command, _group)
    if only in ("", *timing.COMMANDS):
        timing.add(commands, _command, _group)
    if only in ("", *discovering.COMMANDS):
        discovering.add(commands, _command)
    return parser


def _add_globals(parser: argparse.ArgumentParser) -> None:
    # SUPPRESS: a flag that is absent after the command must not undo the one before it.
    group = parser.add_argument_group("everywhere")
    hidden: dict[str, Any] = {"default": argparse.SUPPRESS}
    group.add_argument("--config", metavar="FILE", help="kfm.yml to use (default: the nearest one upward)", **hidden)
    group.add_argument("--json", action="store_true", help="write JSON to stdout", **hidden)
    group.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="only errors; what changes something is silent if it went well",
        **hidden,
    )
    group.add_argument("--no-color", action="store_true", help="no colours (NO_COLOR works too)", **hidden)
    group.add_argument("-v", "--verbose", action="store_true", help="a line on stderr for every event", **hidden)


def _command(commands: Any, name: str, handler: str, summary: str, more: str = "") -> Parser:
    parser: Parser = commands.add_parser(name, help=summary, description=f"{summary}.\n{more}".strip())
    _add_globals(parser)
    parser.set_defaults(handler=handler)
    return parser


def _group(commands: Any, name: str, summary: str) -> Any:
    parser: Parser = commands.add_parser(name, help=summary, description=f"{summary}.")
    _add_globals(parser)
    return parser.add_subparsers(
        dest="subcommand", metavar="COMMAND", required=True, parser_class=Parser, prog=parser.prog
    )


def _add_running(commands: Any) -> None:
    init = _command(commands, "init", "starter:init", "Write a kfm.yml, an example updater and a little data")
    init.add_argument("folder", nargs="?", default=".", metavar="DIR", help="where (default: here)")
    init.add_argument(
        "--template",
        choices=("python", "csv", "geojson", "stac"),
        metavar="KIND",
        help="python (an updater), csv, geojson or stac (declared, without code); asked for at a terminal",
    )

    run = _command(
        commands,
        "run",
        "running:run",
        "Update datasets: fetch, check, plan, execute, commit",
        "A run over unchanged inputs is a NOOP. What it makes is processed, not published: see `kfm promote`.",
    )
    run.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    run.add_argument("--dry-run", action="store_true", help="do the work, change nothing, tell what would change")
    run.add_argument(
        "--window", default="", metavar="W", help="the days meant: 2026-01-01/2026-01-31, or P30D to today"
    )
    run.add_argument("--partition", default="", metavar="P", help="the part of the dataset meant, e.g. a day or a tile")
    run.add_argument("--force", action="store_true", help="run again although nothing changed; needs --reason")
    run.add_argument(
        "--allow-deletions",
        metavar="N",
        help="let at most N keys go, whatever the deletion budget; needs --reason",
    )
    run.add_argument(
        "--abandon",
        action="store_true",
        help="end an unfinished run of the same work and begin anew; needs --reason",
    )
    run.add_argument("--artifacts", metavar="DIR", help="write the artifacts of the run here")
    run.add_argument("--exit-code", action="store_true", help="exit 10 if nothing changed")
    _add_person(run)

    plan = _command(
        commands,
        "plan",
        "running:plan",
        "Show what a run would do, and how that differs from the locked plan",
    )
    plan.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    plan.add_argument("--window", default="", metavar="W", help="the part of time, as for `kfm run`")
    plan.add_argument("--partition", default="", metavar="P", help="the part of the dataset, as for `kfm run`")
    plan.add_argument(
        "--check", action="store_true", help="exit 3 if the locked plan, or another process, says otherwise"
    )

    resume = _command(commands, "resume", "running:resume", "Finish runs that were interrupted")
    resume.add_argument("run", nargs="?", metavar="RUN", help="one run (default: all unfinished ones)")


def _add_person(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; goes into the ledger")
    parser.add_argument("--actor", default=None, metavar="NAME", help="who; default KFM_ACTOR or the user's name")


def _add_reading(commands: Any) -> None:
    runs = _group(commands, "runs", "Look at runs")
    listing = _command(
        runs, "list", "reading:runs_list", "List runs: unfinished ones, then those that ended, newest first"
    )
    listing.add_argument("--limit", type=_count, default=50, metavar="N", help="how many (default: 50; 0: all)")
    listing.add_argument("--dataset", metavar="DATASET", help="only of this dataset")
    for name, summary in (("show", "Show one run"), ("steps", "Show the steps of a run and where each stands")):
        one = _command(runs, name, f"reading:runs_{name}", summary)
        one.add_argument("run", metavar="RUN", help="its id, the start of it, or `last`")

    cancel = _command(
        runs,
        "cancel",
        "scheduling:runs_cancel",
        "End a run at its next step, for good",
        "What it finished is kept, for the next run of the same work; nothing of it is committed. Exit 6 if another\n"
        "worker has it: it ends there.",
    )
    cancel.add_argument("run", metavar="RUN", help="its id, the start of it, or `last`")
    _add_person(cancel)
    governing.add_signing(cancel)

    refs = _group(commands, "refs", "Look at what is published where")
    listing = _command(refs, "list", "reading:refs_list", "List refs and the versions they point to")
    listing.add_argument("prefix", nargs="?", default="", metavar="PREFIX", help="e.g. published/")
    history = _command(refs, "history", "reading:refs_history", "Show every move of a ref, oldest first")
    history.add_argument("ref", metavar="REF", help="e.g. processed/noaa-stations")

    cat = _command(
        commands,
        "cat",
        "reading:cat",
        "Write data to stdout",
        "Without a KEY: the one entry of the version, or a list of its entries if there are several.",
    )
    cat.add_argument("ref", metavar="REF", help="e.g. published/noaa-stations, or sha256:…")
    cat.add_argument(
        "key",
        nargs="?",
        metavar="KEY",
        help='one entry of the version, its parts joined by /, or as a JSON list: \'["a","b/c"]\'',
    )

    held = _command(commands, "held", "reading:held", "Show what is held back of a dataset, and why")
    held.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    held.add_argument("--rows", action="store_true", help="the held rows themselves, a line of JSON each")

    receipts = _group(commands, "receipts", "Look at receipts")
    listing = _command(receipts, "list", "reading:receipts_list", "List receipts, newest first")
    listing.add_argument("--limit", type=_count, default=50, metavar="N", help="how many (default: 50; 0: all)")
    show = _command(receipts, "show", "reading:receipts_show", "Show the receipt of a run")
    show.add_argument("run", metavar="RUN", help="its id, the start of it, or `last`")
    show.add_argument("--worker", action="store_true", help="as JSON, in the words that workers exchange")


def _add_moving(commands: Any) -> None:
    for name, summary, thing in (
        ("promote", "Publish the processed version of a dataset, if every check says yes", "DATASET"),
        ("rollback", "Move a ref back to an earlier version, once; any other move is asked for by name", "DATASET"),
        ("freeze", "Stop everything, or one dataset: no new effect starts after this returns", "SCOPE"),
        ("thaw", "Open what was frozen", "SCOPE"),
    ):
        parser = _command(commands, name, f"moving:{name}", summary)
        if thing == "DATASET":
            parser.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
        else:
            parser.add_argument(
                "dataset", nargs="?", default="global", metavar="SCOPE", help="a dataset, or `global` (default)"
            )
        parser.add_argument("--dry-run", action="store_true", help="only tell what would move")
        _add_person(parser)
        governing.add_signing(parser)
        if name == "rollback":
            parser.add_argument(
                "--to",
                default=None,
                metavar="DIGEST",
                help="the version, or the start of its digest (default: the one before); `nothing` withdraws it",
            )
            parser.add_argument(
                "--from",
                dest="leaves",
                default=None,
                metavar="DIGEST",
                help="only if the ref is at this version now, or at `nothing`",
            )
            parser.add_argument("--ref", default=None, metavar="REF", help="the ref (default: published/DATASET)")

    publish = _command(
        commands,
        "publish",
        "moving:publish",
        "Compare what is outside with what the refs say, or make it so again",
        "No ref moves. What is missing, altered or foreign is named; foreign is also what was withdrawn.",
    )
    publish.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    way = publish.add_mutually_exclusive_group(required=True)
    way.add_argument("--check", action="store_true", help="only tell; exit 3 if something is not as it should be")
    way.add_argument("--repair", action="store_true", help="write what is missing or altered, remove what is foreign")


def _add_receiving(commands: Any) -> None:
    watch = _command(
        commands,
        "watch",
        "receiving:watch",
        "Look at sources as they change, and run what waits",
        "Every source is looked at by its poll_s; a change, a webhook or a thaw makes one run. Stop it with Ctrl-C.",
    )
    watch.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    watch.add_argument("--once", action="store_true", help="look at every source once, run what waits, end")

    serve = _group(commands, "serve", "Listen for others")
    hooks = _command(
        serve,
        "webhooks",
        "receiving:serve_webhooks",
        "Take signed requests at /webhooks/SOURCE; each is durable before it is answered",
        "Runs nothing itself: `kfm watch` runs what waits, or `kfm resume` once.",
    )
    hooks.add_argument("--host", default="127.0.0.1", metavar="HOST", help="where to listen (default: 127.0.0.1)")
    hooks.add_argument("--port", type=_port, default=8750, metavar="N", help="default: 8750; 0: any free one")
    hooks.add_argument("--tls-cert", metavar="FILE", help="certificate, PEM")
    hooks.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    hooks.add_argument("--behind-proxy", action="store_true", help="a proxy before us ends TLS")

    webhook = _group(commands, "webhook", "Look at what a webhook sends")
    for name, summary in (
        ("sign", "Write the headers a sender would give with a body"),
        ("verify", "Tell whether the door would take a request now, and why not"),
        ("replay", "Take a request that came while nobody listened, up to keep_days ago"),
    ):
        one = _command(webhook, name, f"receiving:{name}", summary)
        one.add_argument("source", metavar="SOURCE", help="its name under `webhooks:`")
        one.add_argument("--body", default="-", metavar="FILE", help="the raw body (default: stdin)")
        if name == "sign":
            one.add_argument("--id", default="", metavar="TEXT", help="standard: the id of the message")
        else:
            one.add_argument(
                "--header", action="append", default=[], metavar="H", help="'Name: value'; may be repeated"
            )

    triggers = _group(commands, "triggers", "Look at what asked for a run")
    listing = _command(triggers, "list", "receiving:triggers_list", "List triggers that wait")
    listing.add_argument("--all", action="store_true", help="those that ended too, newest first")
    listing.add_argument(
        "--limit", type=_count, default=50, metavar="N", help="how many of those (default: 50; 0: all)"
    )
    for name, summary in (("show", "Show one trigger"), ("retry", "Run a trigger now, again if it ended")):
        one = _command(triggers, name, f"receiving:triggers_{name}", summary)
        one.add_argument("trigger", metavar="TRIGGER", help="its id, see `kfm triggers list`")


def _add_keeping(commands: Any) -> None:
    wal = _group(commands, "wal", "The write-ahead log")
    export = _command(wal, "export", "keeping:wal_export", "Write the log of a run to stdout")
    export.add_argument("run", metavar="RUN", help="its id, the start of it, or `last`")
    export.add_argument(
        "--format", choices=("json", "avro", "parquet"), default="json", help="default: json, a line a record"
    )

    telemetry = _group(commands, "telemetry", "What runs cost")
    export = _command(
        telemetry,
        "export",
        "keeping:telemetry_export",
        "Write the telemetry of every run to releases/VERSION/updater-telemetry.json beside kfm.yml",
    )
    export.add_argument("--stdout", action="store_true", help="to stdout instead")

    _command(
        commands, "compact", "keeping:compact", "Move finished journals into an archive that answers the same questions"
    )

    doctor = _command(
        commands, "doctor", "keeping:doctor", "Check the configuration, the store and whether the disk keeps its word"
    )
    doctor.add_argument("--deep", action="store_true", help="read every object and compare it with its digest")
    doctor.add_argument("--i-accept", action="store_true", help="weak storage is no failure, as if accepted in kfm.yml")


def _add_proving(commands: Any) -> None:
    audit = _group(commands, "audit", "The ledger, and what proves it to others")
    verify = _command(
        audit,
        "verify",
        "proving:audit_verify",
        "Verify the whole ledger: chain, tree, receipts, signed checkpoints",
        "exit: 0 intact, 65 tampered, 66 cut off or forked, 67 badly signed, 68 not covered by a checkpoint",
    )
    verify.add_argument("file", nargs="?", default="", metavar="FILE", help="an export (default: the ledger itself)")
    verify.add_argument(
        "--checkpoint", action="append", default=[], metavar="FILE", help="one that was kept elsewhere; may be repeated"
    )
    verify.add_argument("--key", default="", metavar="KEY", help="name+hint+key to believe, instead of our own")
    prove = _command(audit, "prove", "proving:audit_prove", "Write a proof to stdout that an entry is in the ledger")
    prove.add_argument("entry", metavar="RUN", help="the run's id, the start of it, `last`, or the entry's number")
    prove.add_argument(
        "--open", action="store_true", help="also what the entry only commits to, if the custodian's key is at hand"
    )
    growth = _command(
        audit,
        "consistency",
        "proving:audit_consistency",
        "Write a proof to stdout that an older ledger is the beginning of a newer one",
    )
    growth.add_argument("old", metavar="OLD", help="how many entries it had, or a file with its checkpoint")
    growth.add_argument("new", nargs="?", default="", metavar="NEW", help="the same (default: the last checkpoint)")
    export = _command(
        audit,
        "export",
        "proving:audit_export",
        "Write the ledger to docs/reports/audit/data_provenance_ledger.json beside kfm.yml",
        "Its lines are the entries to the byte. Signs a checkpoint first, if ledger.sign_with is set.",
    )
    export.add_argument("--out", default="", metavar="FILE", help="into this file instead")
    export.add_argument("--stdout", action="store_true", help="to stdout instead; signs nothing")

    attest = _command(
        commands, "attest", "proving:attest", "Sign what is known of a version: in-toto statements, kept in the state"
    )
    attest.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    verify = _command(
        commands,
        "verify",
        "proving:verify",
        "Verify a version, or a file of attestations, without a network",
        "Of a version: every object, what was signed about it, and its entry in the ledger.\n"
        "exit: 0 all is so, 65 something was altered, 67 badly signed, 68 not attested or not covered",
    )
    verify.add_argument(
        "what", metavar="DATASET", help="its name in kfm.yml, a file that was published, or one of envelopes"
    )
    verify.add_argument("--key", default="", metavar="HEX", help="the public key to believe, instead of our own")
    for parser in (attest, verify):
        parser.add_argument(
            "--version", dest="of", default="", metavar="VERSION",
            help="its digest, the start of it, `processed` or `published` (default: published, else processed)",
        )  # fmt: skip
    attest.add_argument("--out", default="", metavar="FILE", help="write the envelopes here too, a line each")


def _add_settings(commands: Any) -> None:
    config = _group(commands, "config", "Look at the configuration")
    show = _command(config, "show", "settings:config_show", "Show the settings and where each comes from")
    show.add_argument("--resolved", action="store_true", help="defaults too, not only what was set")

    schema = _command(commands, "schema", "settings:schema", "Write a JSON Schema to stdout, or list their names")
    schema.add_argument("name", nargs="?", metavar="NAME", help="e.g. config or receipt")

    workflow = _group(commands, "workflow", "Write what runs this installation elsewhere")
    github = _command(
        workflow,
        "github",
        "settings:workflow_github",
        "Write a GitHub workflow to stdout: by the clock, by an event and by hand",
        "e.g.  kfm workflow github > .github/workflows/updater.yml",
    )
    github.add_argument("--cron", default="17 * * * *", metavar="CRON", help='when (default: "17 * * * *")')

    completion = _command(
        commands,
        "completion",
        "settings:completion",
        "Write a completion script for a shell to stdout",
        'e.g.  eval "$(kfm completion bash)"\n'
        "The scripts ask back for names: `kfm completion datasets` (or refs, runs, schedules) lists them.",
    )
    shells = ("bash", "zsh", "fish", "datasets", "refs", "runs", "schedules")
    completion.add_argument("shell", choices=shells, metavar="SHELL", help="bash, zsh or fish; or a kind of names")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError("must be a whole number")
    return int(text)


def _port(text: str) -> int:
    if _count(text) > 65535:
        raise argparse.ArgumentTypeError("must be at most 65535")
    return int(text)
