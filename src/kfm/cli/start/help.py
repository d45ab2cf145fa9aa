"""kfm help: the help of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.cli.parser import parse
from kfm.cli.render import Screen

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


MORE = """\
e.g.  kfm help runs show"""


def arguments(parser: Parser) -> None:
    parser.add_argument("word", nargs="*", metavar="COMMAND", help="its words (default: all commands)")
    parser.set_defaults(handler=help_)


def help_(options: argparse.Namespace, screen: Screen) -> int:
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        parse([*options.word, "--help"])
    screen.text(text.getvalue())
    return 0
