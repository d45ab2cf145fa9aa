"""Parses plain YAML: mappings and lists by indentation or in brackets, and texts, quoted or not.

It accepts the part of YAML that parsers of every version read alike, so that a file means the same in every language;
node/yaml.mjs follows this file line by line. It refuses, with the position, syntax that has two meanings or that
makes a small file large: tags, anchors, aliases, merge keys, duplicate keys, keys that are not text, pairs in lists, a
second document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from kfm.parsing.characters import printable
from kfm.parsing.yaml_scalars import kind, plain
from kfm.parsing.yaml_text import BLANK, IN_BLOCK, IN_BRACKETS, LINE, NEVER_FIRST, QUOTES, SPACES, Texts

MAX_DEPTH = 50
MAX_VALUES = 100_000
MAX_KEY = 1024

Path = tuple[str | int, ...]


class Yaml(Texts):
    """Parses one text and records the position of each part."""

    def __init__(self, text: str, fail: Callable[[int, str, str], NoReturn]) -> None:
        super().__init__(text, fail)
        self.places: dict[Path, int] = {}
        self._outermost = 0  # where the outermost brackets opened
        self._margin = -1  # the indentation of the line that the brackets belong to

    # -- the document

    def document(self) -> Any:
        self._content()
        if self._here() == "%" and self.column == 0:
            self._fail(self.at, "has a % directive", "remove it; the file is read as YAML 1.2")
        begun = self._marked("---")
        if begun:
            self._past_marker()
        if self.column < 0 and not begun:
            self._fail(self.at, "is empty", "write what belongs there; `kfm init` writes a whole kfm.yml")
        self._note((), self.at)
        value = self._node(-1, (), 0) if self.column >= 0 else None
        if self.column >= 0:
            self._wrong(self.at, "the indentation does not fit the lines before it")
        while self._marked("..."):
            self._past_marker()
        if self.at < len(self.text):
            self._fail(self.at, "a second document begins", "keep one document in a file")
        return value

    def _marked(self, marker: str) -> bool:
        return self.column < 0 and self.text.startswith(marker, self.at)

    def _past_marker(self) -> None:
        self.at += 3
        self._line_end("more text follows --- or ... on its line")

    # -- refused syntax

    def _note(self, path: Path, at: int) -> None:
        """Record the position of a value; that of a mapping's member is the position of its key."""
        self.places.setdefault(path, at)
        if len(self.places) > MAX_VALUES:
            self._fail(at, f"holds more than {MAX_VALUES} values", "keep data out of settings files")

    def _guard(self) -> None:
        here = self._here()
        if here in ("&", "*"):
            self._fail(self.at, "anchors (&) and aliases (*) are not read", "write it out, or quote the text")
        if here == "!":
            self._fail(self.at, "tags (!) are not read", "remove the tag, or quote the text")
        if here == "?" and self._next() in BLANK:
            self._fail(self.at, "a key must be text", "write it before its colon, without ?")

    def _deeper(self, depth: int) -> None:
        if depth >= MAX_DEPTH:
            self._fail(self.at, f"nested deeper than {MAX_DEPTH} levels", "flatten it")

    # -- by indentation

    def _node(self, parent: int, path: Path, depth: int) -> Any:
        """Parse the value that begins here, in `column`, inside a value that is indented by `parent`."""
        self._guard()
        if self._is_item():
            return self._list(path, depth)
        if self._key_end() >= 0:
            return self._mapping(path, depth)
        return self._inline(parent, path, depth)

    def _is_item(self) -> bool:
        return self._here() == "-" and self._next() in BLANK

    def _list(self, path: Path, depth: int) -> list[Any]:
        self._deeper(depth)
        column = self.column
        items: list[Any] = []
        while self.column == column and self._is_item():
            here = (*path, len(items))
            dash = self.at
            self.at += 1
            if self._ends():
                self._line_end("")
                further = self.column > column
                self._note(here, self.at if further else dash)
                items.append(self._node(column, here, depth + 1) if further else None)
            else:
                if "\t" in self.text[dash : self.at]:
                    self._wrong(dash + 1, "a tab where spaces belong", "put spaces after the dash, never tabs")
                self._note(here, self.at)
                self.column += self.at - dash
                items.append(self._node(column, here, depth + 1))
            self._fits(column)
        return items

    def _fits(self, column: int) -> None:
        if self.column > column:
            self._wrong(self.at, "the indentation does not fit the lines before it")

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        self._deeper(depth)
        column = self.column
        found: dict[str, Any] = {}
        while self.column == column:
            self._guard()
            if self._is_item():
                self._wrong(self.at, "a list item is among the keys of a mapping")
            end = self._key_end()
            if end < 0:
                self._wrong(self.at, "here a key and its colon are expected")
            start = self.at
            key = self._key(end, found)
            here = (*path, key)
            self._note(here, start)
            self.at = self.text.index(":", end) + 1
            if self._ends():
                self._line_end("")
                below = self.column > column or (self.column == column and self._is_item())
                found[key] = self._node(column, here, depth + 1) if below else None
            else:
                self._guard()
                if self._is_item():
                    self._wrong(self.at, "a list item must begin on a line of its own")
                found[key] = self._inline(column, here, depth + 1)
            self._fits(column)
        return found

    def _inline(self, parent: int, path: Path, depth: int) -> Any:
        """Parse a text or a value in brackets; the line must end after it."""
        start = self.at
        here = self._here()
        if here in ("|", ">"):
            return self._block_text(parent)
        if here in ("[", "{"):
            self._outermost, self._margin = start, parent
            value = self._flow(path, depth)
            if self._colon(self.at) >= 0:
                self._fail(start, "a key must be text", "quote it if it begins with [ or {")
            self._line_end("more text follows a closing bracket")
            return value
        if here in QUOTES:
            text = self._quoted(parent)
            if self._colon(self.at) >= 0:
                self._wrong(self._colon(self.at), "mapping values are not allowed here")
            self._line_end("more text follows a quoted text")
            return text
        self._may_begin(brackets=False)
        return plain(self._plain_lines(parent), lambda what, hint: self._fail(start, what, hint))

    # -- keys

    def _key_end(self) -> int:
        """Return where the key that begins here ends if its colon is on this line; else -1."""
        here = self._here()
        if here in QUOTES:
            return self._quoted_key_end(here)
        if here in NEVER_FIRST:
            return -1
        end = self._plain_end(self.at, IN_BLOCK)
        return end if self.text[end : end + 1] == ":" else -1

    def _quoted_key_end(self, quote: str) -> int:
        at = self.at + 1
        while True:
            here, following = self.text[at : at + 1], self.text[at + 1 : at + 2]
            if here in ("", "\n") or (here == "\\" and following in ("", "\n")):
                return -1
            if (here == "\\" and quote == '"') or (here == following == quote == "'"):
                at += 2
            elif here != quote:
                at += 1
            else:
                return at + 1 if self._colon(at + 1) >= 0 else -1

    def _key(self, end: int, found: dict[str, Any]) -> str:
        """Return the key from here to `end`, and move over it if it is quoted. A key must be text and must not
        repeat."""
        start = self.at
        if self._here() in QUOTES:
            key: Any = self._quoted(self._margin)
        else:
            key = self.text[start:end].rstrip(" \t")
            if key == "<<":
                self._fail(start, "merge keys (<<) are not read", "write the keys out")
            key = plain(key, lambda what, hint: self._fail(start, what, hint))
        if not isinstance(key, str):
            self._fail(start, f"a key must be text, found {kind(key)}", "quote it")
        if len(key) > MAX_KEY:
            self._fail(start, f"a key is longer than {MAX_KEY} characters", "shorten it")
        if key in found:
            self._fail(start, f"the key {printable(key)} is given twice", "keep one of them")
        return key

    # -- in brackets

    def _flow(self, path: Path, depth: int) -> Any:
        self._deeper(depth)
        start = self.at
        self.at += 1
        if self.text[start] == "[":
            return self._flow_list(start, path, depth)
        return self._flow_mapping(start, path, depth)

    def _flow_list(self, start: int, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        while self._in_flow(start) != "]":
            here = (*path, len(items))
            self._note(here, self.at)
            items.append(self._flow_value(here, depth + 1))
            if self._in_flow(start) == ":":
                self._wrong(self.at, "a pair is in a list", "write it as {key: value}")
            self._separated("]")
        self.at += 1
        return items

    def _flow_mapping(self, start: int, path: Path, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._in_flow(start) != "}":
            self._guard()
            begun = self.at
            if self._here() in ("[", "{"):
                self._fail(begun, "a key must be text", "quote it if it begins with [ or {")
            if self._here() in QUOTES:
                key = self._key(begun, found)
            else:
                self._may_begin(brackets=True)
                end = self._plain_end(begun, IN_BRACKETS)
                key = self._key(end, found)
                self.at = end
            self._skip(SPACES)
            if self._here() != ":":
                self._wrong(self.at, "here a colon is expected", "write {key: value}")
            self.at += 1
            here = (*path, key)
            self._note(here, begun)
            nothing = self._in_flow(start) in (",", "}")
            found[key] = None if nothing else self._flow_value(here, depth + 1)
            self._in_flow(start)
            self._separated("}")
        self.at += 1
        return found

    def _in_flow(self, start: int) -> str:
        """Move over spaces, line ends and comments. Fail if the text ends before the bracket at `start` is closed."""
        line = -1
        while True:
            spaces = self._skip(SPACES)
            if self._here() == "#" and (spaces or self.text[self.at - 1] == "\n"):
                self._skip(LINE)
            here = self._here()
            if here == "\n":
                self.at += 1
                line = self.at
                continue
            if not here or (self.text[self.at - 1] == "\n" and self._is_marker(self.at)):
                self._wrong(start, f"a {self.text[start]} is not closed", "close it")
            if line >= 0:
                self._indented(line, closes=start == self._outermost and here in ("]", "}"))
            return here

    def _indented(self, line: int, *, closes: bool) -> None:
        """Fail unless a line in brackets is indented further than the line they belong to; a closing bracket may be
        level."""
        indent = self._indentation(line)
        if indent > self._margin or (closes and line + indent == self.at and indent == self._margin):
            return
        if line + indent < self.at:
            self._wrong(line + indent, "a tab where spaces belong", "indent with spaces, never tabs")
        what = "a line in brackets must be indented further than the line that opens them"
        self._wrong(self.at, what, "indent it, or close the bracket before it")

    def _separated(self, closing: str) -> None:
        if self._here() == ",":
            self.at += 1
        elif self._here() != closing:
            self._wrong(self.at, f"here a comma or {closing} is expected")

    def _flow_value(self, path: Path, depth: int) -> Any:
        start = self.at
        self._guard()
        here = self._here()
        if here in ("[", "{"):
            return self._flow(path, depth)
        if here in QUOTES:
            return self._quoted(self._margin)
        self._may_begin(brackets=True)
        self.at = self._plain_end(start, IN_BRACKETS)
        text = self.text[start : self.at].rstrip(" \t")
        return plain(text, lambda what, hint: self._fail(start, what, hint))
