"""kfm sinks: how far each sink has been notified, what it refused, and a test of the receivers of notices."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kfm.app.maintenance.maintenance_records import retry_sink
from kfm.app.maintenance.receiver_trial import try_receivers
from kfm.app.metadata.ledger_sinks import sink_progress
from kfm.app.runs.execution import Outcome, settle
from kfm.app.session.input_checks import one_line
from kfm.cli.session import Tally, opened, person
from kfm.errors import EXIT_CODES, BadInput

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen


MORE = """\
`kfm sinks retry NAME` notifies a sink now, whatever stopped it, and repeats what it refused.
`kfm sinks test [NAME]` sends a test event to the receivers of notices, and says what they answered; with --dry-run
it shows the event and sends nothing.
Exit 69 if a sink is stopped or has refused something, or if a receiver does not take the test."""


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "what", nargs="?", choices=("retry", "test"), metavar="retry|test", help="notify a sink now, or try receivers"
    )
    parser.add_argument("sink", nargs="?", default="", metavar="NAME", help="which, e.g. catalog")
    parser.add_argument("--dry-run", action="store_true", help="with test: show the event, send nothing")
    parser.add_person(reason="notified by an operator")
    parser.set_defaults(handler=sinks)


def sinks(options: argparse.Namespace, screen: Screen) -> int:
    if options.dry_run and options.what != "test":
        raise BadInput("--dry-run is for `kfm sinks test`", hint="leave it out")
    if options.what == "test":
        return _test(options, screen)
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
                what = f"entry {letter.index} ({letter.run_id})" if letter.index > 0 else f"notice {letter.run_id}"
                screen.say(f"{each.name}: {what} since {letter.since}: {letter.message}")
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


def _test(options: argparse.Namespace, screen: Screen) -> int:
    """Send a test event to one receiver or to all, and print what each answered."""
    name, who = options.sink.removeprefix("notify."), person(options)
    with opened(options, screen, "read" if options.dry_run else "write") as session:
        found, receipts = try_receivers(session, name, sends=not options.dry_run, **who)
        if receipts:
            settle(session, Outcome(receipts), Tally(screen))
    if screen.json:
        screen.data(found)
    elif options.dry_run:
        for each in found:
            screen.line(f"{each.sink} would get {json.dumps(each.event)}")
    else:
        screen.table(
            ("sink", "answer", "took it"), [(each.sink, each.answer, "yes" if each.took_it else "no") for each in found]
        )
    failed = not options.dry_run and not all(each.took_it for each in found)
    return EXIT_CODES["unavailable"] if failed else EXIT_CODES["done"]
