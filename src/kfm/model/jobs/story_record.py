"""The output of `story.node`: a narrative as plain records, without markup, and what it cites."""

from __future__ import annotations

from typing import Literal

from kfm.model.canonical import canonical
from kfm.model.keys import digest as digest_of
from kfm.model.names import dataset_uri
from kfm.model.public_run import artifact_id
from kfm.model.records import Record

FORMAT = "kfm.story/1"
STORY_KEY, TEXT_KEY = "story", "text"  # the keys of its two outputs: the record, and the same text as Markdown
MARKDOWN = "text/markdown; charset=utf-8; variant=CommonMark"
NESTING = 20  # the most lists and quotes within each other

# What became of a cited version: it is the public one, another took its place, or it was taken back.
CitationStatus = Literal["current", "superseded", "rolled back", "withdrawn"]
BlockKind = Literal["heading", "paragraph", "list", "item", "quote"]


class StoryCitation(Record, frozen=True, omit_defaults=True):
    """What a sentence rests on: a version of a dataset, or one file of it."""

    dataset: str
    version: str  # the digest of the version
    key: tuple[str, ...] = ()  # of one file of the version; empty: the whole version
    digest: str = ""  # of the bytes of that file; empty: the whole version

    @property
    def address(self) -> str:
        """The citation as a link of Markdown names it, with the full digest."""
        return address_of(self.dataset, self.version, self.key)


class StorySpan(Record, frozen=True, omit_defaults=True):
    """A piece of text with one way to show it. The text is plain: `<` is the character, never the start of a tag."""

    text: str
    emphasis: bool = False
    strong: bool = False
    code: bool = False
    href: str = ""  # an https address; empty: no link out of the archive
    cites: StoryCitation | None = None


class StoryBlock(Record, frozen=True, omit_defaults=True):
    """A heading or paragraph has spans; a list has items, and an item or quote has other blocks."""

    kind: BlockKind
    level: int = 0  # of a heading: 1 to 6
    ordered: bool = False  # of a list
    start: int = 1  # of an ordered list: the number of its first item
    spans: tuple[StorySpan, ...] = ()
    blocks: tuple[StoryBlock, ...] = ()


class Story(Record, frozen=True):
    """A story: its blocks in order, and everything that it cites, in the order in which it does."""

    format: str
    title: str
    language: str  # a tag of BCP 47, such as en or osa
    blocks: tuple[StoryBlock, ...]
    citations: tuple[StoryCitation, ...]


def address_of(dataset: str, version: str, key: tuple[str, ...] = ()) -> str:
    """Return the address by which a story cites a version or a file of it."""
    whole = dataset_uri(dataset)
    file = "#" + artifact_id(dataset, key).removeprefix(f"{whole}/") if key else ""
    return f"{whole}@{version}{file}"


def citation_name(citation: StoryCitation) -> str:
    """Return a short name of a citation that is the same everywhere: the anchor in a page."""
    return f"cite-{digest_of(canonical(citation))[7:19]}"
