"""Reads the Markdown of a story into blocks of plain text and links. Markup, images and HTML do not survive it.

CommonMark without HTML: a tag is text, an image is its description, and a link is kept only if it leads to `kfm:` or
`https:`. Size, lines, brackets and nesting are bounded before the parser sees inline text, so its time grows with the
size and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import msgspec

from kfm.errors import Refused, Unavailable
from kfm.model.jobs.story_record import NESTING, BlockKind, StoryBlock, StorySpan
from kfm.parsing.characters import is_printable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MOST_BYTES = 256 << 10
MOST_LINES = 10_000
MOST_BRACKETS = 10_000
MOST_ADDRESS = 2000  # characters of a link
CITATION = "kfm:"
_JOINERS = "\u200c\u200d"  # invisible, and part of how many languages are written
_PLACEHOLDER = "\ufffd"
# An address without user name, quotes, brackets, blanks or anything that a page must escape but `&`.
_HTTPS = re.compile(r"https://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?(?:[/?#][!#-;=?-\[\]_a-z~]*)?")
_CONTAINERS: dict[str, BlockKind] = {
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "list_item_open": "item",
    "blockquote_open": "quote",
}
_CLOSES = frozenset({"bullet_list_close", "ordered_list_close", "list_item_close", "blockquote_close"})


class FoundLink(NamedTuple):
    """A citation as it was written, and its line, counted from 1."""

    line: int
    address: str


class SourceText(NamedTuple):
    """A story before its citations are resolved: these are `href` of their spans, as they were written."""

    blocks: tuple[StoryBlock, ...]
    cited: list[FoundLink]


def library_version() -> str:
    """Return the version of the parser; empty if the extra `stories` is not installed."""
    from importlib import metadata

    try:
        return metadata.version("markdown-it-py")
    except metadata.PackageNotFoundError:
        return ""


def text_of(body: bytes, name: str) -> str:
    """Return the text of a source. Refused if it is too large, or not UTF-8."""
    if len(body) > MOST_BYTES:
        _refuse(name, f"it has {len(body)} bytes, more than {MOST_BYTES}", "divide the story into several datasets")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = body[: problem.start].count(b"\n") + 1
        _refuse(name, "it is not UTF-8", "save the file as UTF-8", line)
    lines = text.count("\n") + text.count("\r") + 1
    if lines > MOST_LINES:
        _refuse(name, f"it has {lines} lines, more than {MOST_LINES}", "divide the story into several datasets")
    brackets = text.count("[")
    if brackets > MOST_BRACKETS:
        _refuse(name, f"it has {brackets} opening brackets, more than {MOST_BRACKETS}", "write fewer links")
    return text


def read_story(text: str, name: str) -> SourceText:
    """Return the blocks of a story. Refused, with the line, if lists and quotes are nested too deeply."""
    tokens = _parser().parse(text)
    return _Blocks(name).read(tokens)


@cache
def _parser() -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
    except ModuleNotFoundError as problem:
        raise Unavailable(
            "stories need a library that is not installed", hint="pip install 'kansas-frontier-matrix[stories]'"
        ) from problem
    # A list and its item are two levels. At the limit of the parser text would be lost, and _Blocks refuses before it.
    found = MarkdownIt("commonmark", {"html": False, "maxNesting": 3 * NESTING})
    normal = found.normalizeLink
    found.normalizeLink = lambda url: url if _is_citation(url) else normal(url)  # type: ignore[method-assign]
    found.validateLink = _is_allowed  # type: ignore[method-assign]
    return found


def _is_citation(url: str) -> bool:
    return url[: len(CITATION)].lower() == CITATION


def _is_allowed(url: str) -> bool:
    """Return whether a link is kept; of any other the Markdown stays as text."""
    return _is_citation(url) or (len(url) <= MOST_ADDRESS and _HTTPS.fullmatch(url) is not None)


def _refuse(name: str, what: str, hint: str, line: int = 0) -> NoReturn:
    where = f", line {line}" if line else ""
    raise Refused(f"source {name}{where}: {what}", hint=hint)


class _Open(NamedTuple):
    block: StoryBlock
    inside: list[StoryBlock]


class _Blocks:
    """Builds blocks from the tokens of the parser, without recursion."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stack: list[_Open] = [_Open(StoryBlock(kind="quote"), [])]
        self._cited: list[FoundLink] = []
        self._level = 0  # of the heading that is open

    def read(self, tokens: Sequence[Token]) -> SourceText:
        for token in tokens:
            if token.type in _CONTAINERS:
                self._open(token)
            elif token.type in _CLOSES:
                self._close()
            elif token.type == "heading_open":
                self._level = int(token.tag[1:])
            elif token.type == "heading_close":
                self._level = 0
            elif token.type == "inline":
                self._text(_spans(token, self._cited))
            elif token.type in ("fence", "code_block"):
                self._text(_merged([StorySpan(text=" ".join(token.content.split()), code=True)]))
        return SourceText(tuple(self._stack[0].inside), self._cited)

    def _open(self, token: Token) -> None:
        kind = _CONTAINERS[token.type]
        depth = sum(each.block.kind != "item" for each in self._stack[1:]) + (kind != "item")
        if depth > NESTING:
            line = token.map[0] + 1 if token.map else 0
            what = f"lists and quotes are nested more than {NESTING} deep"
            _refuse(self._name, what, "write it flatter", line)
        ordered = token.type == "ordered_list_open"
        start = int(token.attrs.get("start", 1)) if ordered else 1
        self._stack.append(_Open(StoryBlock(kind=kind, ordered=ordered, start=start), []))

    def _close(self) -> None:
        block, inside = self._stack.pop()
        if inside:
            self._stack[-1].inside.append(msgspec.structs.replace(block, blocks=tuple(inside)))

    def _text(self, spans: tuple[StorySpan, ...]) -> None:
        if spans:
            kind: BlockKind = "heading" if self._level else "paragraph"
            self._stack[-1].inside.append(StoryBlock(kind=kind, level=self._level, spans=spans))


