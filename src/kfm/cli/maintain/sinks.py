"""kfm sinks: how far each sink has been notified, and what it refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.maintenance.maintenance_records import retry_sink
from kfm.app.metadata.ledger_sinks import sink_progress
from kfm.app.runs.execution import Outcome, settle
from kfm.app.session.input_checks import one_line
from kfm.cli.session import Tally, opened, person
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen


MORE = """\
`kfm sinks retry NAME` notifies a sink now, whatever stopped it, and repeats what it refused.
Exit 69 if a sink is stopped or has refused something."""


def arguments(parser: Parser) -> None:
    parser.add_argument("what", nargs="?", choices=("retry",), metavar="retry", help="notify a sink now")
    parser.add_argument("sink", nargs="?", default="", metavar="NAME", help="which, e.g. catalog")
    parser.add_person(reason="notified by an operator")
    parser.set_defaults(handler=sinks)


def sinks(options: argparse.Namespace, screen: Screen) -> int:
    if options.what:
        return _retry(options, screen)
    with opened(options, screen, "read") as session:
        found = sink_progress(session)
    if screen.json:
        screen.data(
            [
                {
                    "sink": each.name,
                    "cursor": each.cursor,
                    "newest": each.newest,
                    "lag": each.lag,
                    "waiting": each.waiting,
                    "stopped": each.stopped,
                    "dead": each.dead,
                }
                for each in found
            ]
        )
    else:
        rows = [
            (each.name, each.cursor, each.lag, len(each.dead), each.stopped.message if each.stopped else "")
            for each in found
        ]
        screen.table(("sink", "reported up to", "behind", "refused", "kept by"), rows)
        for each in found:
            for letter in each.dead:
                screen.say(
                    f"{each.name}: entry {letter.index} ({letter.run_id}) since {letter.since}: {letter.message}"
                )
        if not found:
            screen.say("no sink is configured")
    bad = any(each.stopped is not None or each.dead for each in found)
    return EXIT_CODES["unavailable"] if bad else EXIT_CODES["done"]


def _retry(options: argparse.Namespace, screen: Screen) -> int:
    name, who = one_line("NAME", options.sink), person(options)
    tally = Tally(screen)
    with opened(options, screen, "write") as session:
        problems, receipts = retry_sink(session, name, **who)
        if receipts and not problems:
            settle(session, Outcome(receipts), tally)
        how = next(each for each in sink_progress(session) if each.name == name)
    for problem in problems:
        screen.fail(str(problem))
    if screen.json:
        screen.data({"sink": name, "cursor": how.cursor, "lag": how.lag, "stopped": how.stopped, "dead": how.dead})
    else:
        screen.line(f"{name}: notified up to {how.cursor}, {how.lag} behind, {len(how.dead)} refused")
    if problems:
        return problems[0].exit_code
    return EXIT_CODES["unavailable"] if how.dead else EXIT_CODES["done"]
