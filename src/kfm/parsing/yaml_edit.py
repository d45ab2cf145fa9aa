"""Changes values in the text of a YAML file and leaves every other byte as it is.

ruamel.yaml finds the position of each value, and a change replaces that part of the text. A round trip through
ruamel.yaml would also rewrite spaces, indentation and line ends that the caller did not change: docs/decisions/0019.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from kfm.errors import BadInput
from kfm.parsing import documents
from kfm.parsing.characters import is_printable
from kfm.parsing.dates import is_date
from kfm.parsing.documents import Path
from kfm.parsing.lazy_regex import pattern

_PLAIN = pattern(r"[A-Za-z](?:[A-Za-z0-9 ._/-]*[A-Za-z0-9])?")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "none", "y", "n"}  # to a reader of YAML 1.1, too


class NotEditable(Exception):
    """Raised if a value cannot be changed without also changing other parts of the file."""


class Block(dict[str, Any]):
    """A mapping that is written with one line for each key, below its comment if it has one, which may have several
    lines. `notes` are comments behind the lines of single keys. Other values are written on one line."""

    def __init__(self, value: dict[str, Any], comment: str = "", notes: dict[str, str] | None = None) -> None:
        super().__init__(value)
        self.comment = comment
        self.notes = notes or {}


class Lines(list[Any]):
    """A list that is written with one line for each entry, each with its comment behind it, if it has one. It can only
    be the value of a key in a Block."""

    def __init__(self, value: list[Any], notes: list[str] | None = None) -> None:
        super().__init__(value)
        self.notes = notes or [""] * len(value)


class Node:
    """A value in the text, from character `start` to `end`. `entries` are pairs of key and value; in a list the keys
    are None, and for a text `entries` is None. A value in block form ends where the next element starts."""

    __slots__ = ("end", "entries", "is_flow", "start", "style", "text")

    def __init__(self, composed: Any, text: str) -> None:
        self.start: int = composed.start_mark.index
        self.end: int = composed.end_mark.index
        self.text: str = ""
        self.style: str | None = None
        self.is_flow = False
        self.entries: list[tuple[Node | None, Node]] | None = None
        if isinstance(composed.value, str):
            self.text, self.style = composed.value, composed.style
        else:
            self.is_flow = bool(composed.flow_style)
            pairs = (each if isinstance(each, tuple) else (None, each) for each in composed.value)
            self.entries = [(None if key is None else Node(key, text), Node(value, text)) for key, value in pairs]
            for before, node in self.entries:
                if before is not None and node.start == node.end:  # ruamel.yaml places it before the next key
                    node.start = node.end = text.index(":", before.end) + 1

    @property
    def is_block_text(self) -> bool:
        return self.style in ("|", ">")

    def below(self, part: str | int) -> Found | None:
        for at, (key, node) in enumerate(self.entries or ()):
            if (at if key is None else key.text) == part:
                return Found(node, key, self)
        return None

    def texts(self) -> list[Node]:
        """Return all keys and texts in this value."""
        if self.entries is None:
            return [self]
        return [text for entry in self.entries for part in entry if part is not None for text in part.texts()]


class Found(NamedTuple):
    """A node, the node of its key (None in a list) and the mapping or list that holds it."""

    node: Node
    key: Node | None
    around: Node | None


class Splice(NamedTuple):
    """One replacement: the characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str