def _spans(token: Token, cited: list[FoundLink]) -> tuple[StorySpan, ...]:
    """Return the text of a block. Only what is listed here is kept; anything else is its content as text."""
    line = token.map[0] + 1 if token.map else 0
    emphasis = strong = 0
    href = ""
    found: list[StorySpan] = []
    for child in token.children or []:
        kind, text = child.type, child.content
        if kind == "em_open":
            emphasis += 1
        elif kind == "em_close":
            emphasis -= 1
        elif kind == "strong_open":
            strong += 1
        elif kind == "strong_close":
            strong -= 1
        elif kind == "link_open":
            href = str(child.attrs.get("href", ""))
            if _is_citation(href):
                cited.append(FoundLink(line, href))
        elif kind == "link_close":
            href = ""
        else:
            if kind in ("softbreak", "hardbreak"):
                line, text = line + 1, " "
            elif kind == "image":
                text = _description(child)
            shown: dict[str, Any] = {"emphasis": emphasis > 0, "strong": strong > 0, "href": href}
            found.append(StorySpan(text=text, code=kind == "code_inline", **shown))
    return _merged(found)


def _description(image: Token) -> str:
    """Return the text of an image, which is all that is kept of it."""
    return "".join(child.content for child in image.children or [] if child.type in ("text", "code_inline"))


def _merged(spans: Sequence[StorySpan]) -> tuple[StorySpan, ...]:
    """Return spans of visible characters, one blank where there were several, and neighbours that look alike as one."""
    found: list[StorySpan] = []
    pieces: list[str] = []
    before = ""  # the last character, so that blanks at the edges of spans count once
    for span in spans:
        text = _plain(span.text)
        if not before.strip():
            text = text.lstrip(" ")
        if not text:
            continue
        before = text[-1]
        if found and msgspec.structs.replace(span, text="") == msgspec.structs.replace(found[-1], text=""):
            pieces.append(text)
            continue
        if found:
            found[-1] = msgspec.structs.replace(found[-1], text="".join(pieces))
        found.append(span)
        pieces = [text]
    if found:
        found[-1] = msgspec.structs.replace(found[-1], text="".join(pieces).rstrip(" "))
        if not found[-1].text:
            found.pop()
    return tuple(found)


def _plain(text: str) -> str:
    """Return text without invisible characters: blanks become one blank, and what could hide or turn text around
    becomes a character that shows it."""
    blanks = " ".join(re.split(r"\s+", text))
    if is_printable(blanks):
        return blanks
    return "".join(c if c in _JOINERS or is_printable(c) else _PLACEHOLDER for c in blanks)
