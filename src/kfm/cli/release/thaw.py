"""kfm thaw: allow work again that was frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.cli.operation import operate_on_scope
from kfm.cli.render import Screen

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "dataset", nargs="?", default="global", metavar="SCOPE", help="a dataset, or `global` (default)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    parser.add_person(wants_reason=True)
    parser.add_signing()
    parser.set_defaults(handler=thaw, reports=True)


def thaw(options: argparse.Namespace, screen: Screen) -> int:
    return operate_on_scope(options, screen, "thaw")
