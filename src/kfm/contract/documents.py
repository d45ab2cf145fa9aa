"""Reads YAML and JSON from anyone into plain values, each with its place.

YAML is read as its version 1.2 with the core schema: null, true, false, integers and numbers, all
else is text. So `no`, `12:30` and `2026-01-01` stay what was typed. What could mean two things, or
could make a small file large, is refused: tags, anchors, aliases, merge keys, duplicate keys, a
second document, `010`, NaN. The parser gives events, never objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from kfm.contract.names import printable
from kfm.errors import BadInput

MAX_BYTES = 4 << 20
MAX_DEPTH = 50
MAX_VALUES = 100_000
MAX_INTEGER = 2**53

Path = tuple[str | int, ...]


class Document:
    """A value read from `where`, and where in it each part stands."""

    __slots__ = ("_place", "moved", "value", "where")

    def __init__(self, value: Any, where: str, place: Callable[[Path], tuple[int, int] | None]) -> None:
        self.value = value
        self.where = where
        self.moved: dict[Path, str] = {}  # parts that came from elsewhere, e.g. the environment
        self._place = place

    def place(self, path: Path) -> str:
        """`kfm.yml:7:3`, of the part itself or of the nearest one around it."""
        if path in self.moved:
            return self.moved[path]
        line, column = self.position(path)
        return f"{self.where}:{line}:{column}"

    def position(self, path: Path) -> tuple[int, int]:
        for length in range(len(path), -1, -1):
            found = self._place(path[:length])
            if found:
                return found
        return 1, 1

    def refuse(self, path: Path, what: str, hint: str = "") -> NoReturn:
        raise BadInput(f"{self.place(path)}: {dotted(path)} {what}", hint=hint, key=dotted(path))


def dotted(path: Path) -> str:
    """A path as people write it: execute.threads, columns[2].name; odd names are quoted and escaped."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        elif part.isascii() and part.replace("-", "").replace("_", "").replace("$", "").isalnum():
            out += f".{part}" if out else part
        else:
            out += f"[{printable(part)}]"
    return out or "the file"


def read(body: bytes, where: str, *, json: bool) -> Document:
    """Decode the bytes of one file. `where` names it in messages."""
    if len(body) > MAX_BYTES:
        raise BadInput(f"{where} is larger than {MAX_BYTES >> 20} MiB", hint="a file of settings is small")
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadInput(f"{where} is UTF-16", hint="save it as UTF-8")
    try:
        text = body.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = body[: error.start].decode("utf-8", "replace")
        _fail(where, _position(before, len(before)), "is not UTF-8", "save the file as UTF-8")
    return _read_json(text, where) if json else _read_yaml(text, where)


def _fail(where: str, position: tuple[int, int], what: str, hint: str = "") -> NoReturn:
    line, column = position
    raise BadInput(f"{where}:{line}:{column}: {what}", hint=hint, line=line, column=column)


def _position(text: str, index: int) -> tuple[int, int]:
    return text.count("\n", 0, index) + 1, index - (text.rfind("\n", 0, index) + 1) + 1


# ---------------------------------------------------------------------------------------------- JSON


def _read_json(text: str, where: str) -> Document:
    from kfm.contract.canonical import decode

    value = decode(text.encode(), where)
    starts: dict[Path, int] = {}

    def place(path: Path) -> tuple[int, int] | None:
        # Only an error asks for a place, so they are looked for only then.
        if not starts:
            _json_places(text, 0, (), starts)
        index = starts.get(path)
        return None if index is None else _position(text, index)

    if _count(value, where, 0) > MAX_VALUES:
        _fail(where, (1, 1), f"holds more than {MAX_VALUES} values", "a file of settings is small")
    return Document(value, where, place)


def _count(value: Any, where: str, depth: int) -> int:
    if not isinstance(value, (dict, list)):
        return 1
    if depth >= MAX_DEPTH:
        _fail(where, (1, 1), f"nested deeper than {MAX_DEPTH} levels", "flatten it")
    items = value.values() if isinstance(value, dict) else value
    return 1 + sum(_count(item, where, depth + 1) for item in items)


def _json_places(text: str, index: int, path: Path, starts: dict[Path, int]) -> int:
    """Walks text that is known to be JSON; returns the index after the value that begins at `index`."""
    from json.decoder import scanstring  # type: ignore[attr-defined]

    def skip(at: int) -> int:
        while text[at : at + 1] in (" ", "\t", "\n", "\r", ",", ":"):
            at += 1
        return at

    index = skip(index)
    starts.setdefault(path, index)
    opening = text[index : index + 1]
    if opening == '"':
        return int(scanstring(text, index + 1)[1])
    if opening not in ("{", "["):
        while text[index : index + 1] not in ("", ",", "]", "}", " ", "\t", "\n", "\r"):
            index += 1
        return index
    index = skip(index + 1)
    count = 0
    while text[index] not in "}]":
        key: str | int = count
        if opening == "{":
            starts_at = index
            key, index = scanstring(text, index + 1)
            starts[(*path, key)] = starts_at
        index = skip(_json_places(text, index, (*path, key), starts))
        count += 1
    return index + 1


# ---------------------------------------------------------------------------------------------- YAML


