"""Converts plain values into a record, or reports in one line which key is wrong and what it must hold.

msgspec converts. Only if it refuses does this module look for the place of the mistake.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from kfm.errors import BadInput
from kfm.parsing.documents import Document, Path, dotted
from kfm.parsing.partial_structs import convert_partial
from kfm.parsing.yaml_scalars import kind

T = TypeVar("T")
_Problem = tuple[Path, str, str]
_ADD = "add it"


def into(document: Document, type_: type[T]) -> T:
    """Return the document as `type_`. Raise BadInput for the first problem in the file."""
    with contextlib.suppress(msgspec.ValidationError):
        return convert_partial(document.value, type_)
    try:
        return msgspec.convert(document.value, type_, strict=True)
    except msgspec.ValidationError as error:
        wanted: Any = type_
        found = _problems(described(wanted), document.value, ())
        # A misspelled key explains a missing one, so missing keys are reported last.
        problems = sorted(found, key=lambda problem: (problem[2] == _ADD, document.position(problem[0])))
        if not problems:
            raise BadInput(f"{document.where}: {str(error).splitlines()[0]}") from None
        path, what, hint = problems[0]
        raise BadInput(f"{document.place(path)}: {what}", hint=hint, key=dotted(path)) from None


@lru_cache(maxsize=4)
def described(type_: Any) -> Any:
    """Return msgspec's description of a type. Cached, because msgspec takes long."""
    from msgspec import inspect

    return inspect.type_info(type_)


def nearest(name: str, known: list[str]) -> str:
    """Return the known name that is closest to a misspelled one, or an empty text."""
    from difflib import get_close_matches

    plain = name.replace("-", "_").lower()[:80]
    found = get_close_matches(plain, known, n=1, cutoff=0.6)
    return found[0] if found else ""


def unknown_key(path: Path, known: list[str]) -> _Problem:
    close = nearest(str(path[-1]), known)
    listed = "known here: " + ", ".join(known)
    return path, f"unknown key {dotted(path)}", f"did you mean {close}?" if close else listed


def bare(info: Any) -> Any:
    """Return the type without its annotations, and without None if that leaves one type."""
    from msgspec import inspect

    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        rest = [t for t in info.types if not isinstance(t, inspect.NoneType)]
        if len(rest) == 1:
            return bare(rest[0])
    return info


def _problems(info: Any, value: Any, path: Path) -> Iterator[_Problem]:
    from msgspec import inspect

    if value is None and _nullable(info):
        return
    info = _intended_type(bare(info), value)
    if isinstance(info, inspect.UnionType):
        yield _wrong(path, " or ".join(_TYPE_NAMES[kind] for kind in _TYPE_NAMES if _offers(info, kind)), value)
        return
    if isinstance(info, inspect.StructType):
        yield from _struct_problems(info, value, path)
    elif isinstance(info, inspect.DictType):
        if not isinstance(value, dict):
            yield _wrong(path, "a mapping", value)
            return
        for key, item in value.items():
            yield from _problems(info.value_type, item, (*path, key))
    elif isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        if not isinstance(value, list):
            yield _wrong(path, "a list", value)
            return
        if info.min_length and len(value) < info.min_length:
            yield path, f"{dotted(path)} is empty", "give it a value"
        if info.max_length is not None and len(value) > info.max_length:
            yield path, f"{dotted(path)} holds more than {info.max_length}", "remove some"
        for index, item in enumerate(value):
            yield from _problems(info.item_type, item, (*path, index))
    elif not isinstance(info, inspect.AnyType):
        yield from _scalar_problems(info, value, path)


# The names of the types of a union in a message, in this order.
_TYPE_NAMES = {"StrType": "text", "FloatType": "a number", "IntType": "a number", "BoolType": "true or false",
          "StructType": "a mapping"}  # fmt: skip


def _offers(union: Any, kind: str) -> bool:
    found = {type(choice).__name__ for choice in map(bare, union.types)}
    return kind in found and not (kind == "IntType" and "FloatType" in found)


