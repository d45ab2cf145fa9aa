"""The value of a YAML text without quotes: null, true, false, a number, or the text (YAML 1.2, core schema)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from kfm.parsing.lazy_regex import pattern

MAX_INTEGER = 2**53

Fail = Callable[[str, str], NoReturn]

_NUMBER = pattern(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_INTEGER = pattern(r"[+-]?[0-9]+\Z")
_OTHER_BASE = pattern(r"0(?:x[0-9a-fA-F]+|o[0-7]+)\Z")
_NO_NUMBER = pattern(r"[+-]?\.(?:inf|nan)\Z", re.IGNORECASE | re.ASCII)


def plain(text: str, fail: Fail) -> Any:
    """Return the value of a text without quotes. A number without a fraction becomes an integer."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _NO_NUMBER.match(text):
        fail("infinity and NaN are not numbers here", "leave the key out, or quote the text")
    if _INTEGER.match(text):
        digits = text.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0":
            fail("some parsers read a number with a leading zero as octal", "drop the zero, or quote the text")
        return _integer(text, 10, fail)
    if _OTHER_BASE.match(text):
        return _integer(text[2:], 16 if text[1] == "x" else 8, fail)
    if not _NUMBER.match(text):
        return text
    number = float(text)
    if number - number != 0:
        fail("a number is too large for a double", "use a smaller one, or quote the text")
    return whole(number)


def whole(number: float) -> int | float:
    """Return an integer if a double holds it exactly: JSON and YAML do not distinguish 1.0 from 1."""
    return int(number) if number.is_integer() and abs(number) <= MAX_INTEGER else number


def _integer(digits: str, base: int, fail: Fail) -> int:
    number = int(digits, base) if len(digits) <= 64 else MAX_INTEGER + 1
    if abs(number) > MAX_INTEGER:
        fail("an integer is larger than 2^53", "use a smaller one, or quote the text")
    return number


def kind(value: Any) -> str:
    """Name the kind of a value for a message; the value itself is never shown."""
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
