"""Regular expressions that mean the same everywhere: a part of the syntax, read here and spelled out for the engine.

    characters   any, `.` (no line feed), classes `[a-z_]` `[^,]`, `\\d` `\\w` `\\s` and `\\D` `\\W` `\\S` (ASCII)
    escapes      \\t \\n \\r \\f \\v \\a, \\xhh, \\uhhhh, \\Uhhhhhhhh, and `\\` before what is no letter or digit
    repeats      * + ? {n} {n,} {,m} {n,m}, each also lazy (`*?`) or possessive (`*+`)
    groups       ( ) (?: ) (?P<name> ) (?> ), looking around (?= ) (?! ) (?<= ) (?<! )
    places       ^ \\A and $ \\Z (the very end), \\b \\B (ASCII)
    flags        (?i) (the letters a to z), (?s) (`.` takes a line feed too), at the start or as (?i: )

What is not here (back-references, conditions, names of characters, other flags) is refused. Engines differ
in what they call a letter, a space, a line or the end, and in how they go round an empty loop; none of that
is left to them: the engine is handed plain sets of characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple, NoReturn

MAX_PATTERN = 10_000
MAX_NESTED = 50
MAX_REPEAT = 10_000
_LAST = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]  # code points, sorted, apart from one another


class Chars(NamedTuple):
    """One character out of a set."""

    ranges: Ranges


class Sequence(NamedTuple):
    items: tuple[Node, ...]


class Choice(NamedTuple):
    branches: tuple[Node, ...]


class Repeat(NamedTuple):
    least: int
    most: int | None  # None: without end
    lazy: bool
    body: Node


class Atomic(NamedTuple):
    """What it took it never gives back."""

    body: Node


class Look(NamedTuple):
    behind: bool
    wanted: bool  # False: it must not be there
    body: Node


class Place(NamedTuple):
    name: Literal["start", "end", "edge", "no edge"]


Node = Chars | Sequence | Choice | Repeat | Atomic | Look | Place


class BadPattern(Exception):
    """Says what is wrong, to follow on "is not a regular expression: "."""


def pattern_flaw(pattern: str) -> str:
    """Why a text cannot be used as a pattern, or empty. Whether it could be kept busy is another question."""
    try:
        parse(pattern)
    except BadPattern as error:
        return f"is not a regular expression: {error}"
    return ""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern for Python's engine; ask it for `fullmatch` or `search`."""
    return re.compile(_Spelling().node(parse(pattern)))


@lru_cache(maxsize=256)
def parse(pattern: str) -> Node:
    return _Parser(pattern).whole()


# ------------------------------------------------------------------------------------------ characters


