"""kfm search: find published text by its words, and by its meaning where an index has vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.data.text_search import search as find_text
from kfm.cli.render import Screen, short
from kfm.cli.session import opened

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser

MORE = """\
A dataset with job: index.build_embeddings makes the text of published datasets searchable once it is published
itself. Every hit names the version that it comes from; what was withdrawn since is not shown."""


def arguments(parser: Parser) -> None:
    parser.add_argument("words", nargs="+", metavar="WORD", help="words to look for, in any order")
    parser.add_argument("--index", default="", metavar="NAME", help="the alias of one index; default: all of them")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="the most hits to show (default: 10)")
    parser.set_defaults(handler=search)


def search(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        found = find_text(session, " ".join(options.words), index=options.index, limit=options.limit)
    if screen.json:
        screen.data(found)
        return 0
    rows = [
        (hit.dataset, hit.key, hit.title, hit.snippet, f"{hit.score:.3f}", short(hit.version)) for hit in found.hits
    ]
    screen.table(("dataset", "key", "title", "text", "score", "version"), rows)
    if not found.hits:
        screen.say("nothing was found")
    for each in found.hidden:
        screen.say(f"{each.dataset} {short(each.version)} is not shown: {each.why}; run and publish its index again")
    return 0
