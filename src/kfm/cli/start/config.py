"""kfm config: settings, schemas and shell completion."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from kfm import config
from kfm.cli.parser import build
from kfm.cli.render import MOST_SHOWN, Screen
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.parsing import record_shape
from kfm.parsing.characters import printable
from kfm.parsing.documents import dotted

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    shown = parser.command("show", config_show, "Show the settings and where each comes from")
    shown.add_argument("--resolved", action="store_true", help="defaults too, not only what was set")
    shown.add_argument("--run", metavar="RUN", help="those that a run recorded for its dataset; `last` works too")
    parser.command("check", config_check, "List all mistakes of kfm.yml and of the files it names")
    schemas = parser.command("schema", schema, "Write a JSON Schema to stdout, or list their names")
    schemas.add_argument("name", nargs="?", metavar="NAME", help="e.g. config or receipt")
    completed = parser.command(
        "completion",
        completion,
        "Write a completion script for a shell to stdout",
        'e.g.  eval "$(kfm config completion bash)"\n'
        "The scripts query names: `kfm config completion datasets` (or refs, runs, schedules) lists them.",
    )
    shells = ("bash", "zsh", "fish", "datasets", "refs", "runs", "schedules")
    completed.add_argument("shell", choices=shells, metavar="SHELL", help="bash, zsh or fish; or a kind of names")


def config_check(options: argparse.Namespace, screen: Screen) -> int:
    """Return 0 and print one line if there is no mistake; else print each mistake with its place and its cure, and
    return 3."""
    from kfm.app.maintenance.config_check import check

    report = check(options.config, os.environ)
    if screen.json:
        mistakes = [each._asdict() for each in report.mistakes]
        screen.data({"path": report.path, "files": report.files, "mistakes": mistakes})
    for mistake in () if screen.json else report.mistakes[:MOST_SHOWN]:
        screen.fail(str(mistake))
    if not screen.json and len(report.mistakes) > MOST_SHOWN:
        screen.fail(f"{len(report.mistakes) - MOST_SHOWN:,} more mistakes; correct these first, or see all with --json")
    if not report.mistakes and not screen.json:
        screen.line(f"no mistakes in {', '.join(report.files)}")
    return BadInput.exit_code if report.mistakes else 0


def config_show(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.cli import session

    resolved = session.settings(options)
    if options.run is not None:
        return _show_recorded(options, screen)
    origins = dict(resolved.origins)
    values = {dotted(path): value for path, value in config.leaves(resolved.shown(), ())}
    for key in values:
        said = key.removesuffix("contract.format") + "format"
        if key.endswith(".contract.format") and options.resolved and values.get(said) is not None:
            values[key], origins[key] = values[said], origins[said]  # one value sets both keys
    rows = [
        (key, value, origins[key]) for key, value in values.items() if options.resolved or origins[key] != "default"
    ]
    if screen.json:
        settings = {key: {"value": value, "origin": origin} for key, value, origin in rows}
        screen.data({"path": resolved.path, "root": resolved.root, "settings": settings})
        return 0
    screen.say(f"read from {resolved.path}")
    screen.table(("setting", "from", "value"), [(key, origin, _text(value)) for key, value, origin in rows])
    return 0


def _show_recorded(options: argparse.Namespace, screen: Screen) -> int:
    """Show the settings of its dataset that a run recorded."""
    from kfm.app.runs.queries import find_run
    from kfm.app.session.recorded_config import recorded_of_run
    from kfm.cli import session

    resolved = session.settings(options)
    with session.opened(options, screen, "read", resolved) as opened:
        run_id = find_run(opened, options.run)
        dataset, config_hash, recorded = recorded_of_run(opened, run_id)
    usual = dict(config.leaves(msgspec.to_builtins(config.DatasetConfig()), ()))
    found = [
        (dotted(("datasets", dataset, *path)), value)
        for path, value in config.leaves(recorded, ())
        if options.resolved or value not in ("", None, [], {}, usual.get(path, ""))
    ]
    if screen.json:
        settings = {key: {"value": value, "origin": "run"} for key, value in found}
        screen.data({"path": resolved.path, "root": resolved.root, "settings": settings})
        return 0
    screen.say(f"recorded by run {run_id} as {config_hash}")
    screen.table(("setting", "from", "value"), [(key, "run", _text(value)) for key, value in found])
    return 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


def completion(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.cli.completion import SHELLS, names, script

    if options.shell in SHELLS:
        screen.text(script(options.shell, build()))
    else:
        for name in names(options, screen, options.shell):
            screen.line(name)
    return 0


def schema(options: argparse.Namespace, screen: Screen) -> int:
    """Print the schema of the configuration or of a record; without a name, print the names."""
    from kfm.model import json_schemas

    kinds = {**json_schemas.kinds(), **json_schemas.exported()}
    known = ["config", *sorted([*kinds, "backfills", "schedules", "slos"])]
    if options.name is None:
        if screen.json:
            screen.data(known)
        else:
            for name in known:
                screen.line(name)
        return 0
    if options.name not in known:
        close = record_shape.nearest(options.name, known)
        hint = f"did you mean {close}?" if close else "`kfm config schema` lists them"
        raise BadInput(f"there is no schema {printable(options.name)}", hint=hint)
    if options.name == "config":
        screen.data(config.json_schema())
    elif options.name == "backfills":
        from kfm.config import backfill_files

        screen.data(backfill_files.json_schema())
    elif options.name == "schedules":
        from kfm.config import schedule_files

        screen.data(schedule_files.json_schema())
    elif options.name == "slos":
        from kfm.config import objective_files

        screen.data(objective_files.json_schema())
    else:
        screen.data(json_schemas.schema_of(kinds[options.name], options.name))
    return 0