def ranges_of(pairs: list[tuple[int, int]]) -> Ranges:
    """Sorted and joined where they touch."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return tuple(joined)


def all_but(ranges: Ranges) -> Ranges:
    gaps: list[tuple[int, int]] = []
    begin = 0
    for low, high in ranges:
        if low > begin:
            gaps.append((begin, low - 1))
        begin = high + 1
    if begin <= _LAST:
        gaps.append((begin, _LAST))
    return tuple(gaps)


_DIGIT: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32))
_KINDS = {"d": _DIGIT, "w": _WORD, "s": _SPACE, "D": all_but(_DIGIT), "W": all_but(_WORD), "S": all_but(_SPACE)}
_NOT_LINE_FEED = all_but(((10, 10),))
_ALL: Ranges = ((0, _LAST),)
_LETTERS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7}
_CODES = {"x": 2, "u": 4, "U": 8}
_PLACES: dict[str, Place] = {"A": Place("start"), "Z": Place("end"), "b": Place("edge"), "B": Place("no edge")}


def _both_cases(ranges: Ranges) -> Ranges:
    pairs = list(ranges)
    for low, high in ranges:
        for first, other in ((65, 97), (97, 65)):
            begin, end = max(low, first), min(high, first + 25)
            if begin <= end:
                pairs.append((begin - first + other, end - first + other))
    return ranges_of(pairs)


# --------------------------------------------------------------------------------------------- reading


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._names: set[str] = set()
        self._any_case = False
        self._all_lines = False

    def whole(self) -> Node:
        if len(self._text) > MAX_PATTERN:
            raise BadPattern(f"it is longer than {MAX_PATTERN:,} characters")
        for position, character in enumerate(self._text, 1):
            if "\ud800" <= character <= "\udfff":
                raise BadPattern(f"half a surrogate pair at character {position}")
        found = re.match(r"\(\?([is]{1,2})\)", self._text)
        if found:
            self._at = found.end()
            self._set_flags(found[1])
        node = self._choice()
        if self._at < len(self._text):
            self._fail("a bracket closes what was not opened")
        return node

    def _fail(self, what: str, at: int | None = None) -> NoReturn:
        raise BadPattern(f"{what} at character {(self._at if at is None else at) + 1}")

    def _set_flags(self, names: str) -> None:
        self._any_case = self._any_case or "i" in names
        self._all_lines = self._all_lines or "s" in names

    def _take(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _choice(self) -> Node:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            begun = self._at
            item = self._item()
            bounds = self._bounds()
            if bounds is not None:
                if isinstance(item, Place | Look):
                    self._fail("nothing to repeat", begun)
                item = self._repeat(item, bounds)
                again = self._at
                if self._bounds() is not None:
                    self._fail("a repeat of a repeat", again)
            items.append(item)
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _repeat(self, item: Node, bounds: tuple[int, int | None]) -> Node:
        if self._take("+"):
            return Atomic(Repeat(*bounds, False, item))
        return Repeat(*bounds, self._take("?"), item)

    def _bounds(self) -> tuple[int, int | None] | None:
        """How often what stands before may come; None if no repeat stands here. `{` may be just a brace."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        found = re.compile(r"\{(?:([0-9]+)(,?)|,)([0-9]*)\}").match(self._text, self._at)
        if found is None:
            return None
        if found[0] == "{,}":
            self._fail("a repeat without a number")
        begun, self._at = self._at, found.end()
        least = self._number(found[1] or "0", begun)
        most = least if found[1] and not found[2] else self._number(found[3], begun) if found[3] else None
        if most is not None and most < least:
            self._fail("a repeat that ends before it begins", begun)
        return least, most

    def _number(self, digits: str, begun: int) -> int:
        if len(digits) > 9 or int(digits) > MAX_REPEAT:
            self._fail(f"a repeat of more than {MAX_REPEAT:,}", begun)
        return int(digits)

    def _item(self) -> Node:
        begun = self._at
        sign = self._text[begun]
        self._at += 1
        if sign == "(":
            return self._group(begun)
        if sign == "[":
            return self._class(begun)
        if sign == ".":
            return Chars(_ALL if self._all_lines else _NOT_LINE_FEED)
        if sign in "^$":
            return Place("start" if sign == "^" else "end")
        if sign in "*+?":
            self._fail("nothing to repeat", begun)
        if sign == "{":
            self._at = begun
            if self._bounds() is not None:
                self._fail("nothing to repeat", begun)
            self._at = begun + 1
        if sign == "\\":
            if (place := _PLACES.get(self._text[self._at : self._at + 1])) is not None:
                self._at += 1
                return place
            found = self._escape(begun)
            return self._chars(((found, found),) if isinstance(found, int) else found)
        return self._chars(((ord(sign), ord(sign)),))

    def _chars(self, ranges: Ranges) -> Chars:
        return Chars(_both_cases(ranges) if self._any_case else ranges)

    def _escape(self, begun: int) -> int | Ranges:
        """After a backslash: a character, or a kind of them."""
        sign = self._text[self._at : self._at + 1]
        if not sign:
            self._fail("a backslash before nothing", begun)
        self._at += 1
        if sign in _KINDS:
            return _KINDS[sign]
        if sign in _LETTERS:
            return _LETTERS[sign]
        if sign in _CODES:
            digits = self._text[self._at : self._at + _CODES[sign]]
            self._at += len(digits)
            if len(digits) < _CODES[sign] or not _HEX.issuperset(digits):
                self._fail("a code that is no number", begun)
            code = int(digits, 16)
            if code > _LAST or 0xD800 <= code <= 0xDFFF:
                self._fail("a code of no character", begun)
            return code
        if sign in "123456789":
            self._fail("a back-reference, which is not supported,", begun)
        if sign.isascii() and sign.isalnum():
            self._fail("an escape that is not known", begun)
        return ord(sign)

    def _class(self, begun: int) -> Node:
        negated = self._take("^")
        pairs: list[tuple[int, int]] = []
        first = True
        while first or not self._take("]"):
            first = False
            start = self._at
            low = self._member(begun)
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._member(begun)
                if not isinstance(low, int) or not isinstance(high, int) or high < low:
                    self._fail("a range that runs backwards, or from no character,", start)
                pairs.append((low, high))
            else:
                pairs += [(low, low)] if isinstance(low, int) else low
        ranges = ranges_of(pairs)
        if self._any_case:
            ranges = _both_cases(ranges)
        return Chars(all_but(ranges) if negated else ranges)

    def _member(self, begun: int) -> int | Ranges:
        at = self._at
        if at >= len(self._text):
            self._fail("a class that is not closed", begun)
        self._at += 1
        if self._text[at] != "\\":
            return ord(self._text[at])
        if self._take("b"):
            return 8
        return self._escape(at)

    def _group(self, begun: int) -> Node:
        flags = self._any_case, self._all_lines
        wrap = self._kind_of_group(begun)
        self._depth += 1
        if self._depth > MAX_NESTED:
            raise BadPattern(f"it is nested deeper than {MAX_NESTED} levels")
        body = self._choice()
        if not self._take(")"):
            self._fail("a group that is not closed", begun)
        self._depth -= 1
        self._any_case, self._all_lines = flags
        node = wrap(body)
        if isinstance(node, Look) and node.behind and width(body) is None:
            self._fail("a look behind that has no fixed width, or is atomic,", begun)
        return node

    def _kind_of_group(self, begun: int) -> Callable[[Node], Node]:
        if not self._take("?"):
            return lambda body: body
        for sign, behind, wanted in (("=", False, True), ("!", False, False), ("<=", True, True), ("<!", True, False)):
            if self._take(sign):
                return lambda body: Look(behind, wanted, body)
        if self._take(":"):
            return lambda body: body
        if self._take(">"):
            return Atomic
        found = re.compile(r"([is]{1,2}):|P<([A-Za-z_][A-Za-z0-9_]*)>").match(self._text, self._at)
        if found is None:
            self._fail("a group of a kind that is not supported", begun)
        self._at = found.end()
        if found[1]:
            self._set_flags(found[1])
        elif found[2] in self._names:
            self._fail("a name that is given twice", begun)
        else:
            self._names.add(found[2])
        return lambda body: body


