"""kfm lineage: what was made of what, and in which words others are told of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from kfm.app.provenance.lineage import Direction
    from kfm.cli.governing import Group, Make
    from kfm.cli.render import Screen

COMMANDS = ("graph", "lineage")
FORMATS = ("openlineage", "prov", "prov-o", "cypher", "cloudevents", "mermaid")


def add(commands: Any, make: Make, group: Group) -> None:
    assets = make(
        commands,
        "graph",
        "lineages:graph",
        "Draw which datasets are made of which, and whether each is made of what is current; changes nothing",
        "Told is also what was made of a version that was rolled back or withdrawn since.",
    )
    assets.add_argument("dataset", nargs="?", default="", metavar="DATASET", help="with all above and below it")
    assets.add_argument(
        "--format", choices=("text", "mermaid", "html"), default="text",
        help="default: text; html is one page that needs no network",
    )  # fmt: skip
    assets.add_argument("--out", default="", metavar="FILE", help="into this file instead of stdout")
    lineage = group(commands, "lineage", "What was made of what: runs with what they read and gave")
    for word, what in (("upstream", "what something was made of"), ("downstream", "what was made of something")):
        ask = make(
            lineage,
            word,
            f"lineages:{word}",
            f"Tell {what}, over as many runs as it takes; changes nothing",
            "THING: a dataset or a ref (what it is at), a version, or the address of a source as in kfm.yml.\n"
            "An address that is protected is withheld. A thing that was met before is not followed again.",
        )
        ask.add_argument("thing", metavar="THING", help="a dataset, a version, a ref or the address of a source")
        ask.add_argument("--depth", default="", metavar="N", help="no further than so many runs (default: all)")
    export = make(
        lineage,
        "export",
        "lineages:export",
        "Write what every run read and gave, in a grammar of others; of protected data only what may be known",
        "openlineage, cloudevents, prov-o and cypher: a document a line. prov: one PROV-JSON document with a\n"
        "bundle for each run. cypher: a statement and its parameters a line. mermaid: a flowchart.",
    )
    export.add_argument("dataset", nargs="?", default="", metavar="DATASET", help="of this one (default: of all)")
    export.add_argument("--format", choices=FORMATS, default="openlineage", metavar="FORMAT", help=", ".join(FORMATS))
    export.add_argument("--run", default="", metavar="RUN", help="of this run alone")


def graph(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.dependency_graph import graph as drawn
    from kfm.app.provenance.dependency_graph import written
    from kfm.app.provenance.explain import write_page
    from kfm.cli.opening import known_dataset, opened, settings
    from kfm.cli.render import clean

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
    from kfm.app.provenance.lineage import lineage, tree
    from kfm.cli.opening import opened
    from kfm.cli.render import clean
    from kfm.errors import BadInput

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
    from kfm.app.provenance.lineage_export import export as pieces
    from kfm.app.runs.queries import find_run
    from kfm.cli.opening import known_dataset, opened, settings

    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset) if options.dataset else ""
    with opened(options, screen, "read", resolved) as session:
        run_id = find_run(session, options.run) if options.run else ""
        screen.raw(pieces(session, options.format, dataset=name, run_id=run_id))
    return 0
