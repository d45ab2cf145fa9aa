"""The follower that keeps the pages of the public folder: the page of each dataset that moved, and the front page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from kfm.delivery.catalog_content import Cataloguing
from kfm.delivery.followers import is_frozen
from kfm.delivery.public_files import concerned
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.outbox_messages import Letter
from kfm.model.ports import Objects, State, Tx
from kfm.model.public_run import Places
from kfm.model.records import LedgerEntry, Record
from kfm.projections import dataset_pages

PAGES = "pages"  # the sink


class Paged(Record, frozen=True):
    """The facts about a dataset's page that the front page shows."""

    page: str  # its digest; empty: no page, because nothing is public
    dcat: dict[str, Any]


_NOTHING = Paged(page="", dcat={})
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
        moved = sorted({dataset for entry in entries for dataset in concerned(entry)})
        if moved:
            yield from self.letters(moved, entries[-1].index, entries[-1].run_id)

    def letters(self, datasets: Sequence[str], index: int = 0, run_id: str = "") -> Iterator[Letter]:
        """Yield the messages that write or remove the pages of these datasets. The front page comes before removals, so
        that it never links to a removed page."""
        now: dict[str, Paged] = {}
        pages: dict[str, bytes | None] = {}
        for dataset in datasets:
            now[dataset], pages[dataset] = self._of(dataset)
        for dataset, body in pages.items():
            if body is not None:
                yield Letter(index=index, run_id=run_id, dataset=dataset, key=path_of(dataset), body=body)
        yield Letter(
            index=index, run_id=run_id, dataset="", key=dataset_pages.PAGE, body=self.front({**self.told(), **now})
        )
        for dataset, body in pages.items():
            if body is None:
                yield Letter(index=index, run_id=run_id, dataset=dataset, key=path_of(dataset), body=None)
        self._done.update(now)

    def note(self, tx: Tx) -> None:
        """Store, for each dataset that was reported, the facts about its page, in the transaction that advances the
        cursor."""
        for dataset, paged in self._done.items():
            tx.outbox.keep_note(PAGES, dataset, canonical(paged))
        self._done = {}

    def told(self) -> dict[str, Paged]:
        """Return the facts that the front page shows, for every dataset that has or had a page."""
        found = {}
        for dataset, body in self._state.outbox.notes(PAGES):
            try:
                found[dataset] = _decoder.decode(body)
            except msgspec.MsgspecError:  # another version of KFM wrote the note in another form
                found[dataset] = self._of(dataset)[0]
        return found

    def front(self, told: dict[str, Paged]) -> bytes:
        """Return the front page, which lists every public dataset."""
        return dataset_pages.front_page(
            [(name, told[name].dcat) for name in sorted(told) if told[name].page], self._places(), in_public=True
        )

    def _of(self, dataset: str) -> tuple[Paged, bytes | None]:
        moves = list(self._state.refs.history(refs.published(dataset)))
        if is_frozen(self._state, dataset):  # withdrawals are reported; later moves wait for the thaw
            moves = moves[: max((move.n for move in moves if not move.after), default=0)]
        found = Cataloguing(self._state, self._objects, self._places(), dataset, moves, self._retention(dataset))
        if not found.standing:
            return _NOTHING, None
        body = found.page(in_public=True)[1]
        return Paged(page=digest(body), dcat=found.catalogued().dcat), body


def path_of(dataset: str) -> str:
    return f"datasets/{dataset_pages.page_path(dataset)}"
