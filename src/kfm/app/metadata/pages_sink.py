"""The pages of the public folder, and the sink that writes them.

The expected page is the one that was last written, so it stays the same while nothing moves, frozen or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from kfm.app.metadata.archive_places import places_of_public
from kfm.app.session.backends import sink_lock
from kfm.app.session.datasets import public_retention
from kfm.app.session.session import Session
from kfm.delivery.followers import Follower, taking_turns
from kfm.delivery.pages_follower import PAGES, PageLetters
from kfm.model.keys import digest
from kfm.model.records import Difference
from kfm.sinks.catalog_files import CatalogFolder


class PublicPages(CatalogFolder):
    """The public folder as a sink for pages."""

    name = PAGES

    def target(self, path: str) -> str:
        """Return the path in the public folder, as the traces of public files name it."""
        return path


def pages_follower(session: Session) -> Follower:
    """Return the follower that keeps the pages current."""
    messages = _messages(session)
    return Follower(_sink(session), messages, sink_lock(session.resolved, PAGES), note=messages.note)


def _sink(session: Session) -> PublicPages:
    return PublicPages(session.resolved.location(session.resolved.config.publish)[1])


def _messages(session: Session) -> PageLetters:
    places = cache(partial(places_of_public, session))
    return PageLetters(session.state, session.objects, partial(public_retention, session), places)


def expected_page(session: Session, dataset: str) -> dict[str, str]:
    """Return the paths and digests of a dataset's pages and files for programs; empty if it has none."""
    entry = _messages(session).told().get(dataset) if session.resolved.config.pages else None
    return {**entry.files, **entry.more} if entry is not None else {}


def expected_pages(session: Session) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield every page with its digest, and the versions it was made from, by dataset."""
    messages = _messages(session)
    entries = messages.told() if session.resolved.config.pages else {}
    made_from = {dataset: each.version for dataset, each in sorted(entries.items()) if each.files}
    for dataset, version in made_from.items():
        for path, name in sorted({**entries[dataset].files, **entries[dataset].more}.items()):
            yield path, name, {dataset: version}
    for path, body in messages.fronts(entries).items() if entries else ():
        yield path, digest(body), made_from


def front_differs(session: Session) -> Iterator[Difference]:
    """Yield the differences of the index page and the sitemap."""
    messages = _messages(session)
    entries = messages.told() if session.resolved.config.pages else {}
    if entries:
        expected = {path: digest(body) for path, body in messages.fronts(entries).items()}
        for path, kind in _sink(session).differences(expected, ""):
            yield Difference(dataset="", path=path, kind=kind)  # type: ignore[arg-type]


def build(session: Session) -> int:
    """Write all pages again from the state. Return how many were written or removed."""
    follower, messages = pages_follower(session), _messages(session)
    sink = _sink(session)
    with taking_turns(follower, session.clock):
        sink.send(list(messages.letters(sorted(messages.told()))))
        with session.state.transaction() as tx:
            messages.note(tx)
    return sink.written + sink.removed