def _intended_type(info: Any, value: Any) -> Any:
    """Return the member of a union that fits the kind of this value, or the union itself if none does."""
    from msgspec import inspect

    if not isinstance(info, inspect.UnionType):
        return info
    wanted: tuple[type, ...] = (inspect.StructType,) if isinstance(value, dict) else ()
    if isinstance(value, bool):
        wanted = (inspect.BoolType,)
    elif isinstance(value, (int, float)):
        wanted = (inspect.FloatType, inspect.IntType)
    elif isinstance(value, str):
        wanted = (inspect.StrType,)
    found = [choice for choice in map(bare, info.types) if isinstance(choice, wanted)]
    return next((choice for kind in wanted for choice in found if isinstance(choice, kind)), info)


def _nullable(info: Any) -> bool:
    from msgspec import inspect

    while isinstance(info, inspect.Metadata):
        info = info.type
    return isinstance(info, (inspect.NoneType, inspect.AnyType)) or (
        isinstance(info, inspect.UnionType) and any(isinstance(t, inspect.NoneType) for t in info.types)
    )


def _struct_problems(info: Any, value: Any, path: Path) -> Iterator[_Problem]:
    if not isinstance(value, dict):
        yield _wrong(path, "a mapping", value)
        return
    known = {field.encode_name: field for field in info.fields}
    for key, item in value.items():
        if key in known:
            yield from _problems(known[key].type, item, (*path, key))
        else:
            yield unknown_key((*path, key), list(known))
    for name, field in known.items():
        if field.required and name not in value:
            yield path, f"{dotted((*path, name))} is missing", _ADD


def _scalar_problems(info: Any, value: Any, path: Path) -> Iterator[_Problem]:
    from msgspec import inspect

    if isinstance(info, inspect.LiteralType):
        if value not in info.values or isinstance(value, bool):
            listed = ", ".join(str(v) for v in info.values)
            if isinstance(value, str) and isinstance(info.values[0], str):
                close = nearest(value, [str(v) for v in info.values])
                yield path, f"{dotted(path)} is not one of {listed}", f"did you mean {close}?" if close else ""
            else:
                yield path, f"{dotted(path)} must be one of {listed}; found {kind(value)}", ""
    elif isinstance(info, inspect.BoolType):
        if not isinstance(value, bool):
            yield _wrong(path, "true or false", value)
    elif isinstance(info, inspect.IntType):
        if isinstance(value, bool) or not isinstance(value, int):
            yield _wrong(path, "an integer", value)
        else:
            yield from _range_problems(info, value, path)
    elif isinstance(info, inspect.FloatType):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield _wrong(path, "a number", value)
        else:
            yield from _range_problems(info, value, path)
    elif isinstance(info, inspect.StrType):
        if not isinstance(value, str):
            yield _wrong(path, "text", value)
        elif info.min_length and len(value) < info.min_length:
            yield path, f"{dotted(path)} is empty", "give it a value"
        elif info.max_length is not None and len(value) > info.max_length:
            yield path, f"{dotted(path)} is longer than {info.max_length} characters", ""


def _range_problems(info: Any, value: float, path: Path) -> Iterator[_Problem]:
    bounds = [
        ("at least", info.ge, info.ge is None or value >= info.ge),
        ("more than", info.gt, info.gt is None or value > info.gt),
        ("at most", info.le, info.le is None or value <= info.le),
        ("less than", info.lt, info.lt is None or value < info.lt),
    ]
    if not all(kept for _, _, kept in bounds):
        wanted = " and ".join(f"{words} {_figure(bound)}" for words, bound, _ in bounds if bound is not None)
        yield path, f"{dotted(path)} must be {wanted}", ""


def _wrong(path: Path, expected: str, value: Any) -> _Problem:
    hint = ""
    if value is None:
        hint = "give it a value or leave the key out"
    elif expected == "text" and isinstance(value, (int, float)):
        hint = "put it in quotes"
    elif expected == "true or false" and isinstance(value, str):
        hint = "yes, no, on and off are text in YAML 1.2; write true or false"
    elif expected in ("an integer", "a number") and isinstance(value, str):
        hint = "write it without quotes, units or separators"
    elif expected == "a list":
        hint = "write it as [one, two]"
    return path, f"{dotted(path)}: expected {expected}, found {kind(value)}", hint


def _figure(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)
