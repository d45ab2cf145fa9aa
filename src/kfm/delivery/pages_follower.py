"""The follower that keeps the pages of the public folder: the page and the explanation of each dataset that moved, and
the front page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from kfm.delivery.followers import is_frozen
from kfm.delivery.page_content import PageContent
from kfm.delivery.public_metadata import PublicMetadata
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.outbox_messages import Letter, described
from kfm.model.ports import Objects, State, Tx
from kfm.model.public_run import Places
from kfm.model.records import LedgerEntry, Record
from kfm.projections import dataset_pages
from kfm.projections.dataset_pages import DatasetPage, FrontEntry
from kfm.projections.file_paths import PAGE, page_paths
from kfm.projections.pages import explanation_page
from kfm.projections.pages.page_style import as_bytes, many, size_of
from kfm.projections.pages.public_addresses import SITEMAP
from kfm.projections.pages.schema_org import catalog_jsonld, dataset_jsonld
from kfm.projections.pages.sitemap import sitemap

PAGES = "pages"  # the sink


class Paged(Record, frozen=True):
    """The pages of a dataset, and the facts about it that the front page shows."""

    files: dict[str, str]  # digests by path below the public folder; empty: nothing is public
    version: str = ""
    title: str = ""
    description: str = ""
    published_at: str = ""
    facts: tuple[str, ...] = ()
    masked: bool = False
    picture: str = ""  # its map, small, as SVG
    moves: int = 0  # the number of the last move of the published ref that they show
    more: dict[str, str] = {}  # the files for programs, by path like the pages: a withdrawn dataset keeps its feed
    places: str = ""  # of the front page: the digest of what the archive says about itself


_NOTHING = Paged(files={})
_decoder = msgspec.json.Decoder(Paged)


class PageLetters:
    """The messages of the pages: files of the public folder by path. The page of a frozen dataset does not change,
    unless it is withdrawn."""

    def __init__(
        self, state: State, objects: Objects, retention: Callable[[str], int], places: Callable[[], Places]
    ) -> None:
        self._state = state
        self._objects = objects
        self._retention = retention
        self._places = places  # relative to the folder `datasets`
        self._done: dict[str, Paged] = {}

    def __call__(self, entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
        moved = sorted({dataset for entry in entries for dataset in described(entry)})
        if moved:
            if self._is_said_otherwise():
                moved = sorted({*moved, *self.changeable()})
            yield from self.letters(moved, entries[-1].index, entries[-1].run_id)

    def letters(self, datasets: Sequence[str], index: int = 0, run_id: str = "") -> Iterator[Letter]:
        """Yield the messages that write or remove the pages of these datasets. The front page comes before removals, so
        that it never links to a removed page."""
        known, now = self.told(), dict[str, Paged]()
        gone: list[tuple[str, str]] = []
        for dataset in filter(None, datasets):
            before = known.get(dataset, _NOTHING)
            now[dataset], bodies, stale = self._of(dataset, before, again=not index)
            for path, body in bodies.items():
                yield Letter(index=index, run_id=run_id, dataset=dataset, key=path, body=body)
            kept = {**now[dataset].files, **now[dataset].more}
            sent = self._done.get(dataset, _NOTHING).more  # and not noted: another process had taken over
            old = sorted({*page_paths(dataset), *before.more, *sent, *stale})
            gone += [(dataset, path) for path in old if path not in kept]
        fronts = self.fronts({**known, **now})
        for path, body in fronts.items():
            yield Letter(index=index, run_id=run_id, dataset="", key=path, body=body)
        others = {path: digest(body) for path, body in fronts.items() if path != PAGE}
        now[""] = Paged(files={}, more=others, places=self._said())
        gone += [("", path) for path in known.get("", _NOTHING).more if path not in fronts]
        for dataset, path in gone:
            yield Letter(index=index, run_id=run_id, dataset=dataset, key=path, body=None)
        self._done.update(now)

    def changeable(self) -> list[str]:
        """Return the datasets that have pages, by name, except those that are frozen and public: their pages stay as
        they are."""
        return sorted(
            name
            for name in filter(None, self.told())
            if not is_frozen(self._state, name) or not self._state.refs.at(refs.published(name))
        )

    def _said(self) -> str:
        return digest(canonical(self._places()))

    def _is_said_otherwise(self) -> bool:
        """Return whether the archive says something else about itself than when pages were last written."""
        body = self._state.outbox.note(PAGES, "")
        try:
            before = "" if body is None else _decoder.decode(body).places
        except msgspec.MsgspecError:
            return False
        return before not in ("", self._said())

    def note(self, tx: Tx) -> None:
        """Store, for each dataset that was reported, the facts about its page, in the transaction that advances the
        cursor."""
        for dataset, paged in self._done.items():
            tx.outbox.keep_note(PAGES, dataset, canonical(paged))
        self._done = {}

    def forget(self, tx: Tx, entries: Sequence[LedgerEntry]) -> None:
        """Forget what was reported of these datasets, because another process changed their files at the same time.
        The next report writes all their files again, and removes the others."""
        for dataset in sorted({dataset for entry in entries for dataset in described(entry)}):
            tx.outbox.keep_note(PAGES, dataset, canonical(_NOTHING))
        self._done = {}

    def told(self) -> dict[str, Paged]:
        """Return the facts that the front page shows, for every dataset that has or had a page."""
        found = {}
        for dataset, body in self._state.outbox.notes(PAGES):
            try:
                found[dataset] = _decoder.decode(body)
            except msgspec.MsgspecError:  # another version of KFM wrote the note in another form
                found[dataset] = self._of(dataset, _NOTHING)[0]
        return found

    def fronts(self, told: dict[str, Paged]) -> dict[str, bytes]:
        """Return the files about all datasets by path: the front page, and the sitemap if the archive has an
        address."""
        listed = [(name, each.published_at) for name, each in sorted(told.items()) if each.files]
        found = sitemap(listed, self._places())
        return {PAGE: self.front(told), **({} if found is None else {SITEMAP: found})}

    def front(self, told: dict[str, Paged]) -> bytes:
        """Return the front page, which lists every public dataset."""
        places = self._places()
        entries = [
            FrontEntry(name, each.title, each.description, each.published_at, each.facts, each.masked, each.picture)
            for name, each in sorted(told.items())
            if each.files
        ]
        listed = [(each.name, each.title, each.description, each.published_at) for each in entries]
        return dataset_pages.front_page(entries, places, jsonld=catalog_jsonld(listed, places))

    def _of(self, dataset: str, known: Paged, *, again: bool = False) -> tuple[Paged, dict[str, bytes], set[str]]:
        """Return the facts about a dataset's pages and files for programs, their bodies by path, and the paths that a
        killed report may have left. Known checksums are left out unless they are wanted again: a version never
        changes."""
        moves = list(self._state.refs.history(refs.published(dataset)))
        if is_frozen(self._state, dataset):  # withdrawals are reported; later moves wait for the thaw
            moves = moves[: max((move.n for move in moves if not move.after), default=0)]
        places = self._places()
        found = PageContent(self._state, self._objects, places, dataset, moves, self._retention(dataset))
        last = moves[-1].n if moves else 0
        programs = PublicMetadata(self._state, self._objects, places, found, moves)
        bodies = dict(programs.files(() if again else known.more))
        more = {path: known.more[path] for path in programs.paths() & known.more.keys()}
        more |= {path: digest(body) for path, body in bodies.items()}
        if not found.standing:
            return Paged(files={}, more=more, moves=last), bodies, programs.stale(known.moves)
        page, explanation = page_paths(dataset)
        told = found.explanation()
        shown = found.page()
        pages = {
            explanation: as_bytes(explanation_page.page(told, dataset_pages.bar(places, "../../"), PAGE)),
            page: dataset_pages.dataset_page(shown, places, dataset_jsonld(shown.version, shown.files, places)),
        }
        paged = _paged(shown, places, {path: digest(body) for path, body in pages.items()})
        return msgspec.structs.replace(paged, more=more, moves=last), {**bodies, **pages}, programs.stale(known.moves)


def _paged(page: DatasetPage, places: Places, files: dict[str, str]) -> Paged:
    version = page.version
    said = version.metadata or version.made.metadata
    return Paged(
        files=files,
        version=version.digest,
        title=dataset_pages.title_of(version),
        description=str(said.get("description") or ""),
        published_at=version.published_at,
        facts=(many(version.entries, "file"), size_of(version.size)),
        masked=bool(version.made.labels is not None and version.made.labels.resolution is not None),
        picture=dataset_pages.small_map(page, places),
    )
