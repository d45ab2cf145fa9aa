"""Parses JSON strictly, and decides which values have an exact JSON form.

A value without one (NaN, an integer that a double cannot hold, half a surrogate pair) is refused with its place and
never repaired. Integers may go up to 2^53 in both directions: each of these is one double.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import astuple

from kfm.errors import BadInput
from kfm.parsing.characters import printable

MAX_DEPTH = 200
MAX_INTEGER = 2**53


def decode(body: bytes, where: str) -> Any:
    """Parse JSON. The result has a canonical form, and no object repeats a key. Raise BadInput otherwise.

    Digits beyond the precision of a double are rounded, as everywhere in JSON. Numbers larger than the largest double
    are refused. Integers larger than 2^53 are refused too, unless the digits are exactly those that KFM writes for that
    double. A syntax error is reported before a problem in a value.
    """
    import json

    if body.startswith(b"\xef\xbb\xbf"):
        raise BadInput(f"{where} begins with a byte order mark", hint="save it as UTF-8 without one")

    def members(pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        return found if len(found) == len(pairs) else _Flaw("names a key twice", "keep one of them")

    def constant(_text: str) -> Any:
        return _Flaw("is NaN or Infinity, which JSON does not have", "write null instead")

    def integer(text: str) -> Any:  # int() of a hundred thousand digits would be slow
        if len(text) < 16:
            return int(text)
        return _large(text) if len(text) <= _LONGEST else _Flaw(*_PAST_INTEGERS)

    try:
        value = json.loads(body.decode(), object_pairs_hook=members, parse_constant=constant, parse_int=integer)
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{where} is not UTF-8 at line {line}, byte {error.start}", hint="save it as UTF-8") from None
    except (json.JSONDecodeError, RecursionError):
        raise _no_json(body.decode(), where) or BadInput(f"{where} {_TOO_DEEP[0]}", hint=_TOO_DEEP[1]) from None
    if b"\\u" in body or not all_plain((value,), MAX_DEPTH, []):
        try:
            exact_form(value, MAX_DEPTH)
        except NoJsonForm as unfit:
            raise _no_json(body.decode(), where) or unfit.refusal(where) from None
    return value


def _no_json(text: str, where: str) -> BadInput | None:
    """Return the error for the first place where a text is not JSON; None if it is JSON."""
    from kfm.parsing.json_errors import TOO_DEEP, first_fault

    fault = first_fault(text, MAX_DEPTH)
    if fault is None:
        return None
    if fault.reason is TOO_DEEP:
        what, hint = _TOO_DEEP
        return BadInput(f"{where} {what}", hint=hint)
    line = text.count("\n", 0, fault.index) + 1
    column = fault.index - text.rfind("\n", 0, fault.index)
    return BadInput(f"{where} is not JSON at line {line}, column {column}: {fault.reason}", hint="correct it there")


_LONGEST = 22  # characters of the longest integer that `ecmascript_number` writes


def _large(text: str) -> int | float | _Flaw:
    """Return the value of an integer with many digits: exact up to 2^53, and beyond it only in the form that KFM
    writes."""
    whole = int(text)
    if -MAX_INTEGER <= whole <= MAX_INTEGER:
        return whole
    return double if ecmascript_number(double := float(text)) == text else _Flaw(*_PAST_INTEGERS)


_TOO_DEEP = (f"is nested deeper than {MAX_DEPTH} levels", "flatten it")
_PAST_INTEGERS = ("is an integer larger than 2^53", "write it as text")
_HALF_PAIR = ("holds half a surrogate pair", "remove it: it is not a character")


class _Flaw:
    """Takes the place of a forbidden value while parsing; `exact_form` then reports it with its path."""

    __slots__ = ("hint", "what")

    def __init__(self, what: str, hint: str) -> None:
        self.what = what
        self.hint = hint


class NoJsonForm(Exception):
    """Raised if a value has no canonical form. Callers add the path, innermost part first, while the exception
    rises."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.inside_out: list[str | int] = []

    def refusal(self, where: str) -> BadInput:
        place = "$"
        for part in reversed(self.inside_out):
            place += f"[{part}]" if isinstance(part, int) else _member(part)
            if len(place) > 300:
                place += "…"
                break
        return BadInput(f"{where}: {place} {self.what}" if where else f"{place} {self.what}", hint=self.hint)


def _member(key: str) -> str:
    if key.isidentifier() and key.isascii() and len(key) <= 80:
        return f".{key}"
    return f"[{printable(key)}]"


CROWD = 10_000  # keys of one object: msgspec's sort overflows the stack on more, if most are sorted already


