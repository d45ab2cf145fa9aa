"""kfm freeze: stop everything, or one dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.cli.operation import operate_on_scope
from kfm.cli.render import Screen

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


MORE = """\
At red, work stops at its next step and leaves a receipt; requests are kept for `kfm thaw`. `kfm kill-switch`
is the same command."""


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "dataset", nargs="?", default="global", metavar="SCOPE", help="a dataset, or `global` (default)"
    )
    parser.add_argument(
        "--level",
        choices=("red", "amber"),
        default="red",
        help="red stops all work; amber stops backfills, hotfixes and automatic promotions (default: red)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    parser.add_person(reason="stopped by an operator")
    parser.add_signing()
    parser.set_defaults(handler=freeze, reports=True, closes=True)


def freeze(options: argparse.Namespace, screen: Screen) -> int:
    return operate_on_scope(options, screen, "freeze", {"level": options.level} if options.level != "red" else {})