_HEX = frozenset("0123456789abcdefABCDEF")


def width(node: Node) -> int | None:
    """How many characters it takes, if that is always the same number."""
    if isinstance(node, Chars):
        return 1
    if isinstance(node, Place | Look):
        return 0
    if isinstance(node, Sequence | Choice):
        parts = [width(part) for part in (node.items if isinstance(node, Sequence) else node.branches)]
        if isinstance(node, Sequence):
            return None if None in parts else sum(part or 0 for part in parts)
        return parts[0] if len(set(parts)) == 1 else None
    if isinstance(node, Repeat) and node.least == node.most:
        once = width(node.body)
        return None if once is None else once * node.least
    return None


# -------------------------------------------------------------------------------------------- spelling


class _Spelling:
    """For Python's engine. An atomic group is looked at ahead and then taken as it was seen: that is exact in
    every engine, with or without atomic groups of its own."""

    def __init__(self) -> None:
        self._atoms = 0

    def node(self, node: Node) -> str:
        if isinstance(node, Chars):
            return self._chars(node.ranges)
        if isinstance(node, Sequence):
            return "".join(map(self.node, node.items))
        if isinstance(node, Choice):
            return f"(?:{'|'.join(map(self.node, node.branches))})"
        if isinstance(node, Repeat):
            body = self.node(node.body)
            if not isinstance(node.body, Chars):
                body = f"(?:{body})"
            return f"{body}{{{node.least},{'' if node.most is None else node.most}}}{'?' if node.lazy else ''}"
        if isinstance(node, Atomic):
            self._atoms += 1
            name = f"a{self._atoms}"
            return f"(?=(?P<{name}>{self.node(node.body)}))(?P={name})"
        if isinstance(node, Look):
            return f"(?{'<' if node.behind else ''}{'=' if node.wanted else '!'}{self.node(node.body)})"
        edge = r"(?<![0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])"
        inside = r"(?<![0-9A-Za-z_])(?![0-9A-Za-z_])|(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])"
        return {"start": r"\A", "end": r"\Z", "edge": f"(?:{edge})", "no edge": f"(?:{inside})"}[node.name]

    def _chars(self, ranges: Ranges) -> str:
        if not ranges:
            return "(?:(?!))"
        if ranges == _NOT_LINE_FEED:
            return "."
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            return _code(ranges[0][0])
        negated = ranges[-1][1] == _LAST and ranges != _ALL
        shown = all_but(ranges) if negated else ranges
        inside = "".join(_code(low) if low == high else f"{_code(low)}-{_code(high)}" for low, high in shown)
        return f"[{'^' if negated else ''}{inside}]"


def _code(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\U{code:08x}"
