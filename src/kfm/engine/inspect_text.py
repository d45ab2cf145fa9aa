"""Bytes to text in blocks of whole lines, with a bound on what is held at once."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import BinaryIO

from kfm.contract.records import DataContract
from kfm.engine.inspect_findings import SOURCE, Outcome, Unreadable

BLOCK = 1 << 16
MAX_LINE = 1 << 22  # characters

# Codecs that are no character sets, or whose answer depends on the machine.
_REFUSED = {"idna", "mbcs", "oem", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7"}


def encoding_problem(name: str) -> str:
    """Why a name cannot be the encoding of a source, or empty."""
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        return "is not an encoding this Python knows"
    if not getattr(info, "_is_text_encoding", True) or info.name.replace("-", "_") in _REFUSED:
        return "is not an encoding of plain text"
    return ""


def reading_codec(name: str) -> str:
    """The codec to read with: a byte order mark before UTF-8 is tolerated and is no part of the text."""
    return "utf-8-sig" if codecs.lookup(name).name == "utf-8" else name


def writing_codec(name: str) -> str:
    """The codec to write with: no byte order mark where none is needed."""
    return "utf-8" if codecs.lookup(name).name in ("utf-8", "utf-8-sig") else name


def text_blocks(body: BinaryIO, encoding: str) -> Iterator[str]:
    """The text, decoded strictly. What stands before a byte that cannot be decoded is given first."""
    decoder = codecs.getincrementaldecoder(reading_codec(encoding))("strict")
    final = False
    while not final:
        chunk = body.read(BLOCK)
        final = not chunk
        pending, state = decoder.getstate()
        try:
            text = decoder.decode(chunk, final)
        except UnicodeDecodeError as error:
            decoder.setstate((pending, state))
            good = decoder.decode(chunk[: max(0, error.start - len(pending))])
            if good:
                yield good
            raise Unreadable("encoding", "a byte cannot be read in the declared encoding; the source is held") from None
        if text:
            yield text


def line_blocks(body: BinaryIO, encoding: str) -> Iterator[str]:
    """Runs of whole lines, each with its own ending (`\\n`, `\\r\\n` or `\\r`); only the last may lack one."""
    rest = ""
    for text in text_blocks(body, encoding):
        nul = text.find("\0")
        if nul >= 0:
            text = text[:nul]
        cut = text.rfind("\n") + 1 or text.rfind("\r", 0, -1) + 1  # a last \r may be half of \r\n
        if cut:
            yield rest + text[:cut]
            rest = text[cut:]
        else:
            if rest.endswith("\r") and not text.startswith("\n"):
                yield rest
                rest = ""
            rest += text
        if nul >= 0:
            raise Unreadable("nul", "there is a NUL character; the source is held")
        if len(rest) > MAX_LINE:
            raise Unreadable("too-long", f"a line is longer than {MAX_LINE:,} characters; the source is held")
    if rest:
        yield rest


def inspect_text(open_body: Callable[[], BinaryIO], contract: DataContract, out: Outcome) -> None:
    """Plain text: every byte can be decoded. A flaw is placed by its line; lines are not rows."""
    line = 1
    with closing(open_body()) as body:
        try:
            for text in text_blocks(body, contract.encoding):
                line += text.count("\n")
        except Unreadable as flaw:
            out.add(SOURCE, flaw.rule, flaw.message, line)
