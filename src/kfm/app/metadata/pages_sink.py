"""The pages of the public folder, and the sink that writes them.

The expected page is the one that was last written, so it stays the same while nothing moves, frozen or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import islice

import msgspec

from kfm.app.metadata.archive_places import places_of_public
from kfm.app.session.backends import open_tree, sink_lock
from kfm.app.session.datasets import public_retention
from kfm.app.session.session import Session
from kfm.config.config_file import has_pages
from kfm.delivery.followers import Follower, in_turn
from kfm.delivery.pages_follower import PAGES, Paged, PageLetters
from kfm.errors import KfmError
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.outbox_messages import Letter, described
from kfm.model.ports import Lock, Tx
from kfm.model.records import Difference, Effect
from kfm.projections.file_paths import PAGE
from kfm.projections.pages.file_marks import is_marked
from kfm.projections.pages.public_addresses import SITEMAP
from kfm.sinks.catalog_files import CatalogFiles

LEFT = "left"  # the notes about files that are left as they are, by sink
LEFT_CURE = "move it away and run `kfm catalog build`, or set pages: false"
_NONE = Paged(files={})
_NAMED = 3  # of the files that were left


class PublicPages(CatalogFiles):
    """The public folder or bucket as a sink for pages."""

    name = PAGES
    leaves_foreign = True

    def target(self, path: str) -> str:
        """Return the path in the public folder, as the traces of public files name it."""
        return path


def pages_follower(session: Session) -> Follower:
    """Return the follower that keeps the pages current."""
    messages, sink = _messages(session), _sink(session)

    def note(tx: Tx) -> None:
        messages.note(tx)
        _keep_left(session, tx, sink)

    return Follower(
        sink, messages, sink_lock(session.resolved, session.state, PAGES), note=note, forget=messages.forget
    )


def _sink(session: Session, *, repairs: bool = False) -> PublicPages:
    """Return the public folder or bucket. A report replaces no file that KFM did not write. A repair leaves only those
    that a report has left: any other was a page, and was altered since."""
    sink = PublicPages(open_tree(session.resolved, session.config.publish))
    left = left_files(session) if repairs else []
    sink.recognises = lambda path, head: (repairs and path not in left) or is_marked(path, head)
    return sink


def _keep_left(session: Session, tx: Tx, sink: PublicPages) -> None:
    """Store which files the pages left as they were, because KFM did not write them."""
    before = left_files(session)
    session.left_files = sorted(
        {path for path, is_left in sink.left.items() if is_left} | {path for path in before if path not in sink.left}
    )
    if session.left_files != before:
        tx.outbox.keep_note(LEFT, PAGES, canonical(session.left_files))


def left_files(session: Session) -> list[str]:
    """Return the files of the archive that are in the place of a page, as the last report found them."""
    body = session.state.outbox.note(LEFT, PAGES) if session.resolved.config.pages else None
    return [] if body is None else msgspec.json.decode(body, type=list[str])


def left_line(paths: list[str]) -> str:
    """Return one line that names these files."""
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more} in the public folder stays as it is: KFM did not write it"


def without_left(session: Session, found: list[Difference]) -> list[Difference]:
    """Return the differences without the files at the place of a page that a report has left: no repair replaces them.
    Files of a withdrawn dataset remain among the differences."""
    sink = _sink(session, repairs=True)
    return [each for each in found if each.kind != "altered" or not sink.is_foreign(each.path)]


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
    left = left_files(session)
    for dataset, version in made_from.items():
        for path, name in sorted({**entries[dataset].files, **entries[dataset].more}.items()):
            if path not in left:
                yield path, name, {dataset: version}
    for path, body in messages.fronts(entries).items() if entries else ():
        if path not in left:
            yield path, digest(body), made_from


def front_differs(session: Session) -> Iterator[Difference]:
    """Yield the differences of the index page and the sitemap."""
    messages = _messages(session)
    entries = messages.told() if session.resolved.config.pages else {}
    if entries:
        expected = {path: digest(body) for path, body in messages.fronts(entries).items()}
        found = [
            Difference(dataset="", path=path, kind=kind)  # type: ignore[arg-type]
            for path, kind in _sink(session).differences(expected, "")
        ]
        yield from without_left(session, found)


def build(session: Session, *, repairs: bool = False) -> int:
    """Write all pages again from the state. Return how many were written or removed. Only a repair replaces pages that
    were altered beyond recognition."""
    follower, messages = pages_follower(session), _messages(session)
    sink = _sink(session, repairs=repairs)

    def write(lock: Lock) -> int:
        sink.send(list(messages.letters(messages.changeable())))
        with session.state.transaction() as tx:
            if lock.is_held(tx):
                messages.note(tx)
                _keep_left(session, tx, sink)
        return sink.written + sink.removed

    return in_turn(follower, session, write)


def remove_pages(session: Session, effects: list[Effect]) -> KfmError | None:
    """Remove the pages and files for programs that were written before `pages: false`: no report would take a
    withdrawn version out of them. Append the effects; a dry run does nothing else. Return the problem that prevented
    it, or None. The last publication of each dataset waits for pages that are on again."""
    from kfm.app.metadata.sink_trace import traced

    if not has_pages(session.config.publish):
        return None
    told, is_dry = _messages(session).told(), session.mode != "write"
    own = sorted({path for each in told.values() for path in (*each.files, *each.more)} - {SITEMAP})
    fronts = (PAGE, SITEMAP) if SITEMAP in told.get("", _NONE).more else (PAGE,)
    follower = traced(pages_follower(session), effects, dry_run=is_dry)

    def remove(_lock: Lock) -> None:
        follower.sink.send([Letter(0, "", "", path, None) for path in (*fronts, *own)])
        if not is_dry:
            forget(session, PAGES, told)

    try:
        in_turn(follower, session, remove)
    except KfmError as problem:
        return problem
    return None


def clear_place(session: Session) -> None:
    """Remove the pages from the public place of this session, which is not the one in force any more."""
    told = _messages(session).told()
    own = sorted({path for each in told.values() for path in (*each.files, *each.more)})
    letters = [Letter(0, "", "", path, None) for path in dict.fromkeys((PAGE, SITEMAP, *own))]
    if has_pages(session.resolved.config.publish):
        in_turn(pages_follower(session), session, lambda _lock: _sink(session).send(letters))


def forget(session: Session, sink: str, told: Iterable[str]) -> None:
    """Forget what a sink that was removed had received. The last publication of each dataset waits for it again."""
    with session.state.transaction() as tx:
        for dataset in filter(None, told):
            entries = session.state.ledger.entries_of(dataset)
            for entry in islice((each for each in entries if dataset in described(each)), 1):
                tx.outbox.wait(sink, entry.index)
        tx.outbox.forget_notes(sink)
