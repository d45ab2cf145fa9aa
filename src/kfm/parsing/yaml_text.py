"""The texts of plain YAML (without quotes, in quotes, in block lines) and the cursor that moves over them.

node/yaml_text.mjs follows this file line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from kfm.parsing.lazy_regex import pattern

BLANK = ("", " ", "\t", "\n")
QUOTES = ("'", '"')
_PUNCTUATION = (",", "[", "]", "{", "}")
NEVER_FIRST = (*_PUNCTUATION, *QUOTES, "#", "&", "*", "!", "|", ">", "%", "@", "`")
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_DIGITS = {"x": 2, "u": 4, "U": 8}
SPACES = pattern(r"[ \t]*")
_INDENTATION = pattern(r" *")
LINE = pattern(r"[^\n]*")
_MARKER = pattern(r"(?:---|\.\.\.)(?:[ \t\n]|\Z)")
_IN_SINGLE = pattern(r"[^'\n \t]*")
_IN_DOUBLE = pattern(r'[^"\\\n \t]*')
IN_BLOCK = pattern(r"[^:\n \t]*")
IN_BRACKETS = pattern(r"[^:\n \t,\[\]{}]*")
_HEADER = pattern(r"[|>](?:([+-])?([1-9])?|([1-9])([+-]))(?=[ \t\n]|\Z)")
_HEXADECIMAL = pattern(r"[0-9a-fA-F]+\Z")


class Texts:
    """A text and a cursor. Between two values `at` is the start of the next content and `column` its indentation;
    `column` is -1 at the end of the document."""

    def __init__(self, text: str, fail: Callable[[int, str, str], NoReturn]) -> None:
        self.text = text
        self.at = 0
        self.column = -1
        self._fail = fail

    def _wrong(self, at: int, what: str, hint: str = "correct it there") -> NoReturn:
        self._fail(at, f"not YAML: {what}", hint)

    # -- the cursor

    def _here(self) -> str:
        return self.text[self.at : self.at + 1]

    def _next(self) -> str:
        return self.text[self.at + 1 : self.at + 2]

    def _skip(self, what: re.Pattern[str]) -> str:
        """Move the cursor over the text that matches the pattern here, and return that text."""
        start = self.at
        self.at = what.match(self.text, start).end()  # type: ignore[union-attr]
        return self.text[start : self.at]

    def _is_marker(self, at: int) -> bool:
        return _MARKER.match(self.text, at) is not None

    def _indentation(self, line: int) -> int:
        """Return the number of spaces at the start of the line that begins at `line`."""
        return len(_INDENTATION.match(self.text, line)[0])  # type: ignore[index]

    def _content(self) -> None:
        """Move from the start of a line to the next line with content, past blank lines and comments."""
        while True:
            start = self.at
            self._skip(_INDENTATION)
            indented = self.at
            self._skip(SPACES)
            if self._here() == "#":
                self._skip(LINE)
            if self._here() == "\n":
                self.at += 1
                continue
            self.column = self.at - start
            if not self._here() or (not self.column and self._is_marker(start)):
                self.column = -1
            elif self.at > indented:
                self._wrong(indented, "a tab where spaces belong", "indent with spaces, never tabs")
            return

    def _ends(self) -> bool:
        """Move over spaces and a comment; return whether the line ends there."""
        spaces = self._skip(SPACES)
        if self._here() == "#" and spaces:
            self._skip(LINE)
        return self._here() in ("", "\n")

    def _line_end(self, otherwise: str) -> None:
        """Move to the content after this line. Raise `otherwise` if the line holds more text."""
        if not self._ends():
            self._wrong(self.at, otherwise)
        self.at = min(self.at + 1, len(self.text))
        self._content()

    def _colon(self, at: int) -> int:
        """Return the position of the colon that makes a key of the text ending at `at`, or -1."""
        at = SPACES.match(self.text, at).end()  # type: ignore[union-attr]
        return at if self.text[at : at + 1] == ":" and self.text[at + 1 : at + 2] in BLANK else -1

    # -- texts without quotes

    def _may_begin(self, *, brackets: bool) -> None:
        here, following = self._here(), self._next()
        allowed = here not in NEVER_FIRST
        if here in ("-", "?", ":"):
            allowed = following not in BLANK and not (brackets and following in _PUNCTUATION)
        if not allowed and here == ":":
            self._fail(self.at, "a key must be text, found nothing", "quote it")
        if not allowed:
            self._wrong(self.at, f"a text without quotes cannot begin with {here}", "put it in quotes")

    def _plain_end(self, at: int, ordinary: re.Pattern[str]) -> int:
        """Return where a text without quotes ends on its line: before a comment or a colon, and inside brackets before
        punctuation."""
        while True:
            at = ordinary.match(self.text, at).end()  # type: ignore[union-attr]
            here, following = self.text[at : at + 1], self.text[at + 1 : at + 2]
            if here == ":":
                if following in BLANK or (ordinary is IN_BRACKETS and following in _PUNCTUATION):
                    return at
            elif here not in (" ", "\t") or following == "#":
                return at
            at += 1

    def _plain_lines(self, parent: int) -> str:
        """Return a text without quotes, including the lines on which it continues."""
        out = ""
        joint = ""
        while True:
            start = self.at
            self.at = self._plain_end(start, IN_BLOCK)
            if self._here() == ":":
                self._wrong(self.at, "mapping values are not allowed here")
            out += joint + self.text[start : self.at].rstrip(" \t")
            joint = self._joint(parent)
            if not joint:
                break
        self._line_end("")
        return out

    def _joint(self, parent: int) -> str:
        """Return the characters that join the next line to this text, and move to that line. If the text ends here,
        return nothing and do not move."""
        before = self.at
        self._skip(SPACES)
        gap, indent, start = self._blank_lines()
        ends = self._here() in ("", "#") or indent <= parent or (not indent and self._is_marker(start))
        if gap < 0 or ends:
            self.at = before
            return ""
        return "\n" * gap or " "

    def _blank_lines(self) -> tuple[int, int, int]:
        """Move over a line end and the blank lines after it.

        Return the number of blank lines (-1 if there is no line end here), and the indentation and the start of the
        line that follows them.
        """
        gap, indent, start = -1, 0, self.at
        while self._here() == "\n":
            self.at += 1
            gap += 1
            start = self.at
            indent = len(self._skip(_INDENTATION))
            self._skip(SPACES)
        return gap, indent, start

    # -- texts in quotes

    def _quoted(self, parent: int) -> str:
        start = self.at
        quote = self._here()
        ordinary = _IN_SINGLE if quote == "'" else _IN_DOUBLE
        self.at += 1
        out = ""
        while True:
            out += self._skip(ordinary)
            here = self._here()
            if not here:
                self._wrong(start, "a quoted text is not closed", "close it")
            if here == "\n":
                out += "\n" * self._fold(start, parent) or " "
            elif here in (" ", "\t"):
                spaces = self._skip(SPACES)
                out += "" if self._here() == "\n" else spaces
            elif here == "\\":
                out += self._escape(start, parent)
            elif quote == "'" and self._next() == "'":
                self.at += 2
                out += "'"
            else:
                self.at += 1
                return out

    def _fold(self, start: int, parent: int) -> int:
        """Move to where a quoted text continues; return the number of blank lines before it."""
        gap, indent, line = self._blank_lines()
        if self._here() and (indent <= parent or (not indent and self._is_marker(line))):
            self._wrong(start, "a quoted text is not closed", "close it")
        return gap

    def _escape(self, start: int, parent: int) -> str:
        letter = self._next()
        if letter == "\n":
            self.at += 1
            return "\n" * self._fold(start, parent)
        if letter in _DIGITS:
            return self._code()
        if letter not in _ESCAPES:
            self._wrong(self.at, "a backslash before a character that needs none", "write \\\\ for a backslash itself")
        self.at += 2
        return _ESCAPES[letter]

    def _code(self) -> str:
        """Return the character of a numeric escape. Two escapes of a surrogate pair, as JSON writes it, are one
        character."""
        begun = self.at
        code = self._number()
        if 0xD800 <= code < 0xDC00 and self.text.startswith("\\u", self.at):
            low = self._number()
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            self._wrong(begun, "this escape is no character")
        return chr(code)

    def _number(self) -> int:
        width = _DIGITS[self._next()]
        digits = self.text[self.at + 2 : self.at + 2 + width]
        if len(digits) < width or not _HEXADECIMAL.match(digits):
            self._wrong(self.at, f"here {width} hexadecimal digits are expected")
        self.at += 2 + width
        return int(digits, 16)

    # -- texts of whole lines

    def _block_text(self, parent: int) -> str:
        """Return the lines below `|` or `>` without their indentation."""
        folded = self._here() == ">"
        header = _HEADER.match(self.text, self.at)
        if header is None:
            self._wrong(self.at, "after | or > only + or - and a digit may follow")
        keep = header[1] or header[4]
        digit = header[2] or header[3]
        self.at = header.end()
        if not self._ends():
            self._wrong(self.at, "after | or > only + or - and a digit may follow")
        self.at = min(self.at + 1, len(self.text))
        least = max(parent + 1, 1)
        indent = least + int(digit) - 1 if digit else self._first_indentation(least)
        lines: list[str] = []
        ended = True
        while self.at < len(self.text):
            line = LINE.match(self.text, self.at)[0]  # type: ignore[index]
            if line[:indent].strip(" "):
                break
            lines.append(line[indent:])
            ended = self.at + len(line) < len(self.text)
            if not ended and not line.strip(" ") and (keep == "+" or (lines[-1] and not keep)):
                what = "the last line holds only spaces and has no line end, which YAML parsers read differently"
                self._fail(self.at, what, "remove the spaces, or end the line")
            self.at = min(self.at + len(line) + 1, len(self.text))
        after = self.at + self._indentation(self.at)
        if self.text[after : after + 1] == "\t":  # also on a blank line, which could belong to the text
            self._wrong(after, "a tab where spaces belong", "indent with spaces, never tabs")
        self._content()
        return _joined(lines, folded, keep, ended)

    def _first_indentation(self, least: int) -> int:
        """Return the indentation of the first line of a block text that is not blank."""
        at = self.at
        widest = least
        while True:
            spaces = self._indentation(at)
            following = self.text[at + spaces : at + spaces + 1]
            if following not in ("", "\n"):
                break
            widest = max(widest, spaces)
            at += spaces + 1
            if not following:
                return widest
        if least <= spaces < widest:
            self._wrong(self.at, "blank lines before a text are indented further than it")
        return max(spaces, widest)


def _joined(lines: list[str], folded: bool, keep: str | None, ended: bool) -> str:
    """Return the lines as one text. `keep` is `+` to keep all line ends after it and `-` to keep none; otherwise at
    most one stays. `ended` says whether the last line has a line end."""
    full = len(lines)
    while full and not lines[full - 1]:
        full -= 1
    out = before = ""
    gap = 0
    for line in lines[:full]:
        if not line:
            gap += 1
            continue
        if before:
            flowing = folded and before[0] not in " \t" and line[0] not in " \t"
            out += "\n" if not flowing else "" if gap else " "
        out += "\n" * gap + line
        gap = 0
        before = line
    ends = len(lines) - full + (1 if before else 0) - (0 if ended else 1)
    if keep == "+":
        return out + "\n" * ends
    return out + "\n" if before and ends and keep != "-" else out
