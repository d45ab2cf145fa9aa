"""Parses YAML and JSON into plain values and remembers the line and column of each part.

YAML is read as version 1.2 with the core schema: null, true, false, integers and numbers; everything else is text. So
`no`, `12:30` and `2026-01-01` stay as they were typed. The parser refuses syntax that has two meanings or that makes a
small file large: tags, anchors, aliases, merge keys, duplicate keys, a second document, `010`, NaN. A number without a
fraction is an integer: `1.0` equals `1`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self

from kfm.errors import BadInput
from kfm.parsing.characters import printable
from kfm.parsing.lazy_regex import pattern
from kfm.parsing.yaml import MAX_DEPTH, MAX_VALUES, Yaml
from kfm.parsing.yaml_scalars import kind as kind
from kfm.parsing.yaml_scalars import whole

if TYPE_CHECKING:
    import re
    from types import TracebackType

MAX_BYTES = 4 << 20

Path = tuple[str | int, ...]


class Document:
    """A value parsed from the file `where`, with the position of each part.

    The first mistake is raised. After `collect()` every mistake is kept in `mistakes` instead, and the check goes on:
    `with document:` keeps what is raised inside, so that the next part is still checked.
    """

    __slots__ = ("_kept", "_place", "assumed", "mistakes", "moved", "renamed", "value", "where")

    def __init__(self, value: Any, where: str, place: Callable[[Path], tuple[int, int] | None]) -> None:
        self.value = value
        self.where = where
        self.moved: dict[Path, str] = {}  # parts that another place set, such as an environment variable
        self.mistakes: list[BadInput] | None = None
        self.assumed: set[Path] = set()  # parts whose values are stand-ins for mistakes that were reported
        self.renamed: dict[Path, str] = {}  # parts that the file calls by another, misspelled key
        self._kept: set[str] = set()  # the messages of the collected mistakes
        self._place = place

    def collect(self) -> list[BadInput]:
        """Collect mistakes from now on instead of raising them; return the list that receives them."""
        self.mistakes = [] if self.mistakes is None else self.mistakes
        return self.mistakes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: TracebackType | None) -> bool:
        if self.mistakes is None or not isinstance(problem, BadInput):
            return False
        self.keep(problem)
        return True

    def place(self, path: Path) -> str:
        """Return `kfm.yml:7:3` for this part, or for the nearest part around it that has a position."""
        if path in self.moved:
            return self.moved[path]
        line, column = self.position(path)
        return f"{self.where}:{line}:{column}"

    def position(self, path: Path) -> tuple[int, int]:
        if self.renamed:
            path = tuple(self.renamed.get(path[: n + 1], part) for n, part in enumerate(path))
        for length in range(len(path), -1, -1):
            found = self._place(path[:length])
            if found:
                return found
        return 1, 1

    def refuse(self, path: Path, what: str, hint: str = "") -> None:
        """Raise BadInput with the place of this part. If the document collects mistakes, keep the error and return."""
        problem = self.mistake(path, what, hint)
        if self.mistakes is None:
            raise problem
        self.keep(problem)

    def mistake(self, path: Path, what: str, hint: str = "") -> BadInput:
        """Return the error for this part with its place. The caller raises the error if nothing after it can be
        checked."""
        return BadInput(f"{self.place(path)}: {dotted(path)} {what}", hint=hint, key=dotted(path))

    def keep(self, problem: BadInput) -> None:
        """Add a mistake to the collected ones, unless the same mistake is among them or it only follows from an assumed
        part."""
        mistakes = self.collect()
        if problem.message not in self._kept and not self._follows(problem):
            self._kept.add(problem.message)
            mistakes.append(problem)

    def _follows(self, problem: BadInput) -> bool:
        """Return whether a problem only follows from an assumed part: it concerns that part, or the mapping around it
        and names the part."""
        key = str(problem.fields.get("key", ""))
        return bool(key) and any(
            not path
            or key == dotted(path)
            or key.startswith((f"{dotted(path)}.", f"{dotted(path)}["))
            or (key == dotted(path[:-1]) and str(path[-1]) in f"{problem.message} {problem.hint}")
            for path in self.assumed
        )


def dotted(path: Path) -> str:
    """Return a path as people write it: execute.threads, columns[2].name; unusual names are quoted and escaped."""
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
    """Parse the bytes of one file. Messages name it by `where`. Raise BadInput if it cannot be parsed."""
    if len(body) > MAX_BYTES:
        raise BadInput(f"{where} is larger than {MAX_BYTES >> 20} MiB", hint="keep data out of settings files")
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


class _Lines:
    """Finds the line and column of many places of one text. The starts of its lines are found at the first question."""

    __slots__ = ("_starts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []

    def position(self, index: int) -> tuple[int, int]:
        from bisect import bisect_right

        if not self._starts:
            self._starts.append(0)
            for line in self._text.split("\n")[:-1]:
                self._starts.append(self._starts[-1] + len(line) + 1)
        number = bisect_right(self._starts, index)
        return number, index - self._starts[number - 1] + 1


# ---------------------------------------------------------------------------------------------- JSON


def _read_json(text: str, where: str) -> Document:
    from kfm.parsing.strict_json import decode

    value = _whole(decode(text.encode(), where))
    starts: dict[Path, int] = {}
    lines = _Lines(text)

    def place(path: Path) -> tuple[int, int] | None:
        # Only an error message needs positions, so they are computed then.
        if not starts:
            _json_places(text, 0, (), starts)
        index = starts.get(path)
        return None if index is None else lines.position(index)

    if _count(value, where, 0) > MAX_VALUES:
        _fail(where, (1, 1), f"holds more than {MAX_VALUES} values", "keep data out of settings files")
    return Document(value, where, place)


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        return whole(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def _count(value: Any, where: str, depth: int) -> int:
    if not isinstance(value, (dict, list)):
        return 1
    if depth >= MAX_DEPTH:
        _fail(where, (1, 1), f"nested deeper than {MAX_DEPTH} levels", "flatten it")
    items = value.values() if isinstance(value, dict) else value
    return 1 + sum(_count(item, where, depth + 1) for item in items)


def _json_places(text: str, index: int, path: Path, starts: dict[Path, int]) -> int:
    """Record the position of every part of valid JSON; return the index after the value that begins at `index`."""
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


_ODD = pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def _odd(text: str) -> re.Match[str] | None:
    """Return the first character that a text file for people must not contain, or None."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return None
    return _ODD.search(text)


def _read_yaml(text: str, where: str) -> Document:
    text = text.replace("\r\n", "\n")
    odd = _odd(text)
    if odd:
        name = f"U+{ord(odd[0]):04X}"
        _fail(where, _position(text, odd.start()), f"holds the control character {name}", "remove it")

    lines = _Lines(text)

    def fail(index: int, what: str, hint: str) -> NoReturn:
        _fail(where, _position(text, index), what, hint)

    def place(path: Path) -> tuple[int, int] | None:
        index = reader.places.get(path)
        return None if index is None else lines.position(index)

    reader = Yaml(text, fail)
    return Document(reader.document(), where, place)
