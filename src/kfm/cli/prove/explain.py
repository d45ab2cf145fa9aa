"""kfm explain: how something was produced, in sentences that each cite a digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.provenance.explain import explain as gather
from kfm.app.provenance.explain import write_page, written
from kfm.cli.render import Screen, clean
from kfm.cli.session import opened
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse

    from kfm.app.provenance.explain import Explanation
    from kfm.cli.parser import Parser


THING = "a dataset, a version (its digest or the start of it), a public file, a ref, an object or a run"
FORMATS = ("text", "json", "html", "mermaid")


MORE = """\
It shows only what is public: of protected data no address, no name and no value.
exit: 0 explained, 3 nothing has this name, 65 a record is missing, altered or leads in a circle"""


def arguments(parser: Parser) -> None:
    parser.add_argument("thing", metavar="THING", help=THING)
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="default: text; html is one page that needs no network"
    )
    parser.add_argument("--out", default="", metavar="FILE", help="into this file instead of stdout")
    parser.set_defaults(handler=explain)


def explain(options: argparse.Namespace, screen: Screen) -> int:
    form = "json" if screen.json and options.format == "text" else options.format
    with opened(options, screen, "read") as session:
        told, runs = gather(session, options.thing)
    if options.out:
        where = write_page(options.out, _bytes(told, form) or written(told, runs, form))
        if screen.json:
            screen.data({"written": where})
        else:
            screen.say(f"written to {where}")
    elif form == "json":
        screen.data(told)
    elif form == "text":
        for line in written(told, runs, form).splitlines():
            screen.line(clean(line))
    else:
        screen.text(written(told, runs, form))
    return EXIT_CODES["done"]


def _bytes(told: Explanation, form: str) -> str:
    if form != "json":
        return ""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n"
