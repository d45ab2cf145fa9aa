"""Finds the records of one list inside a JSON document without reading the document into memory.

The search reads only brackets and strings. Each record, and the document with its list emptied, is then parsed strictly
on its own; together they are the whole document, so nothing malformed passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from kfm.errors import BadInput
from kfm.parsing.strict_json import decode
from kfm.validation.findings import Unreadable

CHUNK = 1 << 18
MAX_RECORD = 1 << 25  # bytes of one record, and of everything around the list

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR = re.compile(rb'[^\s,\[\]{}":]++')
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+[\[\]{}]', re.DOTALL)


class ListInJson:
    """The list at the top of a document, or in the member `root` of the object at its top.

    Read `records` to the end; then `head` and `tail` are the bytes before and after the records. `alone` is the
    document itself if it has no list; with a `root`, only if that is allowed.
    """

    def __init__(self, body: BinaryIO, root: str, *, alone: bool = False) -> None:
        self.head = b""
        self.tail = b""
        self.alone: bytes | None = None
        self._body = body
        self._root = root
        self._may_be_alone = alone
        self._buffer = b""
        self._at = 0
        self._ended = False

    def records(self) -> Iterator[bytes]:
        if not self._find_list():
            return
        if self._peek() == b"]":
            self._finish()
            return
        while True:
            end = self._value_end()
            record = self._buffer[self._at : end]
            self._at = end
            yield record
            sign = self._peek()
            if sign == b"]":
                self._finish()
                return
            if sign != b",":
                raise _malformed("a comma or the end of the list was expected")
            self._at += 1
            self._peek()

    def _find_list(self) -> bool:
        """Advance to the first byte after the opening bracket, with `head` up to it. Return False if there is no
        list."""
        sign = self._peek(keep=True)
        if self._buffer.startswith(b"\xef\xbb\xbf"):
            raise _malformed("it begins with a byte order mark")
        if not self._root:
            if sign == b"[":
                self._open()
                return True
            self.alone = self._everything()
            return False
        if sign != b"{":
            raise self._not_there("the document is not an object")
        self._at += 1
        while self._peek(keep=True) == b'"':
            end = self._value_end(keep=True)
            try:
                name = decode(self._buffer[self._at : end], "a key")
            except BadInput:
                raise _malformed("a key cannot be read") from None
            self._at = end
            if self._peek(keep=True) != b":":
                raise _malformed("a colon was expected")
            self._at += 1
            sign = self._peek(keep=True)
            if name == self._root:
                if sign != b"[":
                    break
                self._open()
                return True
            self._at = self._value_end(keep=True)
            if self._peek(keep=True) != b",":
                break
            self._at += 1
        if not self._peek(keep=True):
            raise _malformed("it ends inside an object")
        if self._may_be_alone:
            self.alone = self._everything()
            return False
        raise self._not_there("the list of records is not where the contract says")

    def _not_there(self, what: str) -> Unreadable:
        """Return the error for a document without the list of records. If the document is not JSON at all, the error
        says so."""
        try:
            decode(self._everything(), "the document")
        except BadInput as error:
            return Unreadable("json.malformed", f"{error.message}; the source is held")
        except Unreadable:  # too long to be parsed whole
            pass
        return Unreadable("json.root", f"{what}; the source is held")

    def _open(self) -> None:
        self._at += 1
        self.head = self._buffer[: self._at]

    def _finish(self) -> None:
        self._buffer = self._buffer[self._at :]
        self._at = 0
        self.tail = self._everything()

    def _everything(self) -> bytes:
        while self._more(keep=True, double=True):
            pass
        return self._buffer

    def _peek(self, keep: bool = False) -> bytes:
        """Return the next byte that is not white space, without moving past it; empty at the end."""
        while True:
            found = _SPACE.match(self._buffer, self._at)
            assert found is not None
            self._at = found.end()
            if self._at < len(self._buffer) or not self._more(keep):
                return self._buffer[self._at : self._at + 1]

    def _value_end(self, keep: bool = False) -> int:
        """Return where the value that begins here ends; its bytes are in the buffer from `_at` on. A value that is cut
        off is scanned again once twice as much was read, so the work stays linear."""
        depth = 0
        done = 0  # how far from `_at` the scan came
        while True:
            here = self._at + done
            sign = self._buffer[self._at : self._at + 1]
            whole = None
            if sign in (b"[", b"{"):
                whole = _TO_BRACKET.match(self._buffer, here)
            elif sign == b'"':
                whole = _STRING.match(self._buffer, here)
            else:
                whole = _SCALAR.match(self._buffer, here)
                if whole is None:
                    raise _malformed("a value was expected")
                if whole.end() == len(self._buffer) and self._more(keep, double=True):
                    continue  # a number may continue in the next block
            if whole is None:
                if not self._more(keep, double=True):
                    raise _malformed("it ends inside a value")
                continue
            done = whole.end() - self._at
            if sign in (b"[", b"{"):
                depth += 1 if self._buffer[whole.end() - 1] in b"[{" else -1
                if depth:
                    continue
            return self._at + done

    def _more(self, keep: bool = False, double: bool = False) -> bool:
        """Read more bytes into the buffer. Bytes before `_at` are dropped unless they are kept for the head."""
        if self._ended:
            return False
        if not keep and self._at:
            self._buffer = self._buffer[self._at :]
            self._at = 0
        room = MAX_RECORD + CHUNK - len(self._buffer)
        if room <= 0:
            raise too_long()
        chunk = self._body.read(min(room, max(CHUNK, len(self._buffer)) if double else CHUNK))
        self._buffer += chunk
        self._ended = not chunk
        return not self._ended


def lines(body: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of NDJSON that are not blank, without their endings."""
    rest = b""
    while chunk := body.read(CHUNK):
        found = chunk.split(b"\n")
        found[0] = rest + found[0]
        rest = found.pop()
        for line in found:
            if line := line.strip(b" \t\r"):
                yield line
        if len(rest) > MAX_RECORD:
            raise too_long()
    if rest := rest.strip(b" \t\r"):
        yield rest


def too_long() -> Unreadable:
    return Unreadable(
        "too-long",
        f"a record is longer than {MAX_RECORD >> 20} MiB, or so is what surrounds the list (a document without "
        "a list is one record); the source is held",
    )


def _malformed(what: str) -> Unreadable:
    return Unreadable("json.malformed", f"this is not JSON: {what}; the source is held")
