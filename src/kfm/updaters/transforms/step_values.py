"""What a value means to a step: blank or not, its text, its number, its boolean, its place in an order.

Values of a table are texts. Values of JSON have the types of JSON, and a missing member is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from kfm.model.canonical import canonical
from kfm.parsing.strict_json import ecmascript_number

MAX_NUMBER = 400  # characters
MAX_INTEGER = 2**53
UNFIT: Final = object()  # the result of a cast for a value that does not fit

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUTHS = {"true": True, "yes": True, "t": True, "y": True, "1": True,
           "false": False, "no": False, "f": False, "n": False, "0": False}  # fmt: skip


def is_blank(value: Any) -> bool:
    """Return whether the value is null, empty, or only white space."""
    return value is None or (type(value) is str and (not value or value.isspace()))


def text_of(value: Any) -> str:
    """Return the value as a text: itself, or its canonical JSON; null is empty."""
    if type(value) is str:
        return value
    return "" if value is None else canonical(value).decode()


def number_in(text: str) -> int | float | None:
    """Return a finite decimal number, ignoring spaces around it; None otherwise. An integer larger than 2^53 counts
    only in the canonical form of its double, because other digits would be rounded."""
    text = text.strip()
    if len(text) > MAX_NUMBER or not _NUMBER.fullmatch(text):
        return None
    if _INTEGER.fullmatch(text):
        whole = int(text)
        if -MAX_INTEGER <= whole <= MAX_INTEGER:
            return whole
        return float(whole) if len(text) <= 22 and ecmascript_number(float(whole)) == text else None
    number = float(text)
    return number if isfinite(number) else None


def integer_in(text: str) -> int | None:
    text = text.strip()
    if len(text) > MAX_NUMBER or not _INTEGER.fullmatch(text):
        return None
    return whole if -MAX_INTEGER <= (whole := int(text)) <= MAX_INTEGER else None


def truth_in(text: str) -> bool | None:
    return _TRUTHS.get(text.strip().lower())


def number_text(number: int | float) -> str:
    """Return the canonical text of a number: as ECMAScript writes it, and never -0."""
    if type(number) is int:
        return str(number)
    return ecmascript_number(number)


def number_of(value: Any) -> int | float | None:
    kind = type(value)
    if kind is int or kind is float:
        return value  # type: ignore[no-any-return]
    return number_in(value) if kind is str else None


def integer_of(value: Any) -> int | None:
    kind = type(value)
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is float:
        return int(value) if value.is_integer() and abs(value) <= MAX_INTEGER else None
    return integer_in(value) if kind is str else None


def truth_of(value: Any) -> bool | None:
    kind = type(value)
    if kind is bool:
        return value  # type: ignore[no-any-return]
    return truth_in(value) if kind is str else None


READERS: dict[str, Callable[[Any], Any]] = {
    "integer": integer_of,
    "number": number_of,
    "boolean": truth_of,
    "text": text_of,
}


def cast(kind: str, value: Any) -> Any:
    """Return the value as this type; UNFIT if it does not fit. A blank value becomes null, and blank text stays."""
    if is_blank(value):
        return value if kind == "text" else None
    found = READERS[kind](value)
    return UNFIT if found is None else found


def cast_text(kind: str, text: str) -> Any:
    """Return a text of a table as this type, written as a text again; UNFIT if it does not fit. Blank text stays."""
    if kind == "text":
        return text
    if not text or text.isspace():
        return ""
    if kind == "boolean":
        truth = truth_in(text)
        return UNFIT if truth is None else "true" if truth else "false"
    number = integer_in(text) if kind == "integer" else number_in(text)
    return UNFIT if number is None else number_text(number)


def place(value: Any) -> tuple[int, Any] | None:
    """Return a sort key for a JSON value: numbers come first, then texts, booleans, lists and objects; None for
    blanks."""
    kind = type(value)
    if kind is str:
        return None if not value or value.isspace() else (1, value)
    if value is None:
        return None
    if kind is int or kind is float:
        return 0, value
    if kind is bool:
        return 2, value
    return 3, canonical(value).decode()


def identity(value: Any) -> Any:
    """Return a value that is equal for key values that count as equal: 1 and 1.0 do, 1 and "1" do not, and all blanks
    do."""
    return None if is_blank(value) else value
