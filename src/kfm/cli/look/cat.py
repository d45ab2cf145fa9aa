"""kfm cat: write data to stdout."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kfm.app.runs.queries import (
    entries_of,
    exact_key,
    find_entry,
    find_version,
)
from kfm.app.runs.resolve import current_ref
from kfm.app.session.protection_files import readable_objects
from kfm.cli.render import Screen, short, size
from kfm.cli.session import opened
from kfm.errors import BadInput
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import argparse

    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser


MORE = """\
Without a KEY: the one entry of the version, or a list of its entries if there are several."""


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "ref",
        metavar="REF",
        help="e.g. processed/noaa-stations, or sha256:…; the name of a dataset: its published version, else processed",
    )
    parser.add_argument(
        "key",
        nargs="?",
        metavar="KEY",
        help='one entry of the version, its parts joined by /, or as a JSON list: \'["a","b/c"]\'',
    )
    parser.set_defaults(handler=cat)


def cat(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        target, is_version = find_version(session, current_ref(session, options.ref))
        if not is_version:
            if options.key:
                raise BadInput(f"{printable(options.ref)} has no entries", hint="leave the key out")
            _write_object(session, screen, target)
            return 0
        if options.key:
            _write_object(session, screen, find_entry(session, target, options.key).digest)
            return 0
        first = list(islice(entries_of(session, target), 2))
        if len(first) == 1 and not screen.json:
            _write_object(session, screen, first[0].digest)
            return 0
        _list_entries(session, screen, target)
    return 0


def shown_key(key: tuple[str, ...]) -> str:
    """Return a key as it is typed: joined by /, unless that could be read as another key."""
    return exact_key(key) if key[0].startswith("[") or any("/" in part for part in key) else "/".join(key)


def _list_entries(session: Session, screen: Screen, version: str) -> None:
    if screen.json:
        screen.data(list(entries_of(session, version)))
        return
    screen.table(
        ("key", "size", "type", "digest"),
        [(shown_key(e.key), size(e.size), e.media_type, short(e.digest)) for e in entries_of(session, version)],
    )


def _write_object(session: Session, screen: Screen, digest: str) -> None:
    """Write an object. It is read once to check it and again to write it, so that no byte of a damaged object is
    written."""

    def chunks() -> Iterator[bytes]:
        with readable_objects(session).open(digest) as file:
            while chunk := file.read(1 << 20):
                yield chunk

    for _ in chunks():
        pass
    screen.raw(chunks())
