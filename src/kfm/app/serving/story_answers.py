"""Published stories, as the API and the pages show them: each citation with what became of it.

A story that cites what may not be public today is answered like one that does not exist, also if only this audience may
not see what it cites.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.app.runs.visibility import Visibility
from kfm.app.serving.served_records import Link
from kfm.app.serving.story_status import StoryStatus, story_status
from kfm.errors import BadInput
from kfm.model.jobs.job_settings import STORY
from kfm.model.jobs.story_record import CitationStatus, Story, StoryCitation
from kfm.model.labels import PUBLISHABLE
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.serving.shelf import Shelf, ShownDataset
    from kfm.app.session.session import Session


class ShownCitation(Record, frozen=True):
    """A citation, what became of the version that it names, and where that can be looked at."""

    citation: StoryCitation
    status: CitationStatus
    line: str
    href: str  # empty: it is not public today


class StoryAnswer(Record, frozen=True):
    """A published story. It is stale if something that it cites is not the public version today."""

    dataset: str
    version: str
    title: str
    language: str
    stale: bool
    why: tuple[str, ...]  # why it is stale
    story: Story
    citations: tuple[ShownCitation, ...]
    links: tuple[Link, ...]
    ledger_entries: int


class StorySummary(Record, frozen=True):
    dataset: str
    title: str
    version: str
    stale: bool
    cites: tuple[str, ...]  # the datasets


class StoryList(Record, frozen=True):
    """The stories that may be shown, by name."""

    stories: tuple[StorySummary, ...]
    ledger_entries: int


def story_list(session: Session, shelf: Shelf, index: int) -> StoryList:
    return StoryList(stories=tuple(_summaries(session, shelf)), ledger_entries=index)


def _summaries(session: Session, shelf: Shelf) -> Iterator[StorySummary]:
    for one in shelf.all():
        found = _shown(session, shelf, one)
        if found is not None:
            cites = tuple(sorted({each.dataset for each in found.story.citations}))
            yield StorySummary(one.dataset, found.story.title, found.version, found.stale, cites)


def story_answer(session: Session, shelf: Shelf, name: str, index: int) -> StoryAnswer | None:
    """Return a story; None if there is none of that name that may be shown."""
    shown = shelf.find(name)
    found = _shown(session, shelf, shown) if shown is not None else None
    if found is None:
        return None
    return StoryAnswer(
        dataset=found.dataset,
        version=found.version,
        title=found.story.title,
        language=found.story.language,
        stale=found.stale,
        why=tuple(found.why),
        story=found.story,
        citations=tuple(
            ShownCitation(each.citation, each.status, each.line, _address(shelf, each.citation))
            for each in found.citations
        ),
        links=(
            Link(rel="self", href=f"/v1/stories/{found.dataset}"),
            Link(rel="alternate", href=f"/stories/{found.dataset}", type="text/html"),
            Link(rel="dataset", href=f"/v1/datasets/{found.dataset}"),
            Link(rel="focus", href=f"/v1/focus/{found.dataset}"),
        ),
        ledger_entries=index,
    )


def _shown(session: Session, shelf: Shelf, shown: ShownDataset) -> StoryStatus | None:
    """Return the status of a dataset that is a story and cites nothing that is closed."""
    known = session.state.ledger.version(shown.dataset, shown.version)
    receipt = session.state.ledger.receipt(known.run_id) if known is not None else None
    if receipt is None or receipt.job_type != STORY:
        return None
    try:
        found = story_status(session, shown.dataset)
    except BadInput:
        return None
    visibility = Visibility(session)
    for each in {citation.dataset: citation for citation in found.story.citations}.values():
        if shelf.is_published(each.dataset) and shelf.find(each.dataset) is None:
            return None
    for citation in found.story.citations:
        cited = session.state.ledger.version(citation.dataset, citation.version)
        if cited is None or visibility.level(citation.dataset, cited) not in PUBLISHABLE:
            return None
    return found


def _address(shelf: Shelf, citation: StoryCitation) -> str:
    """Return the page of a cited version; empty if it is not public today."""
    if not shelf.may_show(citation.dataset, citation.version):
        return ""
    return f"/versions/{citation.dataset}/{citation.version}"
