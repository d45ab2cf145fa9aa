"""kfm breakers: which operations are refused at once because they kept failing, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.maintenance.retry_control import BREAKER_ACTIONS, BreakerRow, breaker_rows
from kfm.app.runs.execution import Outcome, settle
from kfm.app.session.input_checks import one_line
from kfm.cli.session import Tally, opened, person
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen

MORE = """\
All processes share them. An open breaker makes no call; after a pause one call is let through, and closes it if it
succeeds. `open NAME` refuses all calls until `close NAME`. Exit 69 if a breaker is open."""


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "what", nargs="?", choices=tuple(BREAKER_ACTIONS), metavar="open|close", help="change one by hand"
    )
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="which, e.g. source/example.org")
    parser.add_person(wants_reason=True)
    parser.set_defaults(handler=breakers)


def breakers(options: argparse.Namespace, screen: Screen) -> int:
    if options.what:
        return _change(options, screen)
    with opened(options, screen, "read") as session:
        rows = breaker_rows(session)
    if screen.json:
        screen.data(rows)
    else:
        shown = [(row.breaker, row.state, row.since, row.until, row.failures, row.why, row.who) for row in rows]
        screen.table(("breaker", "state", "since", "until", "failures", "why", "who"), shown)
        if not rows:
            screen.say("no source is retried; see `network: {retries: …}`")
    is_open = any(row.state != "closed" for row in rows)
    return EXIT_CODES["unavailable"] if is_open else EXIT_CODES["done"]


def _change(options: argparse.Namespace, screen: Screen) -> int:
    name, who, tally = one_line("NAME", options.name), person(options), Tally(screen)
    with opened(options, screen, "write") as session:
        row, receipt = BREAKER_ACTIONS[options.what](session, name, **who)
        settle(session, Outcome([receipt]), tally)
    if screen.json:
        screen.data(row)
    else:
        assert isinstance(row, BreakerRow)
        screen.line(f"{row.breaker}: {row.state}")
    return tally.code
