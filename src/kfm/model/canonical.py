"""Canonical JSON: one value, one sequence of bytes (RFC 8785). parsing/strict_json.py reads it.

Every digest is taken over these bytes, so nothing is repaired on the way: a value without an exact JSON form (NaN, an
integer that a double cannot hold, half a surrogate pair) is refused with its place. Integers may go up to 2^53 in both
directions: RFC 8785 has only doubles, and each of these is one.

msgspec's sorted encoder writes the canonical bytes of most values, twenty times faster than Python code. Three things
it writes differently: some floats (1.0, -0.0, 1e21, NaN), types that JSON does not have (bytes, sets, dates), and the
order of keys if one has a character above U+FFFF and another one in U+E000..U+FFFF. `all_plain` and `_same_order`
recognise values without these, except whole floats, which `_without_points` corrects in the bytes. `exact_form`
rewrites all other values until msgspec writes them correctly, or reports what is wrong and where.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kfm.parsing.strict_json import CROWD, MAX_DEPTH, NoJsonForm, all_plain, exact_form

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_encode_as_is = msgspec.json.Encoder().encode


def canonical(value: Any) -> bytes:
    """Return the canonical form: keys in UTF-16 order, no spaces, numbers as ECMAScript writes them.

    Lists and tuples become arrays, records become objects, negative zero becomes 0. Raise BadInput if there is no such
    form.
    """
    whole: list[float] = []
    if all_plain((value,), MAX_DEPTH, whole):
        try:
            body = _encode_sorted(value)
        except (
            UnicodeEncodeError,
            TypeError,
        ):  # half a surrogate pair, or a key that is not text; the slow path finds the place
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
    """Return the canonical form of texts, small integers and lists of them, without the checks of `canonical`."""
    try:
        body = _encode_sorted(value)
    except UnicodeEncodeError:
        return canonical(value)
    return body if body.isascii() else canonical(value)


def _is_crowded(value: Any) -> bool:
    """Return whether an object inside the value has more keys than msgspec can sort on its stack."""
    if isinstance(value, dict):
        return len(value) > CROWD or any(map(_is_crowded, value.values()))
    return isinstance(value, list) and any(map(_is_crowded, value))


def is_plain(value: Any) -> bool:
    """Return whether msgspec's sorted encoder writes the canonical form, provided that its output is ASCII."""
    whole: list[float] = []
    return all_plain((value,), MAX_DEPTH, whole) and not whole


def _without_points(body: bytes, whole: int) -> bytes:
    """Return the JSON bytes with whole floats written as integers, 12.0 as 12; `whole` is the number of such floats.
    Return nothing if more places look like one, because some of them are then inside texts."""
    cut, count = re.subn(rb"\.0(?=[,\]}])", b"", body)
    return cut if count == whole else b""


def _same_order(body: bytes) -> bool:
    """Return whether UTF-8 and UTF-16 sort all keys alike. They differ only if some characters are above U+FFFF and
    others are between U+E000 and U+FFFF."""
    if b"\xee" not in body and b"\xef" not in body:  # U+E000..U+FFFF
        return True
    return not any(lead in body for lead in (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4"))  # above U+FFFF


def _ordered(value: Any) -> Any:
    """Return the value with the keys of every object in UTF-16 order."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value, key=lambda key: key.encode("utf-16-be"))}
    return [_ordered(item) for item in value] if isinstance(value, list) else value
