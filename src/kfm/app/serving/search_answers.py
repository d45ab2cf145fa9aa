"""The search over HTTP: datasets by their titles and descriptions, and rows by the text of published search indexes.

Both see only what the shelf shows. What it does not show is neither ranked nor counted, and does not change the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.data.text_search import LONGEST, search_shown
from kfm.app.serving.dataset_answers import content_of, summary
from kfm.app.serving.discretion import own_mistakes
from kfm.model.records import Record
from kfm.store.search.full_text import best_matches, words_of

if TYPE_CHECKING:
    from kfm.app.serving.served_records import DatasetSummary
    from kfm.app.serving.shelf import Shelf
    from kfm.app.session.session import Session


class FoundDataset(Record, frozen=True):
    """A dataset whose name, title or description has a word of the query."""

    dataset: str
    title: str
    description: str
    href: str  # of its page


class FoundText(Record, frozen=True):
    """A row or a text that was found."""

    dataset: str
    version: str  # from which the text comes
    key: str  # the id of the row, or the key of the text
    title: str
    snippet: str
    score: float
    href: str  # of the page of the version


class TextSearch(Record, frozen=True):
    """What was found, the best first."""

    query: str
    datasets: tuple[FoundDataset, ...]
    matched_datasets: int
    texts: tuple[FoundText, ...]
    matched_texts: int  # of those that were ranked: at most 200 by their words, and 200 by their meaning
    indexes: int  # published indexes that were searched; 0: only titles and descriptions were
    by_meaning: bool  # texts were compared by their meaning, too
    ledger_entries: int


def text_search(session: Session, shelf: Shelf, query: str, limit: int, index: int) -> TextSearch:
    query = query[:LONGEST]
    datasets, matched = _datasets(session, shelf, query, limit)
    with own_mistakes():
        found = search_shown(session, query, shelf.may_show, limit)
    return TextSearch(
        query=query,
        datasets=datasets,
        matched_datasets=matched,
        texts=tuple(
            FoundText(
                dataset=hit.dataset,
                version=hit.version,
                key=hit.key,
                title=hit.title,
                snippet=hit.snippet,
                score=hit.score,
                href=f"/versions/{hit.dataset}/{hit.version}",
            )
            for hit in found.hits
        ),
        matched_texts=found.matched,
        indexes=found.indexes,
        by_meaning=found.meaning,
        ledger_entries=index,
    )


def _datasets(session: Session, shelf: Shelf, query: str, limit: int) -> tuple[tuple[FoundDataset, ...], int]:
    words = words_of(query)
    known: list[DatasetSummary] = (
        [summary(content_of(session, one).version, one) for one in shelf.all()] if words else []
    )
    texts = ((n, f"{one.title} {one.dataset}", one.description) for n, one in enumerate(known))
    hits = best_matches(texts, words, len(known))
    found = (known[hit.number] for hit in hits[:limit])
    return tuple(
        FoundDataset(
            dataset=one.dataset, title=one.title, description=one.description, href=f"/datasets/{one.dataset}/"
        )
        for one in found
    ), len(hits)
