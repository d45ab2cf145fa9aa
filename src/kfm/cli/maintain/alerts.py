"""kfm alerts: rules for Prometheus, made of the objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.maintenance.alerts import alert_rules
from kfm.cli.session import settings

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen


def arguments(parser: Parser) -> None:
    written = parser.command(
        "write",
        write,
        "Write rules for Prometheus: burnt budgets of every objective, and what every installation wants to hear",
        "Name the file under `rule_files` in prometheus.yml. Write it again when an objective has changed.",
    )
    written.add_argument("--to", default="", metavar="FILE", help="into this file, in one step (default: stdout)")


def write(options: argparse.Namespace, screen: Screen) -> int:
    text, names = alert_rules(settings(options))
    if not options.to:
        screen.text(text)
        return 0
    from kfm.app.provenance.explain import write_page

    where = write_page(options.to, text, "the rules")
    if screen.json:
        screen.data({"written": where, "objectives": names})
    else:
        screen.say(f"written to {where}, with {len(names)} objective{'s' * (len(names) != 1)}")
    return 0
