"""kfm quarantine: which rows and sources of a dataset are quarantined, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfm.app.runs.queries import (
    held_sources,
)
from kfm.app.session.datasets import dataset_config
from kfm.cli.look.cat import _write_object
from kfm.cli.render import Screen
from kfm.cli.run_report import FINDINGS, finding_rows
from kfm.cli.session import opened
from kfm.model import refs
from kfm.model.names import dataset_id

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    parser.add_argument("--rows", action="store_true", help="write the quarantined rows, one line of JSON each")
    parser.set_defaults(handler=held)


def held(options: argparse.Namespace, screen: Screen) -> int:
    """Show quarantined rows and sources, and why; with --rows the rows themselves."""
    name = dataset_id(options.dataset)
    with opened(options, screen, "read") as session:
        sources = held_sources(session, name)
        if not sources and not any(True for _ in session.state.refs.history(refs.quarantine(name))):
            dataset_config(session, name)  # raises if there is no such dataset
        if options.rows:
            for source in sources:
                if source["held_rows_digest"]:
                    _write_object(session, screen, source["held_rows_digest"])
        elif screen.json:
            screen.data({"dataset": name, "sources": sources})
        else:
            screen.table(FINDINGS, finding_rows(sources))
            for source in sources:
                _tell_held(screen, name, source)
        if not sources:
            screen.say(f"nothing of {name} is quarantined")
    return 0


def _tell_held(screen: Screen, name: str, source: dict[str, Any]) -> None:
    if source["held"]:
        screen.say(f"{source['source']}: the whole source is held; what was published from it stays")
    else:
        screen.say(f"{source['source']}: {source['held_rows']} of {source['rows']} rows quarantined")
    total = sum(source["counts"].values())
    if total > len(source["findings"]):
        screen.say(
            f"{source['source']}: {total} findings, of which the first {len(source['findings'])} are counted above"
        )
    if source["held_rows_digest"]:
        screen.say(f"the rows themselves: `kfm quarantine {name} --rows`")
