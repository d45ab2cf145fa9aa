"""kfm report: reports for people who review an installation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from kfm.app.maintenance.quarter import FORMS, quarter_of, quarter_report
from kfm.app.provenance.explain import write_page
from kfm.cli.session import opened, settings
from kfm.errors import BadInput

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen


def arguments(parser: Parser) -> None:
    made = parser.command(
        "quarter",
        quarter,
        "The FAIR+CARE review: what was published, taken back, denied and overridden",
        "Counted from the ledger and the telemetry, by dataset. It holds names, rules and numbers, and no text of a "
        "reason. What was not measured is unknown.",
    )
    made.add_argument("quarter", nargs="?", default="", metavar="QUARTER", help="such as 2026-Q3 (default: this one)")
    made.add_argument("--to", default="", metavar="FILE", help="into this file: .md, .html or .json (default: stdout)")


def quarter(options: argparse.Namespace, screen: Screen) -> int:
    form = os.path.splitext(options.to)[1] if options.to else ".md"
    if form not in FORMS:
        raise BadInput("--to names no report", hint="give a name that ends in .md, .html or .json")
    with opened(options, screen, "read", settings(options)) as session:
        report = quarter_report(session, quarter_of(options.quarter, session.clock.now_ms()))
    if options.to:
        where = write_page(options.to, FORMS[form](report), "the report")
        screen.say(f"written to {where}")
    if screen.json:
        screen.data(msgspec.to_builtins(report))
    elif not options.to:
        screen.text(FORMS[".md"](report))
    return 0
