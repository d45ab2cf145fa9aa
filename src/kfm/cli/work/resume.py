"""kfm resume: finish runs that were interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.runs.execution import resume_request, work
from kfm.app.runs.queries import find_run
from kfm.cli.render import Screen
from kfm.cli.run_report import (
    show_delivered,
    show_runs,
    tell_promoted,
)
from kfm.cli.session import Tally, opened, settings

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="one run (default: all unfinished ones)")
    parser.add_argument(
        "--today", action="store_true", help="use the settings of kfm.yml, not those that a run was planned with"
    )
    parser.set_defaults(handler=resume, reports=True)


def resume(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    run_id = ""
    if options.run is not None:
        with opened(options, screen, "read", resolved) as session:
            run_id = find_run(session, options.run)
    with opened(options, screen, "write", resolved) as session:
        tally = Tally(screen)
        outcome = work(session, [resume_request(run_id, today=options.today)], tally, all_are_ours=True)
        if not (outcome.receipts or tally.errors):
            screen.say("no run was left to resume" if outcome.effects else "nothing was left to resume")
        if outcome.effects:
            show_delivered(screen, outcome.effects)
        show_runs(session, screen, tally, outcome)
        tell_promoted(session, screen, outcome)
        return tally.code
