"""kfm why-not: why something was not run, built, shown or published, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.provenance.why_not import exit_code
from kfm.app.provenance.why_not import why_not as wonder
from kfm.cli.prove.explain import THING
from kfm.cli.render import Screen
from kfm.cli.session import opened
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


MORE = """\
Causes are a NOOP, a freeze, quarantine, a gate, masking, lateness, an unfinished or superseded run, a
failed delivery or a missing approval. exit: 0, also if nothing prevents it; 3 nothing has this name; with
--exit-code the code of the first cause: 10 NOOP, 5 frozen, 4 a gate, 7 an approval, 6 at work,
3 quarantined, 1 failed, 69 not delivered"""


def arguments(parser: Parser) -> None:
    parser.add_argument("thing", metavar="THING", help=THING)
    parser.add_argument("--exit-code", action="store_true", help="exit with a code of its own if something prevents it")
    parser.set_defaults(handler=why_not)


def why_not(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "dry", in_place=True) as session:
        told = wonder(session, options.thing)
    if screen.json:
        screen.data(told)
    else:
        screen.table(
            ("what", "why", "rule", "since", "what to type"),
            [(one.what, one.why, one.rule, one.since, one.do) for one in told.reasons],
        )
        if not told.reasons:
            screen.say(f"nothing is in the way of {told.thing}")
    return exit_code(told) if options.exit_code else EXIT_CODES["done"]
