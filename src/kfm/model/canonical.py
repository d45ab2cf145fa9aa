"""Canonical JSON: one value, one sequence of bytes (RFC 8785). Its reader is parsing/strict_json.py.

Every digest in the house is taken over these bytes, so nothing is repaired on the way: a value without
an exact JSON form (NaN, an integer that a double cannot hold, half a surrogate pair) is refused with
its place. Integers may reach 2^53 either way: RFC 8785 knows only doubles, and each of these is one.

msgspec's sorted encoder writes exactly the canonical bytes of most values, twenty times faster than
Python can. Three things it writes otherwise: some floats (1.0, -0.0, 1e21, NaN), types that JSON does
not have (bytes, sets, dates), and the order of keys where one has a character past U+FFFF and another
one in U+E000..U+FFFF. `all_plain` and `_same_order` recognise the values that hold none of these, whole
floats apart, which `_without_points` mends in the bytes; `exact_form` rewrites the others until msgspec
writes them right, or says what is wrong and where.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kfm.parsing.strict_json import CROWD, MAX_DEPTH, NoJsonForm, all_plain, exact_form

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_encode_as_is = msgspec.json.Encoder().encode


def canonical(value: Any) -> bytes:
    """The one form of a value: keys in UTF-16 order, no space, numbers as ECMAScript writes them.

    Lists and tuples are arrays, records are objects. Negative zero is written as 0.
    """
    whole: list[float] = []
    if all_plain((value,), MAX_DEPTH, whole):
        try:
            body = _encode_sorted(value)
        except (UnicodeEncodeError, TypeError):  # half a surrogate pair, or a key that is not text: where?
            body = b""
        if whole:
            body = _without_points(body, len(whole))
        if body and (body.isascii() or _same_order(body)):
            return body
    try:
        exact = exact_form(value, MAX_DEPTH)
    except NoJsonForm as unfit:
        raise unfit.refusal("") from None
    if _is_crowded(exact):
        return _encode_as_is(_ordered(exact))
    body = _encode_sorted(exact)
    return body if body.isascii() or _same_order(body) else _encode_as_is(_ordered(exact))


def of_texts(value: list[Any]) -> bytes:
    """The same of what is known to hold texts, small whole numbers and lists of them: nothing is looked at twice."""
    try:
        body = _encode_sorted(value)
    except UnicodeEncodeError:
        return canonical(value)
    return body if body.isascii() else canonical(value)


def _is_crowded(value: Any) -> bool:
    """Whether an object in it has more keys than msgspec can sort without running out of its stack."""
    if isinstance(value, dict):
        return len(value) > CROWD or any(map(_is_crowded, value.values()))
    return isinstance(value, list) and any(map(_is_crowded, value))


def is_plain(value: Any) -> bool:
    """Whether msgspec's sorted encoder writes the canonical form, provided that it writes nothing but ASCII."""
    whole: list[float] = []
    return all_plain((value,), MAX_DEPTH, whole) and not whole


def encode_record(record: msgspec.Struct) -> bytes:
    """The canonical form of a record: `canonical`, for callers that hold nothing but records."""
    return canonical(record)


def _without_points(body: bytes, whole: int) -> bytes:
    """12.0 as 12. Empty if more looks like a whole float than there are: then some of it is text."""
    cut, count = re.subn(rb"\.0(?=[,\]}])", b"", body)
    return cut if count == whole else b""


def _same_order(body: bytes) -> bool:
    """Whether UTF-8 and UTF-16 sort all keys alike: not so only where both of two kinds of characters occur."""
    if b"\xee" not in body and b"\xef" not in body:  # U+E000..U+FFFF
        return True
    return not any(lead in body for lead in (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4"))  # past U+FFFF


def _ordered(value: Any) -> Any:
    """The same with every object's keys in UTF-16 order."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value, key=lambda key: key.encode("utf-16-be"))}
    return [_ordered(item) for item in value] if isinstance(value, list) else value
