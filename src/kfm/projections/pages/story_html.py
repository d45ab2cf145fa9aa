"""A story as blocks of HTML for a page: everything is escaped, and each citation is one click away. Pure.

The record may come from anywhere that a version may come from, so nothing in it is trusted: a link is written only if
it is https, and a citation that the caller does not know counts as withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

from kfm.errors import BadInput
from kfm.model.jobs.story_record import NESTING, CitationStatus, Story, StoryBlock, StoryCitation, StorySpan
from kfm.model.jobs.story_record import citation_name as name_of
from kfm.projections.pages.page_style import short_digest

Statuses = Mapping[StoryCitation, CitationStatus]
_LOCAL = ("/", "./", "../", "#", "https://")  # how the address of a citation may begin
_STALE = "What this story cites has moved since it was made. The list at its end says what, and where to read on."
_DEEPEST = 2 * NESTING + 2  # a list and its items are two


def story_html(story: Story, statuses: Statuses, address: Callable[[StoryCitation], str] = lambda _cited: "") -> str:
    """Return a story as one `article`. `address` gives the page of a cited version, empty if there is none. BadInput if
    its blocks are nested more deeply than a story can be."""
    found = [f'<article class="story" lang="{escape(story.language)}">']
    if is_stale(story, statuses):
        found.append(f'<p class="stale" role="note">{_STALE}</p>')
    found += _blocks(story.blocks, statuses, 0)
    found.append('<section class="citations"><h2>What it rests on</h2><ol>')
    found += [_citation(each, _status(each, statuses), address(each)) for each in story.citations]
    found.append("</ol></section></article>")
    return "\n".join(found)


def is_stale(story: Story, statuses: Statuses) -> bool:
    """Return whether anything that the story cites is not the public version today."""
    return any(_status(each, statuses) != "current" for each in story.citations)


def _status(citation: StoryCitation, statuses: Statuses) -> CitationStatus:
    return statuses.get(citation, "withdrawn")


def _blocks(blocks: Sequence[StoryBlock], statuses: Statuses, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        raise BadInput("a story is nested too deeply to be shown", hint="run it again from its Markdown")
    for block in blocks:
        inside = "".join(_blocks(block.blocks, statuses, depth + 1))
        text = _spans(block.spans, statuses)
        if block.kind == "heading":
            level = min(max(block.level, 1), 5) + 1  # the page has the only h1
            yield f"<h{level}>{text}</h{level}>"
        elif block.kind == "paragraph":
            yield f"<p>{text}</p>"
        elif block.kind == "item":
            yield f"<li>{text}{inside}</li>"
        elif block.kind == "quote":
            yield f"<blockquote>{text}{inside}</blockquote>"
        elif block.ordered:
            yield f'<ol start="{block.start}">{inside}</ol>'
        else:
            yield f"<ul>{inside}</ul>"


def _spans(spans: Sequence[StorySpan], statuses: Statuses) -> str:
    found = ""
    for (href, cites), group in groupby(spans, lambda span: (span.href, span.cites)):
        text = "".join(map(_text, group))
        if cites is not None:
            status = _status(cites, statuses)
            about = escape(f"{_named(cites)}, {status}")
            mark = "cite" if status == "current" else "cite moved"
            text = f'<a class="{mark}" href="#{name_of(cites)}" title="{about}">{text}</a>'
        elif href.startswith("https://"):
            text = f'<a href="{escape(href)}" rel="nofollow noopener noreferrer">{text}</a>'
        found += text
    return found


def _text(span: StorySpan) -> str:
    text = escape(span.text)
    for tag, is_so in (("code", span.code), ("em", span.emphasis), ("strong", span.strong)):
        text = f"<{tag}>{text}</{tag}>" if is_so else text
    return text


def _named(citation: StoryCitation) -> str:
    file = f", file {'/'.join(citation.key)}" if citation.key else ""
    return f"{citation.dataset}{file}, version {citation.version[7:19]}"


def _citation(citation: StoryCitation, status: CitationStatus, address: str) -> str:
    file = f", file {escape('/'.join(citation.key))}" if citation.key else ""
    name = escape(citation.dataset)
    if address.startswith(_LOCAL):
        name = f'<a href="{escape(address)}">{name}</a>'
    digests = " ".join(short_digest(each) for each in (citation.version, citation.digest) if each)
    return f'<li id="{name_of(citation)}">{name}{file} {digests} <span class="status">{status}</span></li>'
