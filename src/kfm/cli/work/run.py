"""kfm run: fetch, check, plan, execute and commit datasets."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kfm.app.session import input_checks
from kfm.app.session.input_checks import as_flag, one_line, requested_datasets
from kfm.cli import DEFAULTS, WAIT_LIMIT_S
from kfm.cli.render import Screen
from kfm.cli.run_report import (
    artifacts_folder,
    show_other_mistakes,
    show_runs,
    tell_elsewhere,
    tell_promoted,
)
from kfm.cli.session import Tally, await_sinks, opened, person, settings
from kfm.errors import BadInput
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.config import Resolved


MORE = """\
A run over unchanged inputs is a NOOP. Its result is processed, not published: see `kfm publish`."""


_PLAIN_FLAGS = {
    "--json": "json", "--quiet": "quiet", "--no-color": "no_color", "--verbose": "verbose", "--dry-run": "dry_run",
    "--exit-code": "exit_code",
}  # fmt: skip
_SHORT_FLAGS = {"-q": "quiet", "-v": "verbose"}  # flags of kfm that the runners do not have


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    parser.add_argument("--dry-run", action="store_true", help="do the work, change nothing, report what would change")
    parser.add_argument("--window", default="", metavar="W", help="days: 2026-01-01/2026-01-31, or P30D to today")
    if parser.is_kfm:
        parser.add_argument(
            "--partition", default="", metavar="P", help="one part of the dataset, e.g. a day or a tile"
        )
        parser.add_wait()
        add_jobs(parser)
    else:
        parser.set_defaults(jobs="1")
    parser.set_defaults(partition="", wait=False)
    parser.add_argument("--force", action="store_true", help="run again although nothing changed; needs --reason")
    parser.add_argument(
        "--allow-deletions", metavar="N", help="let at most N keys go, whatever the deletion budget; needs --reason"
    )
    parser.add_argument(
        "--abandon", action="store_true", help="end an unfinished run of the same work and start again; needs --reason"
    )
    parser.add_argument("--artifacts", metavar="DIR", help="write the artifacts of the run here")
    parser.add_argument("--exit-code", action="store_true", help="exit 10 if nothing changed")
    parser.add_person()
    parser.set_defaults(handler=run, reports=True)


def plain(argv: list[str], program: str = "kfm") -> argparse.Namespace | None:
    """Return the options of `run` with names and plain flags only, equal to what the parser returns; None for other
    lines. To build a parser takes longer than the run of a small file."""
    if argv[:1] != ["run"]:
        return None
    names = [word for word in argv[1:] if not word.startswith("-")]
    flags = [word for word in argv[1:] if word.startswith("-")]
    known = _PLAIN_FLAGS | _SHORT_FLAGS if program == "kfm" else _PLAIN_FLAGS
    if not all(flag in known for flag in flags) or (names and argv[1 : 1 + len(names)] != names):
        return None
    found: Any = SimpleNamespace(
        **DEFAULTS, version=False, command="run", handler=run, reports=True, dataset=names, dry_run=False, window="",
        partition="", force=False, allow_deletions=None, abandon=False, artifacts=None, exit_code=False, reason="",
        actor=None, wait=False, jobs=None if program == "kfm" else "1", typed=argv,
    )  # fmt: skip
    if program == "kfm":
        found.wait_limit = WAIT_LIMIT_S
    for flag in flags:
        setattr(found, known[flag], True)
    return found  # type: ignore[no-any-return]


def run(options: argparse.Namespace, screen: Screen) -> int:
    who = person(options)
    window = one_line("--window", options.window)
    partition = one_line("--partition", options.partition)
    overrides = set_aside(options, who["reason"])
    resolved = settings(options)
    names = requested_datasets(resolved, tuple(options.dataset), partition, as_flag, in_place=not options.dry_run)
    folder = artifacts_folder(options, resolved)
    stamp = _check_schedules(options, resolved) if screen.is_kfm else ""
    events: list[dict[str, Any]] = []
    jobs = requested_jobs(options, resolved, names)
    from kfm.app.runs.execution import run_request, work

    with opened(options, screen, "dry" if options.dry_run else "write", resolved, events) as session:
        tally = Tally(screen, tell_noop=options.exit_code)
        meant = {"window": window, "partition": partition, **overrides, **who}
        requests = [run_request(name, **meant) for name in names]
        if jobs < 2:
            outcome = work(session, requests, tally)
        else:
            from kfm.app.runs.parallel_runs import work_in_jobs

            outcome = work_in_jobs(session, requests, tally, jobs)
        if stamp and not options.dry_run:
            from kfm.app.maintenance.check_stamp import keep

            keep(resolved, stamp)
        if tally.code == BadInput.exit_code and screen.is_kfm:
            show_other_mistakes(session, tally, outcome)
        await_sinks(options, session, tally, names)
        tell_elsewhere(session, tally, outcome, events, folder)
        show_runs(session, screen, tally, outcome)
        tell_promoted(session, screen, outcome)
        return tally.code


def add_jobs(parser: Parser) -> None:
    parser.add_argument(
        "--jobs", metavar="N", help="datasets at work at a time (default: by the processors and memory; 1: one by one)"
    )


def requested_jobs(options: argparse.Namespace, resolved: Resolved, names: list[str]) -> int:
    """Return how many datasets may be at work at a time. BadInput if --jobs is not a number from 1 to 1000."""
    text = options.jobs
    if text is not None and not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= 1000):
        raise BadInput(f"--jobs {printable(text)} is not a number of jobs", hint="give a whole number from 1 to 1000")
    if text is not None or len(names) < 2:
        return int(text or 1)
    from kfm.app.runs.parallel_jobs import job_count

    return job_count(resolved.config, names)


def _check_schedules(options: argparse.Namespace, resolved: Resolved) -> str:
    """Raise BadInput, with all mistakes of the configuration, if a schedule or a backfill has one. Return the stamp of
    what was checked; "" if there was nothing new to check."""
    config = resolved.config
    folders = (config.schedules, config.backfills)
    declared = any(dataset.schedule is not None for dataset in config.datasets.values())
    if not declared and not any(os.path.lexists(resolved.at(folder)) for folder in folders):
        return ""
    from kfm.app.maintenance.check_stamp import check_before_run

    return check_before_run(resolved, options.config, os.environ)


def set_aside(options: argparse.Namespace, reason: str) -> dict[str, Any]:
    """Return the rules that this run sets aside. Raise BadInput without a reason, or if the number of deletions is not
    a number."""
    text = options.allow_deletions
    if text is not None and not (text.isascii() and text.isdigit() and len(text) <= 15 and int(text)):
        raise BadInput(
            f"--allow-deletions {printable(text)} is not a number of keys", hint="give a whole number, 1 or more"
        )
    return input_checks.checked_overrides(
        force=options.force, abandon=options.abandon, allow_deletions=int(text or 0), reason=reason, spelled=as_flag
    )
