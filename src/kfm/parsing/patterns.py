"""Regular expressions: the part of the syntax that RE2 in every language reads alike, translated for RE2.

    characters   any, `.` (no line feed), classes `[a-z_]` `[^,]`, `\\d` `\\w` `\\s` and `\\D` `\\W` `\\S` (ASCII)
    escapes      \\t \\n \\r \\f \\v \\a, \\xhh, \\uhhhh, \\Uhhhhhhhh, and `\\` before what is no letter or digit
    repeats      * + ? {n} {n,} {,m} {n,m}, each also lazy (`*?`)
    groups       ( ) (?: ) (?P<name> )
    places       ^ \\A and $ \\Z (the very end), \\b \\B (ASCII)
    flags        (?i) (the letters a to z), (?s) (`.` takes a line feed too), at the start or as (?i: )

RE2 takes time in proportion to the text, so no value can make a match slow. It has no look-around, no
possessive repeats and no back-references. Constructs that depend on a release of Unicode (classes by property,
the case of other letters) or on the engine's memory are refused here or written out, so that RE2 in C++ and in
JavaScript give the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

MAX_PATTERN = 10_000
MAX_NESTED = 50
MAX_REPEAT = 1_000  # nested repeats count as their product; this is RE2's own limit
MAX_SIZE = 10_000  # characters and classes with all repeats written out

_HEX = "[0-9A-Fa-f]"
_ESCAPE = rf"\\(?:[dwsDWStnrfva]|x{_HEX}{{2}}|u{_HEX}{{4}}|U{_HEX}{{8}}|[^0-9A-Za-z])"
_FLAGS = re.compile(r"(?:\(\?([is]{1,2})\))?")
_TOKEN = re.compile(
    rf"\[(\^|(?!\^))((?:{_ESCAPE}|\\b|[^\\])(?:{_ESCAPE}|\\b|[^\\\]])*)\]"
    r"|\((\?:|\?P<[A-Za-z_][A-Za-z0-9_]*>|\?[is]{1,2}:|(?!\?))"
    r"|([*+?]|\{[0-9]+,?[0-9]*\}|\{,[0-9]*\})(\??)"
    rf"|(\\[AZbB]|[\^$|)])|({_ESCAPE}|[^\\(\[])",
    re.DOTALL,
)
_MEMBER = re.compile(rf"({_ESCAPE}|\\b|[^\\])(?:-({_ESCAPE}|\\b|[^\\]))?", re.DOTALL)
_FLAWS = (
    (r"\(\?<?[=!]", "a look-around, which is not supported,", "write out what may stand there"),
    (r"\(\?>", "an atomic group, which is not supported,", "write (?: ) if that takes what you mean"),
    (r"\(\?", "a group of a kind that is not supported", ""),
    (r"\[", "a class that is not closed, or has an escape that is not known,", ""),
    (r"\\[1-9]", "a back-reference, which is not supported,", "write out what may come again"),
    (r"\\(?![\s\S])", "a backslash before nothing", ""),
    (r"", "an escape that is not known", ""),
)
_KINDS = {"d": r"\d", "w": r"\w", "s": "[:space:]", "D": r"\D", "W": r"\W", "S": "[:^space:]"}
_LETTERS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7, "b": 8}
_PLACES = {r"\A": "^", r"\Z": "$"}
_SET = "(?:[{}]{{1}})"  # without {1}, RE2 in C++ reads [Kk]|x as (?i)k|x, which also matches the Kelvin sign


class BadPattern(Exception):
    """The text of this exception completes the sentence "is not a regular expression: "."""

    def __init__(self, what: str, at: int, instead: str = "") -> None:
        super().__init__(f"{what} at character {at + 1}" + (f" ({instead})" if instead else ""))


def pattern_flaw(pattern: str) -> str:
    """Return why a text is not a usable pattern, or an empty text."""
    try:
        compiled(pattern)
    except BadPattern as error:
        return f"is not a regular expression: {error}"
    return ""


@lru_cache(maxsize=256)
def compiled(pattern: str, whole: bool = True) -> Callable[[str], bool]:
    """Return a function that says whether a text matches: all of it if `whole`, otherwise any part of it.

    Raise BadPattern if the pattern is not usable.
    """
    import re2  # slow to import, and few data contracts have a pattern

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 26
    text = re2_syntax(pattern)
    if not whole and r"\B" in text:  # a plain search may find \B inside the bytes of one character
        text, whole = f"(?s:.*?)(?:{text})(?s:.*)", True
    try:
        made = re2.compile(text, options)
        some = re2.Set.FullMatchSet(options) if whole else re2.Set.SearchSet(options)
        some.Add(text)
        some.Add("(?s).*")
        some.Compile()
    except re2.error:
        raise BadPattern("more than RE2 has room for", 0) from None
    # A set matches several times faster. If its memory runs out, it does not report (?s).* either.
    quick, exact = some.Match, made.fullmatch if whole else made.search

    def matches(value: str) -> bool:
        data = value.encode("utf-8", "surrogatepass")
        found = quick(data)
        return exact(data) is not None if found is None else 0 in found

    return matches


def re2_syntax(pattern: str) -> str:
    """Return the pattern in the syntax of RE2. Raise BadPattern if it uses anything that is not supported."""
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"more than {MAX_PATTERN:,} characters", MAX_PATTERN)
    if half := re.search("[\ud800-\udfff]", pattern):
        raise BadPattern("half a surrogate pair", half.start())
    return _Re2Writer(pattern).whole()


class _Re2Writer:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._any_case = False
        self._size, self._deep = 0, 1  # of this group: size with repeats written out, largest product
        self._last: tuple[int, int] | None = None  # the same pair for the item that a repeat here would repeat
        self._outer: list[tuple[int, int, int, bool]] = []  # enclosing groups: start, size, product, case

    def _fail(self, what: str, instead: str = "", at: int | None = None) -> BadPattern:
        return BadPattern(what, self._at if at is None else at, instead)

    def whole(self) -> str:
        flags = _FLAGS.match(self._text)
        assert flags is not None
        made = ["(?s)" if "s" in (flags[1] or "") else ""]
        self._any_case = "i" in (flags[1] or "")
        self._at = flags.end()
        before = ""
        while self._at < len(self._text):
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                raise self._fail(*next(flaw[1:] for flaw in _FLAWS if re.compile(flaw[0]).match(self._text, self._at)))
            negated, members, group, repeat, lazy, place, char = found.groups()
            if members is not None:
                made.append(self._class(negated, members, found.start(2)))
            elif group is not None:
                made.append(self._open(group))
            elif repeat is not None:
                made.append(self._repeat(repeat, before) + lazy)
            elif place == ")":
                made.append(self._close())
            elif place is not None:
                self._last = None
                made.append(_PLACES.get(place, place))
            else:
                made.append(self._char(char))
            before = repeat or ""
            self._at = found.end()
        if self._outer:
            raise self._fail("a group that is not closed", at=self._outer[-1][0])
        return "".join(made)

    def _grow(self, size: int, deep: int = 1) -> None:
        self._last = size, deep
        self._size += size
        self._deep = max(self._deep, deep)
        if self._size > MAX_SIZE:
            raise self._fail(f"more than {MAX_SIZE:,} characters with all repeats written out", "shorten the repeats")

    def _open(self, kind: str) -> str:
        if len(self._outer) == MAX_NESTED:
            raise self._fail(f"groups more than {MAX_NESTED} deep")
        self._outer.append((self._at, self._size, self._deep, self._any_case))
        self._size, self._deep, self._last = 0, 1, None
        flags = kind if kind.endswith(":") else ""
        self._any_case = self._any_case or "i" in flags
        return "(?s:" if "s" in flags else "(?:"

    def _close(self) -> str:
        if not self._outer:
            raise self._fail("a bracket closes what was not opened")
        size, deep = self._size, self._deep
        _, self._size, self._deep, self._any_case = self._outer.pop()
        self._grow(size + 1, deep)
        return ")"

    def _repeat(self, repeat: str, before: str) -> str:
        if before and repeat == "+":
            raise self._fail(
                "a possessive repeat, which is not supported,", "leave the + out if it matches all the same"
            )
        if self._last is None:
            raise self._fail("a repeat of a repeat" if before else "nothing to repeat")
        if repeat in ("*", "+", "?"):
            self._last = None
            return repeat
        first, comma, second = repeat[1:-1].partition(",")
        if not first and not second:
            raise self._fail("a repeat without a number")
        least, most = (int(digits.lstrip("0")[:5] or 0) for digits in (first, second or first))
        size, deep = self._last
        if max(least, most) * deep > MAX_REPEAT:
            raise self._fail(f"a repeat of more than {MAX_REPEAT:,}, also as a product of nested ones,")
        if second and most < least:
            raise self._fail("a repeat that ends before it begins")
        self._grow(size * max(most - 1, 0), deep * max(most, 1))
        self._last = None
        return f"{{{least}{comma}{most if second else ''}}}"

    def _char(self, char: str) -> str:
        self._grow(1)
        if char == ".":
            return char
        code = self._code(char, self._at)
        return _SET.format(code if isinstance(code, str) else self._range(code, code))

    def _class(self, negated: str, members: str, start: int) -> str:
        made = []
        for found in _MEMBER.finditer(members):
            at = start + found.start()
            low = self._code(found[1], at)
            high = low if found[2] is None else self._code(found[2], at)
            if isinstance(low, str) and high is low:
                made.append(low)
            elif isinstance(low, str) or isinstance(high, str) or high < low:
                raise self._fail("a range that runs backwards, or from no character,", at=at)
            else:
                made.append(self._range(low, high))
        self._grow(1 + len(made))
        return _SET.format(negated + "".join(made))

    def _code(self, char: str, at: int) -> int | str:
        r"""Return a character's code point, or the RE2 class that an escape such as \\d stands for."""
        if len(char) == 1:
            return ord(char)
        if char[1] in _KINDS:
            return _KINDS[char[1]]
        if char[1] in _LETTERS:
            return _LETTERS[char[1]]
        code = int(char[2:], 16) if len(char) > 2 else ord(char[1])
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self._fail("a code that is no character", at=at)
        return code

    def _range(self, low: int, high: int) -> str:
        made = f"\\x{{{low:x}}}-\\x{{{high:x}}}"
        for here, there in ((65, 97), (97, 65)) if self._any_case else ():
            begin, end = max(low, here), min(high, here + 25)
            if begin <= end:
                made += f"\\x{{{begin - here + there:x}}}-\\x{{{end - here + there:x}}}"
        return made