def all_plain(values: Any, room: int, whole: list[float]) -> bool:
    """Return whether msgspec writes these values canonically, apart from the order of keys and the floats added to
    `whole`.

    It is one pass without a copy, because every digest runs it; frequent types are checked first. `room` is the number
    of levels that may follow; it also ends a list that contains itself.
    """
    room -= 1
    for value in values:
        kind = type(value)
        if kind is str:
            continue
        if kind is int:
            if value.bit_length() < 54:
                continue
            return False
        if value is None or kind is bool:
            continue
        if kind is float:
            if (value >= 1e-5 and value < 1e15) or (value <= -1e-5 and value > -1e15):
                if value.is_integer():
                    whole.append(value)
                continue
            if repr(value) == "0.0":
                whole.append(value)
                continue
            return False
        if kind is dict:
            if room >= 0 and (not value or (len(value) <= CROWD and all_plain(value.values(), room, whole))):
                continue
            return False
        if kind is list or kind is tuple:
            if room >= 0 and (not value or all_plain(value, room, whole)):
                continue
            return False
        if isinstance(value, msgspec.Struct) and room >= 0 and all_plain(astuple(value), room, whole):
            continue
        return False
    return True


def exact_form(value: Any, room: int) -> Any:
    """Return a copy of a value in plain types that msgspec writes canonically, apart from the order of keys. Raise
    NoJsonForm if it has no exact JSON form."""
    kind = type(value)
    if (kind is str and value.isascii()) or value is None or kind is bool:
        return value
    if kind is float or isinstance(value, float):
        return _double(float(value))
    if kind is list or isinstance(value, (list, tuple)):
        return _array(value, room)
    if kind is dict or isinstance(value, dict):
        return _object(value, room)
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise NoJsonForm(*_PAST_INTEGERS)
        return int(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, msgspec.Struct):
        members = _shallow(value)
        return _object(members, room) if isinstance(members, dict) else _array(members, room)
    if isinstance(value, _Flaw):
        raise NoJsonForm(value.what, value.hint)
    raise NoJsonForm(f"is of type {kind.__name__}, which JSON does not have", "convert it first")


def _array(items: list[Any] | tuple[Any, ...], room: int) -> list[Any]:
    if not room:
        raise NoJsonForm(*_TOO_DEEP)
    copy: list[Any] = []
    try:
        for item in items:
            copy.append(exact_form(item, room - 1))
    except NoJsonForm as unfit:
        unfit.inside_out.append(len(copy))
        raise
    return copy


def _object(members: dict[Any, Any], room: int) -> dict[str, Any]:
    if not room:
        raise NoJsonForm(*_TOO_DEEP)
    copy: dict[str, Any] = {}
    for key, item in members.items():
        if type(key) is not str or not key.isascii():
            if not isinstance(key, str):
                raise NoJsonForm(f"has a key of type {type(key).__name__}", "use text keys")
            key = _text(key)
        try:
            copy[key] = exact_form(item, room - 1)
        except NoJsonForm as unfit:
            unfit.inside_out.append(key)
            raise
    return copy


def _shallow(record: msgspec.Struct) -> dict[str, Any] | list[Any]:
    """Return one level of a record with the names, tag and omissions that its class declares."""
    try:
        shown = msgspec.to_builtins(record, enc_hook=lambda _other: None)
    except RecursionError:
        raise NoJsonForm(*_TOO_DEEP) from None
    except TypeError:
        raise NoJsonForm("has a key that is no text", "use text keys") from None
    if isinstance(shown, list):
        values = astuple(record)
        return [*shown[: len(shown) - len(values)], *values]  # the tag comes first
    fields = dict(zip(record.__struct_encode_fields__, record.__struct_fields__, strict=True))
    return {name: getattr(record, fields[name]) if name in fields else tag for name, tag in shown.items()}


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NoJsonForm(*_HALF_PAIR) from None
    return str.__str__(value)


def _double(value: float) -> int | float | msgspec.Raw:
    if -MAX_INTEGER <= value <= MAX_INTEGER:
        if value.is_integer():
            return int(value)
        if 1e-5 <= abs(value) < 1e15:
            return value
    elif value - value != 0:
        raise NoJsonForm("is not a finite double", "use null where there is no value")
    return msgspec.Raw(ecmascript_number(value).encode())


def ecmascript_number(value: float) -> str:
    """Format a finite double as JavaScript's Number::toString does: the shortest exact digits, plain from 1e-6 to
    1e21."""
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + int(exponent or 0)  # the value is 0.digits times 10 to this power
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"
