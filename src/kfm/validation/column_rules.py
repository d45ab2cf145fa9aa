"""The rules of one column of a contract, compiled: an exact check of one value, and a fast check of many.

Values of text sources (csv): a value is blank if it is empty, white space, or one of `missing`. Space around a value
that is not text is ignored. An integer is digits with a sign, a number is a finite decimal, both at most 400
characters. A boolean is true/false, yes/no, t/f, y/n or 1/0 in any case. A date is YYYY-MM-DD, a datetime YYYY-MM-DD,
`T` or a space, hh:mm[:ss[.f]] and Z, an offset or nothing; other forms need `date_format`. In JSON a value must have
the JSON type; dates are strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import date
from itertools import islice
from math import isfinite
from typing import Any

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.records import Column
from kfm.parsing.dates import date_reader, is_date, is_moment
from kfm.parsing.patterns import compiled
from kfm.parsing.strict_json import ecmascript_number
from kfm.validation.findings import Violation

MAX_MATCHED = 10_000  # characters of a value that a pattern is tried on
MAX_NUMBER = 400  # characters of a number
MAX_DATE = 64
MAX_UNIQUE = 20_000_000
REMEMBERED = 1 << 18  # values of all columns together, each of at most so many characters
_MEMORABLE = 64
_SHORT = 32
_TOGETHER = 24
_SAMPLE = 200  # how many values are read to see whether a column repeats itself
_SELDOM = 190  # how many of them are distinct if it does not
_PLAIN = 15  # a number of at most so many characters is always finite

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUTHS = frozenset({"true", "false", "yes", "no", "t", "f", "y", "n", "1", "0"})
_SPELT = _TRUTHS | {word.upper() for word in _TRUTHS} | {word.title() for word in _TRUTHS}
_NOUN = {
    "text": "text",
    "integer": "an integer",
    "number": "a finite number",
    "boolean": "true or false",
    "date": "a date",
    "datetime": "a date with a time",
}


class ColumnCheck:
    """Checks the values of one column, and keeps the values seen if they must be unique.

    Unique values are kept exactly: short ones as they are, longer ones as 128-bit digests; some 120 bytes each. Only
    values of rows that pass count, so a quarantined row makes no other row a duplicate.
    """

    def __init__(self, column: Column, remembers: int = 1 << 16) -> None:
        """`remembers` is the largest number of valid values to cache, so that they need not be checked again."""
        self.column = column
        self.name = column.name
        self.mode = column.mode
        self.unique = column.unique
        self.blanks = frozenset({"", *column.missing, *(text.strip() for text in column.missing)})
        self._seen: set[str | bytes] = set()
        self._allowed = frozenset(column.values)
        self._matches = compiled(column.pattern) if column.pattern else None
        numeric = column.type in ("integer", "number")
        self._bounded = numeric and (column.minimum is not None or column.maximum is not None)
        self._textual = bool(column.values or column.pattern or column.unique)
        self._read: Callable[[str], object] = _reader(column)
        self._remembers = remembers
        self._fine: set[str] = set()  # values that were checked before: columns repeat themselves
        self._all = self._whole_answers()
        # White space is neither a number nor a date, so most types need no check for it.
        self._padded = self.column.type == "text" or self.blanks != {""}
        alone = self.column.type in ("integer", "number") and self.blanks == {""} and not self._textual
        self._digits = b"" if not alone else b"0123456789+-" if self.column.type == "integer" else b"0123456789+-."
        self.trivial = not (self._all or column.required or column.unique)

    # -- many values at once

    def all_fine(self, values: Collection[str]) -> bool:
        """Return True only if no value breaks a rule; False may also mean that single values must be checked."""
        if self._fine.issuperset(values):
            return True
        if self._digits and len(set(islice(values, _SAMPLE))) > _SELDOM and self._plainly_numbers(values):
            return True
        distinct = set(values) - self._fine
        blanks = distinct & self.blanks
        if self.column.required and (blanks or (self._padded and not self.blanks.isdisjoint(map(str.strip, distinct)))):
            return False
        if self.unique:
            filled_values = len(values) - (sum(map(list(values).count, blanks)) if blanks else 0)
            if len(distinct) - len(blanks) != filled_values or not self._seen.isdisjoint(_keys(distinct - blanks)):
                return False
        filled = distinct - blanks if blanks else distinct
        if filled and not all(answer(filled) for answer in self._all):
            return False
        self._remember(distinct)
        return True

    def _remember(self, fine: set[str]) -> None:
        """Cache values that passed the check. A value of a column that must be unique is not cached, because it passes
        only once."""
        if not self.unique and max(map(len, fine), default=0) <= _MEMORABLE:
            if len(self._fine) + len(fine) > self._remembers:
                self._fine.clear()
            if len(fine) <= self._remembers:
                self._fine |= fine

    def _plainly_numbers(self, values: Collection[str]) -> bool:
        """Return whether all values are short, consist of digits and signs, and are within the bounds."""
        joined = "".join(values)
        if not joined.isascii() or max(map(len, values)) > _PLAIN:
            return False
        low, high = self.column.minimum, self.column.maximum
        if low is high is None and self.column.type == "integer" and joined.isdigit():
            return "" not in values
        if joined.encode().translate(None, self._digits):
            return False
        try:
            numbers: list[Any] = list(map(int if self.column.type == "integer" else float, values))
        except ValueError:
            return False
        return (low is None or min(numbers) >= low) and (high is None or max(numbers) <= high)

    def doubtful(self, values: Collection[str]) -> set[str]:
        """Return the values that `broken_rule` must check; it would find nothing wrong with the others."""
        if self.unique:
            return set(values)
        distinct = list(set(values) - self._fine)
        doubts: set[str] = set()
        for start in range(0, len(distinct), _TOGETHER):
            some = distinct[start : start + _TOGETHER]
            if not self.all_fine(some):
                doubts.update(some)
        return doubts

    def saw_all(self, values: Collection[str]) -> None:
        """Remember the values of rows that passed unchanged, if the values of the column must be unique."""
        self._seen |= _keys(set(values) - self.blanks)
        self._bound()

    def _whole_answers(self) -> list[Callable[[set[str]], bool]]:
        """Return functions that check a set of filled values at once, each in C loops."""
        answers: list[Callable[[set[str]], bool]] = []
        kind = self.column.type
        if kind in ("integer", "number"):
            answers.append(self._numbers)
        elif kind == "boolean":
            answers.append(_SPELT.issuperset)
        elif kind in ("date", "datetime"):
            answers.append(self._dates)
        if self._allowed:
            answers.append(self._allowed.issuperset)
        if self._matches is not None:
            answers.append(self._all_match)
        return answers

    def _numbers(self, texts: set[str]) -> bool:
        joined = "".join(texts)
        if not joined.isascii() or "_" in joined or max(map(len, texts)) > MAX_NUMBER:
            return False  # int() and float() read more than we call a number
        integer = self.column.type == "integer"
        try:
            numbers: list[Any] = list(map(int if integer else float, texts))
        except ValueError:
            return False
        if not integer and not all(map(isfinite, numbers)):
            return False
        low, high = self.column.minimum, self.column.maximum
        return (low is None or min(numbers) >= low) and (high is None or max(numbers) <= high)

    def _dates(self, texts: set[str]) -> bool:
        if self.column.type == "date" and not self.column.date_format:
            if set(map(len, texts)) != {10} or "W" in "".join(texts):
                return False
            try:
                list(map(date.fromisoformat, texts))
            except ValueError:
                return False
            return True
        return None not in map(self._read, texts)

    def _all_match(self, texts: set[str]) -> bool:
        assert self._matches is not None
        return max(map(len, texts)) <= MAX_MATCHED and all(map(self._matches, texts))

    # -- one value

    def blank(self, text: str) -> bool:
        return text in self.blanks or text.strip() in self.blanks

    def json_blank(self, value: Any) -> bool:
        if type(value) is str:
            return self.blank(value)
        return value is None or (bool(self.column.missing) and text_of(value) in self.blanks)

    def broken_rule(self, text: str) -> str:
        """Return the first rule that a value in text breaks; "" if none."""
        if self.blank(text):
            return "required" if self.column.required else ""
        read: Any = None
        if self.column.type != "text":
            read = self._read(text)
            if read is None:
                return "type"
        return self._rest(read, text)

    def broken_json_rule(self, value: Any) -> str:
        """Return the first rule that a value of a JSON record breaks; "" if none. Null and an absent member are
        blank."""
        if self.json_blank(value):
            return "required" if self.column.required else ""
        kind = self.column.type
        read: Any = None
        if kind in ("integer", "number"):
            if type(value) not in (int, float) or (kind == "integer" and value != value // 1):
                return "type"
            read = value
        elif kind == "boolean":
            if type(value) is not bool:
                return "type"
        elif type(value) is not str or (kind != "text" and self._read(value) is None):
            return "type"
        return self._rest(read, text_of(value) if self._textual else "")

    def _rest(self, read: Any, text: str) -> str:
        if self._bounded:
            if self.column.minimum is not None and read < self.column.minimum:
                return "minimum"
            if self.column.maximum is not None and read > self.column.maximum:
                return "maximum"
        if self._allowed and text not in self._allowed:
            return "values"
        if self._matches is not None and (len(text) > MAX_MATCHED or not self._matches(text)):
            return "pattern"
        if self.unique and _key(text) in self._seen:
            return "unique"
        return ""

    def saw(self, text: str) -> None:
        """Remember the value of a row that passed, if the values of the column must be unique."""
        if not self.blank(text):
            self._seen.add(_key(text))
            self._bound()

    def _bound(self) -> None:
        if len(self._seen) > MAX_UNIQUE:
            raise BadInput(
                f"column {self.name} has more than {MAX_UNIQUE:,} values to keep apart",
                hint="take `unique` off this column, or split the source",
            )

    def violation(self, rule: str) -> Violation:
        return self.name, rule, self.mode, self._message(rule)

    def _message(self, rule: str) -> str:
        if rule == "type":
            return f"the value is not {_NOUN[self.column.type]}"
        if rule == "minimum":
            return f"the value is below {ecmascript_number(self.column.minimum or 0)}"
        if rule == "maximum":
            return f"the value is above {ecmascript_number(self.column.maximum or 0)}"
        return _MESSAGES[rule]


_MESSAGES = {
    "required": "there is no value",
    "values": "the value is not one of those allowed",
    "pattern": f"the value does not match the pattern, or is longer than {MAX_MATCHED:,} characters",
    "unique": "the value is there a second time",
}


def text_of(value: Any) -> str:
    """Return a JSON value as the texts of a contract write it: 1.0 is 1, True is true."""
    if type(value) is str:
        return value
    return "" if value is None else canonical(value).decode()


def _keys(texts: set[str]) -> set[str | bytes]:
    if not texts or max(map(len, texts)) <= _SHORT:
        return texts  # type: ignore[return-value]
    return set(map(_key, texts))


def _key(text: str) -> str | bytes:
    if len(text) <= _SHORT:
        return text
    import hashlib

    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _reader(column: Column) -> Callable[[str], object]:
    """Return a function that reads a text as the column's type; it returns None for a text of another type."""
    if column.date_format and column.type in ("date", "datetime"):
        return _checked(date_reader(column.date_format))
    return _READERS[column.type]


def _integer(text: str) -> int | None:
    text = text.strip()
    return int(text) if len(text) <= MAX_NUMBER and _INTEGER.fullmatch(text) else None


def _number(text: str) -> float | None:
    text = text.strip()
    if len(text) > MAX_NUMBER or not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if isfinite(number) else None


def _truth(text: str) -> bool | None:
    return True if text.strip().lower() in _TRUTHS else None


def _checked(fits: Callable[[str], bool]) -> Callable[[str], bool | None]:
    def read(text: str) -> bool | None:
        text = text.strip()
        return True if len(text) <= MAX_DATE and fits(text) else None

    return read


_READERS: dict[str, Callable[[str], object]] = {
    "text": str,
    "integer": _integer,
    "number": _number,
    "boolean": _truth,
    "date": _checked(is_date),
    "datetime": _checked(is_moment),
}