class YamlEdit:
    """The text of a YAML file and the changes to it. `where` names the file in errors. With `plain`, a text is written
    without quotes where that is safe. Raises BadInput if KFM cannot read the file."""

    def __init__(self, body: bytes, where: str, *, plain: bool = True) -> None:
        self._where = where
        self._write = scalar if plain else quoted
        self._wanted = copy.deepcopy(documents.read(body, where, json=False).value)
        text = body.decode("utf-8")
        self._bom = text[:1] if text[:1] == "\ufeff" else ""
        self._text = text.removeprefix("\ufeff")
        self._tree: Node | None = None
        self._splices: list[Splice] = []
        self._around: Path | None = None  # the mapping or list to which all of them only add

    @property
    def value(self) -> Any:
        """The value of the file after the changes."""
        return self._wanted

    def body(self) -> bytes:
        """Return the changed file. Raise NotEditable unless KFM reads exactly the wanted value from it."""
        self._apply()
        body = (self._bom + self._text).encode()
        try:
            found = documents.read(body, self._where, json=False).value
        except BadInput:
            raise NotEditable from None
        if not same(found, self._wanted):
            raise NotEditable
        return body

    def set(self, path: Path, value: Any) -> None:
        """Replace the value at `path`, or add it at the end of the mapping or list that holds it. Raise NotEditable if
        there is no such mapping or list, or if a comment would be lost."""
        around = self._parent(path)
        is_new = path[-1] not in around if isinstance(around, dict) else path[-1] == len(around)
        if not is_new and same(around[path[-1]], value):
            return
        plan = self._added if is_new else self._replaced
        changes = plan(path, value)
        only_adds = is_new and self._around == path[:-1]
        if changes is None or (not only_adds and any(self._touches(change) for change in changes)):
            self._apply()
            changes = plan(path, value)
        if changes is None:
            raise NotEditable
        self._around = path[:-1] if is_new and (only_adds or not self._splices) else None
        self._splices += changes
        if not around:
            self._apply()  # a second entry has a comma before it, the first has none
        plain = json.loads(json.dumps(value))
        if is_new and isinstance(around, list):
            around.append(plain)
        else:
            around[path[-1]] = plain

    def remove(self, path: Path) -> None:
        """Remove a key and its value, with the comment on their line. Raise NotEditable if another comment would be
        lost."""
        around = self._parent(path)
        if not isinstance(around, dict) or path[-1] not in around:
            raise NotEditable
        self._apply()
        changes = self._removed(path)
        if changes is None:
            raise NotEditable
        self._splices += changes
        self._apply()
        del around[path[-1]]

    def _parent(self, path: Path) -> Any:
        value = self._wanted
        try:
            for part in path[:-1]:
                value = value[part]
        except (KeyError, IndexError, TypeError):
            raise NotEditable from None
        if not isinstance(value, dict if isinstance(path[-1], str) else list):
            raise NotEditable
        if isinstance(value, list) and not (isinstance(path[-1], int) and 0 <= path[-1] <= len(value)):
            raise NotEditable
        return value

    # ------------------------------------------------------------------------------------------ the text and its nodes

    def _touches(self, change: Splice) -> bool:
        """Return whether a change overlaps an earlier change or is next to one."""
        return any(change.start <= other.end and other.start <= change.end for other in self._splices)

    def _apply(self) -> None:
        if not self._splices:
            return
        out, at = "", 0
        for change in sorted(self._splices, key=lambda each: each.start):
            out += self._text[at : change.start] + change.text
            at = change.end
        self._text, self._tree, self._splices = out + self._text[at:], None, []

    def _root(self) -> Node | None:
        if self._tree is None:
            from ruamel.yaml import YAML
            from ruamel.yaml.error import YAMLError

            try:
                composed = YAML(typ="safe", pure=True).compose(self._text)
                self._tree = None if composed is None else Node(composed, self._text)
            except (YAMLError, ValueError, RecursionError):
                raise NotEditable from None
        return self._tree

    def _find(self, path: Path) -> Found | None:
        root = self._root()
        if root is None:
            return None
        found = Found(root, None, None)
        for part in path:
            step = found.node.below(part)
            if step is None:
                return None
            found = step
        return found

    def _end(self, node: Node) -> int:
        """Return the position after the last character of a value."""
        if node.entries and not node.is_flow:
            return self._end(node.entries[-1][1])
        if not node.is_block_text:
            return node.end
        if "+" in self._text[node.start : self._eol(node.start)]:  # empty lines at its end belong to it
            return node.end - 1
        return node.start + len(self._text[node.start : node.end].rstrip())

    def _eol(self, at: int) -> int:
        """Return the end of the line at this position, before its line break."""
        found = self._text.find("\n", at)
        if found < 0:
            return len(self._text)
        return found - 1 if self._text[found - 1 : found] == "\r" else found

    def _line_start(self, at: int) -> int:
        return self._text.rfind("\n", 0, at) + 1

    def _line_break(self, at: int) -> str:
        """Return the line break at this position; if there is none, that of the first line."""
        for place in (at, self._eol(0)):
            if self._text[place : place + 2] == "\r\n":
                return "\r\n"
            if self._text[place : place + 1] == "\n":
                return "\n"
        return "\n"

    def _has_comment(self, start: int, end: int, *inside: Node) -> bool:
        """Return whether this part of the text has a comment. `inside` are the values in it, whose `#` do not begin
        comments."""
        for text in sorted((text for node in inside for text in node.texts()), key=lambda each: each.start):
            first = self._eol(text.start) if text.is_block_text else text.start
            if "#" in self._text[start : max(start, first)]:
                return True
            start = max(start, text.end)
        return "#" in self._text[start:end]

    # ------------------------------------------------------------------------------------------ changes

    def _replaced(self, path: Path, value: Any) -> list[Splice] | None:
        found = self._find(path)
        if found is None:
            return None
        node = found.node
        start, end = node.start, self._end(node)
        text = self._scalar(value, node.style) if isinstance(value, str) else self._flow(value)
        if node.is_block_text:
            if "#" in self._text[start : self._eol(start)]:
                return None
            return [Splice(start, end, text)]
        if start == node.end:  # nothing is written there
            return [Splice(start, start, f" {text}")]
        if node.entries is not None:
            if not node.is_flow and found.key is not None:
                start, text = self._colon(found.key), f" {text}"
            if self._has_comment(start, end, node):
                return None
        return [Splice(start, end, text)]

    def _added(self, path: Path, value: Any) -> list[Splice] | None:
        found = self._find(path[:-1])
        if found is None or found.node.entries is None:
            return None
        node, key = found.node, path[-1]
        name = f"{scalar(key)}: " if isinstance(key, str) else ""
        if not found.node.entries:
            if found.key is not None and found.around is not None and not found.around.is_flow:
                return self._first(found.key, node, key, value)
            return [Splice(node.start + 1, node.start + 1, f"{name}{self._flow(value)}")]
        if node.is_flow:
            at = self._end(found.node.entries[-1][1])
            return [Splice(at, at, f", {name}{self._flow(value)}")]
        at = self._eol(self._end(node))
        column = node.start - self._line_start(node.start)
        return [Splice(at, at, self._lines(key, value, column, self._line_break(at)))]

    def _first(self, above: Node, node: Node, key: str | int, value: Any) -> list[Splice] | None:
        """Return the changes that add the first entry to a mapping or list written as {} or []: the brackets are
        removed, and the entry gets its own lines. None if a comment would be lost."""
        start, end = self._colon(above), node.end
        if self._has_comment(start, end):
            return None
        at = self._eol(end)
        lines = self._lines(key, value, above.start - self._line_start(above.start) + 2, self._line_break(at))
        return [Splice(start, end, ""), Splice(at, at, lines)]

    def _removed(self, path: Path) -> list[Splice] | None:
        found = self._find(path)
        if found is None or found.key is None or found.around is None:
            return None
        entries = found.around.entries or []
        at = next(n for n, (key, _) in enumerate(entries) if key is found.key)
        if len(entries) == 1:
            return self._replaced(path[:-1], {}) or self._emptied(path)
        start, end = found.key.start, self._end(found.node)
        following = next((key.start for key, _ in entries[at + 1 :] if key is not None), -1)
        if found.around.is_flow:
            if following >= 0:
                end = following
            else:
                start = self._end(entries[at - 1][1])
            return None if self._has_comment(start, end, found.key, found.node) else [Splice(start, end, "")]
        line = self._line_start(start)
        if self._text[line:start].strip():  # behind the dash of a list
            if following < 0 or "#" in self._text[self._eol(end) : following]:
                return None
            return [Splice(start, following, "")]
        last = self._eol(end)
        if line:
            return [Splice(self._eol(line - 1), last, "")]
        return [Splice(0, last + len(self._line_break(last)), "")]

    def _emptied(self, path: Path) -> list[Splice] | None:
        """Return the changes that remove the only entry of a mapping in block form with the comments inside it.
        Comments above and below it stay. None if it has no lines of its own."""
        found, above = self._find(path), self._find(path[:-1])
        if found is None or found.key is None or above is None or above.key is None or above.node.is_flow:
            return None
        line = self._line_start(found.key.start)
        if self._text[line : found.key.start].strip():
            return None
        colon = self._colon(above.key)
        start, end = self._eol(line - 1), self._eol(self._end(found.node))
        return [Splice(colon, colon, " {}"), Splice(start, end, "")] if colon <= start else None

    def _colon(self, key: Node) -> int:
        """Return the position after the colon of a key."""
        return self._text.index(":", key.end) + 1

    # ------------------------------------------------------------------------------------------ new text

    def _lines(self, key: str | int, value: Any, indent: int, line_break: str) -> str:
        """Return the lines of a new entry of a mapping or list, each after a line break."""
        pad = " " * indent
        if isinstance(key, str):
            lines = self._entry(key, value, pad)
        elif isinstance(value, Block) and value:
            lines = [line for name, each in value.items() for line in self._entry(name, each, f"{pad}  ")]
            lines[0] = f"{pad}- {lines[0].lstrip(' ')}"
        else:
            lines = [f"{pad}- {self._flow(value)}"]
        return "".join(line_break + line for line in lines)

    def _entry(self, key: str, value: Any, pad: str, note: str = "") -> list[str]:
        behind = f"  # {note}" if note else ""
        if isinstance(value, Lines) and value:
            lines = [f"{pad}{scalar(key)}:{behind}"]
            for each, said in zip(value, value.notes, strict=True):
                lines.append(f"{pad}  - {self._flow(each)}" + (f"  # {said}" if said else ""))
            return lines
        if not (isinstance(value, Block) and value):
            return [f"{pad}{scalar(key)}: {self._flow(value)}{behind}"]
        lines = [f"{pad}{scalar(key)}:{behind}"]
        lines += [f"{pad}  # {line}" for line in value.comment.splitlines()]
        for name, each in value.items():
            lines += self._entry(name, each, f"{pad}  ", value.notes.get(name, ""))
        return lines

    def _flow(self, value: Any) -> str:
        return flow(value, self._write)

    def _scalar(self, text: str, style: str | None) -> str:
        """Return a text in the quoting style of the text that it replaces."""
        if style == "'" and is_printable(text):
            return "'" + text.replace("'", "''") + "'"
        return quoted(text) if style == '"' else self._write(text)


def flow(value: Any, write: Callable[[str], str] | None = None) -> str:
    """Return a value as YAML on one line. `write` formats texts that are not keys: `scalar` or `quoted`."""
    write = write or scalar
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(name)}: {flow(each, write)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(each, write) for each in value) + "]"
    return write(value) if isinstance(value, str) else json.dumps(value)


def scalar(text: str) -> str:
    """Return the text as a YAML scalar, in quotes if necessary."""
    if is_date(text) or (_PLAIN.fullmatch(text) and text.lower() not in _WORDS):
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """Return the text in double quotes, with unprintable characters escaped."""
    written = json.dumps(text, ensure_ascii=False)
    return "".join(one if is_printable(one) else f"\\U{ord(one):08x}" for one in written)


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal. Unlike in Python, True does not equal 1; 1.0 does."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
