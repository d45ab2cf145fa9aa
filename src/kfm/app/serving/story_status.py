"""Says of a published story which of its citations moved since: whether it is stale, and why, in one line each.

The answer is taken from the state at each call, never from the story: a version that was taken back a moment ago is
named at once. A story that may not be public today is answered like one that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.withdrawals import public_moves
from kfm.app.runs.visibility import Visibility
from kfm.errors import BadInput
from kfm.model import manifests, refs
from kfm.model.jobs.job_settings import STORY
from kfm.model.jobs.story_record import STORY_KEY, CitationStatus, Story, StoryCitation
from kfm.model.labels import PUBLISHABLE
from kfm.model.names import check_id, dataset_id
from kfm.model.records import Record
from kfm.parsing.characters import printable
from kfm.projections.live_versions import withdrawn_versions

if TYPE_CHECKING:
    from kfm.app.session.session import Session


class CitedVersion(Record, frozen=True):
    """What became of one citation of a story."""

    citation: StoryCitation
    status: CitationStatus
    line: str


class StoryStatus(Record, frozen=True):
    """A published story, and what became of everything that it cites."""

    dataset: str
    version: str
    story: Story
    stale: bool
    citations: tuple[CitedVersion, ...]

    @property
    def statuses(self) -> dict[StoryCitation, CitationStatus]:
        """What a page of the story needs."""
        return {each.citation: each.status for each in self.citations}

    @property
    def why(self) -> list[str]:
        """Why the story is stale, one line for each version that moved; [] if it is not."""
        return list(dict.fromkeys(each.line for each in self.citations if each.status != "current"))


def story_status(session: Session, dataset: str) -> StoryStatus:
    """Return the status of a published story. BadInput if nothing public has this name and is a story."""
    with session.state.reading():
        visibility = Visibility(session)
        name, version = _public_story(session, visibility, dataset)
        entry = manifests.find(session.objects, version, (STORY_KEY,))
        if entry is None:
            raise _no_story(dataset)
        story = msgspec.json.decode(session.objects.read(entry.digest), type=Story)
        known: dict[tuple[str, str], tuple[CitationStatus, str]] = {}
        found = []
        for each in story.citations:
            at = (each.dataset, each.version)
            if at not in known:
                known[at] = _became(session, visibility, *at)
            status, line = known[at]
            found.append(CitedVersion(citation=each, status=status, line=line))
    stale = any(each.status != "current" for each in found)
    return StoryStatus(dataset=name, version=version, story=story, stale=stale, citations=tuple(found))


def _public_story(session: Session, visibility: Visibility, dataset: str) -> tuple[str, str]:
    """Return the name and the public version of a story."""
    try:
        name = check_id(dataset_id(dataset), "dataset")
    except BadInput:
        raise _no_story(dataset) from None
    version = session.state.refs.at(refs.published(name))
    known = session.state.ledger.version(name, version) if version else None
    receipt = session.state.ledger.receipt(known.run_id) if known is not None else None
    if receipt is None or receipt.job_type != STORY or visibility.level(name, known) not in PUBLISHABLE:
        raise _no_story(dataset)
    return name, version


def _no_story(dataset: str) -> BadInput:
    return BadInput(
        f"no public story is called {printable(dataset)}", hint="`kfm status` lists the datasets; is it published?"
    )


def _became(session: Session, visibility: Visibility, dataset: str, version: str) -> tuple[CitationStatus, str]:
    """Return what became of a cited version, and the line that says so. It names no person and no reason."""
    named = f"{dataset}, version {version[7:19]}"
    known = session.state.ledger.version(dataset, version)
    if known is None or visibility.level(dataset, known) not in PUBLISHABLE:
        return "withdrawn", f"{named}: it may not be public today"
    now = session.state.refs.at(refs.published(dataset))
    if now == version:
        return "current", f"{named}: it is the public version"
    moves = public_moves(session, dataset, version)
    instead = f"version {now[7:19]} is public today" if now else "no version is public today"
    taken_back = withdrawn_versions(moves).get(version)
    if taken_back is not None and taken_back.after:
        return "rolled back", f"{named}: it was rolled back at {taken_back.ts}; {instead}"
    if taken_back is not None:
        return "withdrawn", f"{named}: it was withdrawn at {taken_back.ts}; {instead}"
    if not now:
        return "withdrawn", f"{named}: {instead}"
    return "superseded", f"{named}: a newer version took its place; {instead}"
