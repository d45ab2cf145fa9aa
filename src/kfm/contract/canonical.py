"""Canonical JSON: one value, one sequence of bytes (RFC 8785), and a reader that refuses what has no such form.

Every digest in the house is taken over these bytes, so nothing is repaired on the way: a value without
an exact JSON form (NaN, an integer that a double cannot hold, half a surrogate pair) is refused with
its place. Integers may reach 2^53 either way; RFC 8785 counts on doubles, and every integer up to
there is one.
"""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from kfm.errors import BadInput

MAX_DEPTH = 200
MAX_INTEGER = 2**53

_Path = tuple[str | int, ...]


def canonical(value: Any) -> bytes:
    """The one form of a value: keys in UTF-16 order, no space, numbers as ECMAScript writes them.

    Lists and tuples are arrays, records are objects. Negative zero is written as 0.
    """
    parts: list[str] = []
    _write(value, parts, (), 0)
    return "".join(parts).encode()


def encode_record(record: msgspec.Struct) -> bytes:
    """The canonical form of a record."""
    return canonical(record)


def decode(body: bytes, where: str) -> Any:
    """Read JSON from anyone. Refuses what `canonical` could not write back, and duplicate keys."""
    import json

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(members)
        if len(found) != len(members):
            raise BadInput(f"{where} names a key twice in one object", hint="keep one of them")
        return found

    def constant(_text: str) -> NoReturn:
        raise BadInput(f"{where} holds NaN or Infinity, which JSON does not have", hint="write null instead")

    def integer(text: str) -> int:
        if len(text) > 17 or abs(int(text)) > MAX_INTEGER:
            raise BadInput(f"{where} holds an integer past 2^53", hint="write it as text")
        return int(text)

    def number(text: str) -> float:
        found = float(text)
        if found - found != 0:
            raise BadInput(f"{where} holds a number too large for a double", hint="write it as text")
        return found

    try:
        text = body.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=pairs, parse_constant=constant, parse_int=integer, parse_float=number
        )
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8 at byte {error.start}", hint="save it as UTF-8") from None
    except RecursionError:
        raise BadInput(f"{where} is nested deeper than {MAX_DEPTH} levels", hint="flatten it") from None
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{where} is not JSON at line {error.lineno}, column {error.colno}", hint="correct it there"
        ) from None
    canonical(value)
    return value


def _write(value: Any, out: list[str], path: _Path, depth: int) -> None:
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        out.append(_text(value, path))
    elif isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            _refuse(path, "is an integer past 2^53", "write it as text")
        out.append(str(int(value)))
    elif isinstance(value, float):
        out.append(_number(value, path))
    elif depth >= MAX_DEPTH and isinstance(value, (list, tuple, dict, msgspec.Struct)):
        _refuse(path, f"is nested deeper than {MAX_DEPTH} levels", "flatten it")
    elif isinstance(value, (list, tuple)):
        out.append("[")
        for index, item in enumerate(value):
            if index:
                out.append(",")
            _write(item, out, (*path, index), depth + 1)
        out.append("]")
    elif isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                _refuse(path, "has a key that is not text", "use text keys")
        out.append("{")
        for index, key in enumerate(sorted(value, key=_utf16)):
            if index:
                out.append(",")
            out.append(_text(key, path))
            out.append(":")
            _write(value[key], out, (*path, key), depth + 1)
        out.append("}")
    elif isinstance(value, msgspec.Struct):
        _write(_members(value), out, path, depth)
    else:
        _refuse(path, f"is a {type(value).__name__}, which JSON does not have", "convert it first")


def _members(record: msgspec.Struct) -> dict[str, Any]:
    return {encoded: getattr(record, name) for name, encoded in zip(
        record.__struct_fields__, record.__struct_encode_fields__, strict=True
    )}  # fmt: skip


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _text(value: str, path: _Path) -> str:
    try:
        return msgspec.json.encode(str.__str__(value)).decode()
    except UnicodeEncodeError:
        _refuse(path, "holds half a surrogate pair", "it is no character; remove it")


def _number(value: float, path: _Path) -> str:
    """As ECMAScript's Number::toString: the shortest digits that read back, plain from 1e-6 up to 1e21."""
    if value - value != 0:
        _refuse(path, "is not a finite number", "use None where there is no value")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or "0") - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = point - 1
    rest = "." + digits[1:] if count > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'+' if power >= 0 else '-'}{abs(power)}"


def _refuse(path: _Path, what: str, hint: str) -> NoReturn:
    raise BadInput(f"{_place(path)} {what}", hint=hint)


def _place(path: _Path) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