def _read_yaml(text: str, where: str) -> Document:
    import re

    import yaml

    odd = re.search("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]", text)
    if odd:
        name = f"U+{ord(odd[0]):04X}"
        _fail(where, _position(text, odd.start()), f"holds the control character {name}", "remove it")
    builder = _Builder(text, where)
    try:
        value = builder.document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = str(getattr(error, "problem", None) or "it ends too early")
        position = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        line = text.split("\n")[min(position[0] - 1, text.count("\n"))]
        tab = "\t" in line[: len(line) - len(line.lstrip())]
        hint = "indent with spaces, never tabs" if tab else "correct it there"
        problem = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in problem)
        _fail(where, position, f"not YAML: {problem}", hint)
    return Document(value, where, builder.places.get)


def _parser(text: str) -> Any:
    try:
        from yaml._yaml import CParser  # type: ignore[import-not-found,unused-ignore]

        return CParser(text)
    except ImportError:
        return _python_parser(text)


def _python_parser(text: str) -> Any:
    """The same events without libyaml."""
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class Events(Reader, Scanner, Parser):
        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)

    return Events(text)


class _Builder:
    """Turns events into plain values, and remembers where each stood."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        self.places: dict[Path, tuple[int, int]] = {}
        self._parser = _parser(text)

    def document(self) -> Any:
        from yaml import events

        self._next()  # the start of the stream
        start = self._next()
        if isinstance(start, events.StreamEndEvent):
            self._fail(start, "is empty", "`kfm init` writes an example")
        if getattr(start, "version", None) or getattr(start, "tags", None):
            self._fail(start, "has a % directive", "remove it; the file is read as YAML 1.2")
        value = self._node(self._next(), (), 0)
        self._next()  # the end of the document
        more = self._next()
        if not isinstance(more, events.StreamEndEvent):
            self._fail(more, "a second document begins", "keep one document in a file")
        return value

    def _next(self) -> Any:
        return self._parser.get_event()

    def _fail(self, event: Any, what: str, hint: str) -> NoReturn:
        mark = event.start_mark
        _fail(self.where, (mark.line + 1, mark.column + 1), what, hint)

    def _node(self, event: Any, path: Path, depth: int) -> Any:
        from yaml import events

        mark = event.start_mark
        self.places.setdefault(path, (mark.line + 1, mark.column + 1))
        if len(self.places) > MAX_VALUES:
            self._fail(event, f"holds more than {MAX_VALUES} values", "a file of settings is small")
        self._guard(event)
        if isinstance(event, events.ScalarEvent):
            return self._scalar(event)
        if depth >= MAX_DEPTH:
            self._fail(event, f"nested deeper than {MAX_DEPTH} levels", "flatten it")
        if isinstance(event, events.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := self._next(), events.SequenceEndEvent):
                items.append(self._node(event, (*path, len(items)), depth + 1))
            return items
        found: dict[str, Any] = {}
        while not isinstance(event := self._next(), events.MappingEndEvent):
            key = self._key(event, found)
            mark = event.start_mark
            self.places[(*path, key)] = (mark.line + 1, mark.column + 1)
            found[key] = self._node(self._next(), (*path, key), depth + 1)
        return found

    def _guard(self, event: Any) -> None:
        from yaml import events

        if isinstance(event, events.AliasEvent) or event.anchor is not None:
            self._fail(event, "anchors (&) and aliases (*) are not read", "write it out, or quote the text")
        if event.tag is not None:
            self._fail(event, "tags (!) are not read", "remove the tag, or quote the text")

    def _scalar(self, event: Any) -> Any:
        if not event.implicit[0]:
            return event.value  # quoted, or a block: text whatever it looks like
        return plain(event.value, lambda what, hint: self._fail(event, what, hint))

    def _key(self, event: Any, found: dict[str, Any]) -> str:
        from yaml import events

        self._guard(event)
        if not isinstance(event, events.ScalarEvent):
            self._fail(event, "a key must be text", "quote it if it begins with [ or {")
        key = self._scalar(event)
        if event.implicit[0] and key == "<<":
            self._fail(event, "merge keys (<<) are not read", "write the keys out")
        if not isinstance(key, str):
            self._fail(event, f"a key must be text, found {kind(key)}", "quote it")
        if key in found:
            self._fail(event, f"the key {printable(key)} is given twice", "keep one of them")
        return key


def plain(text: str, fail: Callable[[str, str], NoReturn]) -> Any:
    """The value of an unquoted scalar under the YAML 1.2 core schema."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    unsigned = text[1:] if text[0] in "+-" else text
    if not (text.isascii() and (unsigned[:1].isdigit() or unsigned[:1] == ".")):
        return text
    if unsigned.lower() in (".inf", ".nan"):
        fail("infinity and NaN are not numbers here", "leave the key out, or quote the text")
    if unsigned.isdigit():
        if len(unsigned) > 1 and unsigned[0] == "0":
            fail("a number with a leading zero reads as octal to some", "drop the zero, or quote the text")
        return _integer(text, 10, fail)
    if unsigned is text and text[:2] in ("0x", "0o") and text[2:].isalnum():
        try:
            return _integer(text[2:], 16 if text[1] == "x" else 8, fail)
        except ValueError:
            return text
    if unsigned.strip("0123456789.eE+-") or "_" in text:
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    if number - number != 0:
        fail("a number is too large for a double", "use a smaller one, or quote the text")
    return number


def _integer(digits: str, base: int, fail: Callable[[str, str], NoReturn]) -> int:
    number = int(digits, base) if len(digits) <= 64 else MAX_INTEGER + 1
    if abs(number) > MAX_INTEGER:
        fail("an integer is past 2^53", "use a smaller one, or quote the text")
    return number


def kind(value: Any) -> str:
    """What a value is, for a message; never the value itself."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, (list, tuple)) else "a mapping"
