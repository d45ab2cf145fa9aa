"""kfm lineage: what was made of what, and in which words others are told of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from kfm.cli.governing import Group, Make
    from kfm.cli.render import Screen

COMMANDS = ("lineage",)
FORMATS = ("openlineage", "prov", "prov-o", "cypher", "cloudevents", "mermaid")


def add(commands: Any, make: Make, group: Group) -> None:
    lineage = group(commands, "lineage", "What was made of what: runs with what they read and gave")
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


def export(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.cli.opening import known_dataset, opened, settings
    from kfm.house.lineage_export import export as pieces

    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset) if options.dataset else ""
    with opened(options, screen, "read", resolved) as house:
        screen.raw(pieces(house, options.format, dataset=name, run_id=options.run))
    return 0
