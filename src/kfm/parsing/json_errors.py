"""The first place where a text stops being JSON, and the reason, the same in every language.

The errors of json.loads differ between versions of Python, so json.loads only decides whether a text is JSON. A text
that is nested too deep fails at the first bracket that is too deep.
"""

from __future__ import annotations

import re

TOO_DEEP = "too deep"

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORD = re.compile(r"null|true|false|NaN|-?Infinity")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')


class JsonFault(Exception):
    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


def first_fault(text: str, max_depth: int) -> JsonFault | None:
    """Return the first place where this is not JSON or is nested too deep; None if it is JSON."""
    try:
        _Scan(text, max_depth).document()
    except JsonFault as fault:
        return fault
    return None


class _Scan:
    """Scans a text once for the first place that is not JSON. `open` holds one bracket for each open level."""

    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.at = 0
        self.open: list[str] = []
        self.max_depth = max_depth

    def document(self) -> None:
        self._value()
        while self.open:
            self._after_an_item()
        if self._next():
            raise JsonFault(self.at, "extra data")

    def _next(self) -> str:
        """Skip white space and return the next character; empty at the end."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def _value(self) -> None:
        opening = self._next()
        if opening == '"':
            self._string()
        elif opening in ("{", "["):
            self._opened(opening)
        else:
            found = _WORD.match(self.text, self.at) or _NUMBER.match(self.text, self.at)
            if found is None:
                raise JsonFault(self.at, "expecting value")
            self.at = found.end()

    def _opened(self, opening: str) -> None:
        if len(self.open) >= self.max_depth:
            raise JsonFault(self.at, TOO_DEEP)
        self.at += 1
        if self._next() == ("}" if opening == "{" else "]"):
            self.at += 1
            return
        self.open.append(opening)
        if opening == "{":
            self._key()
        self._value()

    def _after_an_item(self) -> None:
        following = self._next()
        closing = "}" if self.open[-1] == "{" else "]"
        if following not in (",", closing) or not following:
            raise JsonFault(self.at, "expecting ',' delimiter")
        self.at += 1
        if following == closing:
            self.open.pop()
            return
        if closing == "}":
            self._key()
        self._value()

    def _key(self) -> None:
        if self._next() != '"':
            raise JsonFault(self.at, "expecting property name enclosed in double quotes")
        self._string()
        if self._next() != ":":
            raise JsonFault(self.at, "expecting ':' delimiter")
        self.at += 1

    def _string(self) -> None:
        start = self.at
        self.at += 1
        while True:
            self.at = _PLAIN_TEXT.match(self.text, self.at).end()  # type: ignore[union-attr]
            following = self.text[self.at : self.at + 1]
            if following == '"':
                self.at += 1
                return
            if not following or (following == "\\" and self.at + 1 == len(self.text)):
                raise JsonFault(start, "unterminated string starting")
            if following != "\\":
                raise JsonFault(self.at, "invalid control character")
            escape = _ESCAPE.match(self.text, self.at)
            if escape is None:
                long = self.text[self.at + 1] == "u"
                raise JsonFault(self.at, "invalid \\uxxxx escape" if long else "invalid \\escape")
            self.at = escape.end()
