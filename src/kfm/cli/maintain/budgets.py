"""kfm budgets: how many retries each operation has left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.maintenance.retry_control import BUDGET_ACTIONS, BudgetRow, budget_rows
from kfm.app.runs.execution import Outcome, settle
from kfm.app.session.input_checks import one_line
from kfm.cli.session import Tally, opened, person
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen

MORE = """\
All processes share them. A retry takes a token; successes and time give some back. `close NAME` grants no retry until
`reset NAME`, which also fills a budget. Exit 69 if a budget is spent or closed."""


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "what", nargs="?", choices=tuple(BUDGET_ACTIONS), metavar="close|reset", help="change one by hand"
    )
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="which, e.g. step/rain-gauges")
    parser.add_person(wants_reason=True)
    parser.set_defaults(handler=budgets)


def budgets(options: argparse.Namespace, screen: Screen) -> int:
    if options.what:
        return _change(options, screen)
    with opened(options, screen, "read") as session:
        rows = budget_rows(session)
    if screen.json:
        screen.data(rows)
    else:
        shown = [
            (row.budget, row.state, f"{row.tokens:g} of {row.of:g}", row.granted, row.since, row.why, row.who)
            for row in rows
        ]
        screen.table(("budget", "state", "tokens", "granted", "since", "why", "who"), shown)
        if not rows:
            screen.say("no retry budget was used yet")
    is_closed = any(row.state != "granting" for row in rows)
    return EXIT_CODES["unavailable"] if is_closed else EXIT_CODES["done"]


def _change(options: argparse.Namespace, screen: Screen) -> int:
    name, who, tally = one_line("NAME", options.name), person(options), Tally(screen)
    with opened(options, screen, "write") as session:
        row, receipt = BUDGET_ACTIONS[options.what](session, name, **who)
        settle(session, Outcome([receipt]), tally)
    if screen.json:
        screen.data(row)
    else:
        assert isinstance(row, BudgetRow)
        screen.line(f"{row.budget}: {row.state}, {row.tokens:g} of {row.of:g} tokens")
    return tally.code
