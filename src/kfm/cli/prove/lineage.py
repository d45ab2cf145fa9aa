"""kfm lineage: which data was built from which, drawn, queried and exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.provenance.dependency_graph import written
from kfm.app.provenance.explain import write_page
from kfm.app.provenance.lineage import lineage, tree
from kfm.app.provenance.lineage_export import export as pieces
from kfm.app.runs.queries import find_run
from kfm.cli.render import clean
from kfm.cli.session import known_dataset, opened, settings
from kfm.errors import BadInput

if TYPE_CHECKING:
    import argparse

    from kfm.app.provenance.lineage import Direction
    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen


FORMATS = ("openlineage", "prov", "prov-o", "cypher", "cloudevents", "mermaid")


def arguments(parser: Parser) -> None:
    drawn = parser.command(
        "graph",
        graph,
        "Draw which datasets are built from which, and whether each is built from current versions",
        "It also marks data that was built from a version that was later rolled back or withdrawn.",
    )
    drawn.add_argument("dataset", nargs="?", default="", metavar="DATASET", help="with all above and below it")
    drawn.add_argument(
        "--format", choices=("text", "mermaid", "html"), default="text",
        help="default: text; html is one page that needs no network",
    )  # fmt: skip
    drawn.add_argument("--out", default="", metavar="FILE", help="into this file instead of stdout")
    for word, handler, what in (
        ("upstream", upstream, "what something was built from"),
        ("downstream", downstream, "what was built from something"),
    ):
        one = parser.command(
            word,
            handler,
            f"Show {what}, over as many runs as it takes",
            "THING: a dataset or a ref (its current version), a version, or the address of a source as in kfm.yml.\n"
            "A protected address is withheld. A thing that appears twice is followed once.",
        )
        one.add_argument("thing", metavar="THING", help="a dataset, a version, a ref or the address of a source")
        one.add_argument("--depth", default="", metavar="N", help="no further than so many runs (default: all)")
    exported = parser.command(
        "export",
        export,
        "Write the inputs and outputs of every run in a standard format; of protected data only what is public",
        "openlineage, cloudevents, prov-o and cypher: a document a line. prov: one PROV-JSON document with a\n"
        "bundle for each run. cypher: a statement and its parameters a line. mermaid: a flowchart.",
    )
    exported.add_argument("dataset", nargs="?", default="", metavar="DATASET", help="of this one (default: of all)")
    exported.add_argument("--format", choices=FORMATS, default="openlineage", metavar="FORMAT", help=", ".join(FORMATS))
    exported.add_argument("--run", default="", metavar="RUN", help="of this run alone")


def graph(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.dependency_graph import graph as drawn

    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset) if options.dataset else ""
    with opened(options, screen, "read", resolved) as session:
        found = drawn(session, name)
    if options.out:
        where = write_page(options.out, written(found, options.format))
        if screen.json:
            screen.data({"written": where})
        else:
            screen.say(f"written to {where}")
    elif screen.json:
        screen.data(found)
    elif options.format == "text":
        for line in written(found, "text").splitlines():
            screen.line(clean(line))
    else:
        screen.text(written(found, options.format))
    return 0


def upstream(options: argparse.Namespace, screen: Screen) -> int:
    return _asked(options, screen, "upstream")


def downstream(options: argparse.Namespace, screen: Screen) -> int:
    return _asked(options, screen, "downstream")


def _asked(options: argparse.Namespace, screen: Screen, direction: Direction) -> int:
    if options.depth and not (options.depth.isascii() and options.depth.isdigit() and 0 < int(options.depth) < 10**6):
        raise BadInput("--depth is not a number of runs", hint="give one from 1 on, e.g. --depth 2")
    with opened(options, screen, "read") as session:
        found = lineage(session, options.thing, direction, int(options.depth or -1))
    if screen.json:
        screen.data(found)
        return 0
    for line in tree(found):
        screen.line(clean(line))
    if not found.whole:
        screen.say("there is more: --depth N goes further")
    return 0


def export(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset) if options.dataset else ""
    with opened(options, screen, "read", resolved) as session:
        run_id = find_run(session, options.run) if options.run else ""
        screen.raw(pieces(session, options.format, dataset=name, run_id=run_id))
    return 0
