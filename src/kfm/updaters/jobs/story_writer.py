"""Writes the record of a story as Markdown. The result is read back: it has the same text and the same links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from kfm.model.jobs.story_record import Story, StoryBlock, StorySpan
from kfm.updaters.jobs.story_source import read_story

_SPECIAL = re.compile(r"[\\`*_\[\]<>&#~|]")
LAST = 999_999_999  # the largest number of an item
_BEGINS = re.compile(r"[-+=]|[0-9]{1,9}[.)]")


def markdown_of(story: Story) -> str:
    """Return a story as Markdown, each citation with its full digest."""
    return "\n".join(_lines(story.blocks)) + "\n"


def _lines(blocks: Sequence[StoryBlock]) -> Iterator[str]:
    before: StoryBlock | None = None
    other = False  # of two lists in a row the second has another mark, which ends the first
    for block in blocks:
        if before is not None:
            yield ""
        other = before is not None and before.kind == block.kind == "list" and not other
        before = block
        if block.kind == "heading":
            yield "#" * block.level + " " + _inline(block)
        elif block.kind == "paragraph":
            yield _inline(block)
        elif block.kind == "quote":
            yield from (f"> {line}".rstrip() for line in _lines(block.blocks))
        else:
            yield from _items(block, other=other)


def _items(block: StoryBlock, *, other: bool) -> Iterator[str]:
    for number, item in enumerate(block.blocks, block.start):
        mark = f"{min(number, LAST)}{')' if other else '.'} " if block.ordered else "* " if other else "- "
        lines = _lines(item.blocks)
        yield mark + next(lines)
        yield from (" " * len(mark) + line if line else "" for line in lines)


def _inline(block: StoryBlock) -> str:
    """Return the text of a block with its marks; without those of emphasis and code where they would read otherwise."""
    spans = tuple(map(_addressed, block.spans))
    marked = _marked(spans)
    if _reads_as(marked, spans):
        return marked
    return _marked([StorySpan(text=span.text, href=span.href) for span in spans])


def _addressed(span: StorySpan) -> StorySpan:
    if span.cites is None:
        return span
    return msgspec.structs.replace(span, href=span.cites.address, cites=None)


def _reads_as(text: str, spans: tuple[StorySpan, ...]) -> bool:
    blocks = read_story(text, "").blocks
    return len(blocks) == 1 and blocks[0] == StoryBlock(kind="paragraph", spans=spans)


def _marked(spans: Sequence[StorySpan]) -> str:
    found = ""
    for href, group in groupby(spans, lambda span: span.href):
        text = _emphasized(list(group))
        if href:
            found = f"{found[:-1]}\\!" if found.endswith("!") else found
            text = f"[{text}](<{href.replace('&', '&amp;')}>)"
        found += text
    begins = _BEGINS.match(found)
    if begins is None:
        return found
    at = begins.end() - 1
    return f"{found[:at]}\\{found[at:]}"


def _emphasized(spans: Sequence[StorySpan]) -> str:
    found = ""
    open_marks: list[str] = []
    for span in spans:
        wanted = [mark for mark, is_so in (("**", span.strong), ("*", span.emphasis)) if is_so]
        while any(mark not in wanted for mark in open_marks):
            found += open_marks.pop()
        for mark in wanted:
            if mark not in open_marks:
                open_marks.append(mark)
                found += mark
        found += _code(span.text) if span.code else _SPECIAL.sub(r"\\\g<0>", span.text)
    return found + "".join(reversed(open_marks))


def _code(text: str) -> str:
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    edge = " " if text[:1] in ("`", " ") or text[-1:] in ("`", " ") else ""
    return f"{fence}{edge}{text}{edge}{fence}"
