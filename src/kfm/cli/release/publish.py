"""kfm publish: publish the processed version of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.cli.operation import operate_on_dataset
from kfm.cli.render import Screen

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


MORE = """\
`kfm promote` is the same command. `kfm reconcile` compares and repairs public files."""


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    parser.add_person()
    parser.add_signing()
    parser.set_defaults(handler=publish, reports=True)


def publish(options: argparse.Namespace, screen: Screen) -> int:
    return operate_on_dataset(options, screen, "promote", {})
