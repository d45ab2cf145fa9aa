"""Turns bytes into text in blocks of whole lines, with a limit on what is in memory at once."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import BinaryIO

from kfm.model.records import DataContract
from kfm.parsing.encodings import KNOWN, encoding_of, input_codec
from kfm.validation.findings import SOURCE, Outcome, Unreadable

BLOCK = 1 << 16
MAX_LINE = 1 << 22  # characters


def encoding_problem(name: str) -> str:
    """Return why a name cannot be the encoding of a source; "" if it can."""
    return "" if encoding_of(name) else f"is none of these: {', '.join(KNOWN)}"


def text_blocks(body: BinaryIO, encoding: str) -> Iterator[str]:
    """Yield the text, decoded strictly. The text before a byte that cannot be decoded is yielded first."""
    chunk = body.read(BLOCK)
    while 0 < len(chunk) < 3 and (more := body.read(BLOCK)):
        chunk += more
    codec, mark = input_codec(encoding, chunk)
    decoder = codecs.getincrementaldecoder(codec)("strict")
    final = not chunk
    chunk = chunk[mark:]
    while True:
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
        if final:
            return
        chunk = body.read(BLOCK)
        final = not chunk


def line_blocks(body: BinaryIO, encoding: str) -> Iterator[str]:
    """Yield runs of whole lines, each with its own ending (`\\n`, `\\r\\n` or `\\r`); only the last may lack one."""
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
    """Check a plain text source: every byte must decode. A flaw is located by its line; lines are not rows."""
    line = 1
    with closing(open_body()) as body:
        try:
            for text in text_blocks(body, contract.encoding):
                line += text.count("\n")
        except Unreadable as flaw:
            out.add(SOURCE, flaw.rule, flaw.message, line)
