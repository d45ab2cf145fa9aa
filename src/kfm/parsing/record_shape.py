"""Converts plain values into a record, or reports in one line which key is wrong and what it must hold.

msgspec converts. Only if it refuses does this module look for the place of the mistake.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from kfm.errors import BadInput
from kfm.parsing.documents import Document, Path, dotted
from kfm.parsing.partial_structs import convert_partial
from kfm.parsing.yaml_scalars import kind

T = TypeVar("T")
_ADD = "add it"
_ADVISED = 100  # unknown keys of one mapping for which a near name is looked for, which takes long
_ROUNDS = 10  # a key that was renamed shows what is below it


class Problem(NamedTuple):
    """What is wrong with one part of a value, and what belongs there."""

    path: Path
    what: str
    hint: str
    wanted: Any = None  # the type, as msgspec describes it; None of an unknown key
    meant: str = ""  # the key or the word that was likely meant; the name of a key that is missing

    @property
    def is_missing(self) -> bool:
        """Whether the problem is a missing key; `path` is then that of the mapping which lacks the key."""
        return self.hint == _ADD


def into(document: Document, type_: type[T]) -> T:
    """Return the document as a record of `type_`. Raise BadInput for the first problem in the file. If the document
    collects mistakes, keep all of them there, and put stand-ins in place of the wrong parts."""
    with contextlib.suppress(msgspec.ValidationError):
        return convert_partial(document.value, type_)
    try:
        return msgspec.convert(document.value, type_, strict=True)
    except msgspec.ValidationError as error:
        if document.mistakes is not None:
            return _repaired(document, type_)
        problems = problems_of(document, type_)
        raise (refusal(document, problems[0]) if problems else without_place(document, error)) from None


def part_into(document: Document, path: Path, value: Any, type_: type[T]) -> T:
    """Return one part of a document as a record of `type_`: a part whose type another part names. Raise BadInput for
    its first problem."""
    try:
        return msgspec.convert(value, type_, strict=True)
    except msgspec.ValidationError as error:
        found = sorted(
            _problems(_info_of(type_), value, path), key=lambda each: (each.is_missing, document.position(each.path))
        )
        raise (refusal(document, found[0]) if found else without_place(document, error)) from None


def _info_of(type_: Any) -> Any:
    return described(type_)


def problems_of(document: Document, type_: Any) -> list[Problem]:
    """Return all problems that keep the document from being a `type_`, in the order of the file. Missing keys come
    last, because a misspelled key often explains a missing one."""
    found = _problems(described(type_), document.value, ())
    return sorted(found, key=lambda problem: (problem.is_missing, document.position(problem.path)))


def refusal(document: Document, problem: Problem) -> BadInput:
    return BadInput(f"{document.place(problem.path)}: {problem.what}", hint=problem.hint, key=dotted(problem.path))


def without_place(document: Document, error: msgspec.ValidationError) -> BadInput:
    """Return the error for a value that msgspec refused and for which this module finds no place. It has the text of
    msgspec."""
    return BadInput(f"{document.where}: {str(error).splitlines()[0]}", hint="correct it there")


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


def unknown_key(path: Path, known: list[str], value: Any) -> Problem:
    from kfm.parsing.synonyms import key_meant, line

    close = key_meant(str(path[-1]), known) or nearest(str(path[-1]), known)
    hint = f"did you mean {close}? write {line(close, value)}" if close else "known here: " + ", ".join(known)
    return Problem(path, f"unknown key {dotted(path)}", hint, meant=close)


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


def _problems(info: Any, value: Any, path: Path) -> Iterator[Problem]:
    from msgspec import inspect

    if value is None and _nullable(info):
        return
    info = _intended_type(bare(info), value)
    if isinstance(info, inspect.UnionType):
        yield _wrong(path, " or ".join(_TYPE_NAMES[kind] for kind in _TYPE_NAMES if _offers(info, kind)), value, info)
        return
    if isinstance(info, inspect.StructType):
        yield from _struct_problems(info, value, path)
    elif isinstance(info, inspect.DictType):
        if not isinstance(value, dict):
            yield _wrong(path, "a mapping", value, info)
            return
        for key, item in value.items():
            yield from _problems(info.value_type, item, (*path, key))
    elif isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        if not isinstance(value, list):
            yield _wrong(path, "a list", value, info)
            return
        if info.min_length and len(value) < info.min_length:
            yield Problem(path, f"{dotted(path)} is empty", "give it a value", info)
        if info.max_length is not None and len(value) > info.max_length:
            yield Problem(path, f"{dotted(path)} holds more than {info.max_length}", "remove some", info)
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


def _struct_problems(info: Any, value: Any, path: Path) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _wrong(path, "a mapping", value, info)
        return
    known = {field.encode_name: field for field in info.fields}
    names = list(known)
    unknown = 0
    for key, item in value.items():
        if key in known:
            yield from _problems(known[key].type, item, (*path, key))
        elif (unknown := unknown + 1) <= _ADVISED:
            yield unknown_key((*path, key), names, item)
        else:
            yield Problem((*path, key), f"unknown key {dotted((*path, key))}", "remove it")
    for name, field in known.items():
        if field.required and name not in value:
            yield Problem(path, f"{dotted((*path, name))} is missing", _ADD, field.type, name)


def _scalar_problems(info: Any, value: Any, path: Path) -> Iterator[Problem]:
    from msgspec import inspect

    if isinstance(info, inspect.LiteralType):
        if value not in info.values or isinstance(value, bool):
            yield _not_a_choice(path, value, info)
    elif isinstance(info, inspect.BoolType):
        if not isinstance(value, bool):
            yield _wrong(path, "true or false", value, info)
    elif isinstance(info, inspect.IntType):
        if isinstance(value, bool) or not isinstance(value, int):
            yield _wrong(path, "an integer", value, info)
        else:
            yield from _range_problems(info, value, path)
    elif isinstance(info, inspect.FloatType):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield _wrong(path, "a number", value, info)
        else:
            yield from _range_problems(info, value, path)
    elif isinstance(info, inspect.StrType):
        if not isinstance(value, str):
            yield _wrong(path, "text", value, info)
        elif info.min_length and len(value) < info.min_length:
            yield Problem(path, f"{dotted(path)} is empty", "give it a value", info)
        elif info.max_length is not None and len(value) > info.max_length:
            yield Problem(path, f"{dotted(path)} is longer than {info.max_length} characters", "shorten it", info)
        elif info.pattern is not None and not re.search(info.pattern, value):
            yield Problem(path, f"{dotted(path)} does not match {info.pattern}", "write it so that it does", info)


def _not_a_choice(path: Path, value: Any, info: Any) -> Problem:
    """Return the problem of a value that is not one of the words allowed here, with the word that was probably
    meant."""
    from kfm.parsing.synonyms import cadence_line, word_meant

    choices = [str(choice) for choice in info.values]
    listed, key = ", ".join(choices), str(path[-1]) if path else ""
    if not isinstance(value, str) or not isinstance(info.values[0], str):
        hint = f"write {key}: {choices[0]}" if len(choices) == 1 else "write one of them"
        return Problem(path, f"{dotted(path)} must be one of {listed}; found {kind(value)}", hint, info)
    if key == "cadence" and (other := cadence_line(value)):
        return Problem(path, f"{dotted(path)} is not one of {listed}", f"write {other} instead of cadence", info)
    close = word_meant(value, choices) or nearest(value, choices)
    line = f" write {key}: {close}" if path and isinstance(path[-1], str) else ""
    hint = f"did you mean {close}?{line}" if close else "write one of them"
    return Problem(path, f"{dotted(path)} is not one of {listed}", hint, info, close)


def _range_problems(info: Any, value: float, path: Path) -> Iterator[Problem]:
    bounds = [
        ("at least", info.ge, info.ge is None or value >= info.ge),
        ("more than", info.gt, info.gt is None or value > info.gt),
        ("at most", info.le, info.le is None or value <= info.le),
        ("less than", info.lt, info.lt is None or value < info.lt),
    ]
    if not all(kept for _, _, kept in bounds):
        wanted = " and ".join(f"{words} {_figure(bound)}" for words, bound, _ in bounds if bound is not None)
        yield Problem(path, f"{dotted(path)} must be {wanted}", "write a number in this range", info)


def _wrong(path: Path, expected: str, value: Any, info: Any) -> Problem:
    from kfm.parsing.synonyms import schedule_line

    hint = f"write {expected} there"
    if path and path[-1] == "schedule" and (better := schedule_line("schedule", value)):
        hint = f"write {better}"
    elif value is None:
        hint = "give it a value or leave the key out"
    elif expected == "text" and isinstance(value, (int, float)):
        hint = "put it in quotes"
    elif expected == "true or false" and isinstance(value, str):
        hint = "yes, no, on and off are text in YAML 1.2; write true or false"
    elif expected in ("an integer", "a number") and isinstance(value, str):
        hint = "write it without quotes, units or separators"
    elif expected == "a list":
        hint = "write it as [one, two]"
    elif expected == "a mapping":
        hint = "write its keys below it, each on a line of its own, indented by two spaces"
    return Problem(path, f"{dotted(path)}: expected {expected}, found {kind(value)}", hint, info)


def _figure(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)


# ---------------------------------------------------------------------------------------------- repair
#
# A misspelled key is read as the key that was likely meant, and a wrong word of a choice as the word that was.
# Everything else that is wrong gets a value that is merely valid, and its path is kept in `document.assumed`: what only
# follows from it is then no mistake of its own. The result serves to find more mistakes, never to run anything.


def _repaired(document: Document, type_: type[T]) -> T:
    """Return the document as a record of `type_`, with stand-ins for wrong parts, and keep the mistakes in the
    document. Raise BadInput if that fails."""
    for _ in range(_ROUNDS):
        try:
            return msgspec.convert(document.value, type_, strict=True)
        except msgspec.ValidationError as error:
            problems = problems_of(document, type_)
            if not problems:
                raise without_place(document, error) from None
            misspelled = {(*each.path[:-1], each.meant) for each in problems if each.wanted is None}
            for problem in problems:
                if not (problem.is_missing and (*problem.path, problem.meant) in misspelled):
                    document.keep(refusal(document, problem))
            for problem in problems:
                _mend(document, problem)
    raise BadInput(f"{document.where}: has too many mistakes to go on", hint="correct those that are reported first")


def _mend(document: Document, problem: Problem) -> None:
    if problem.is_missing:
        inside = _at(document.value, problem.path)
        if isinstance(inside, dict) and problem.meant not in inside:
            inside[problem.meant] = _stand_in(problem.wanted)
            document.assumed.add((*problem.path, problem.meant))
        return
    if not problem.path:
        document.value = _stand_in(problem.wanted)
        document.assumed.add(())
        return
    *above, key = problem.path
    inside = _at(document.value, tuple(above))
    if not isinstance(inside, (dict, list)):
        return
    if problem.wanted is None:
        _rename(document, inside, problem)
    elif problem.meant:
        inside[key] = problem.meant  # type: ignore[index]
    else:
        document.assumed.add(problem.path)
        if isinstance(inside, dict) and not _is_mapping(problem.wanted):
            inside.pop(key, None)
        else:
            inside[key] = _stand_in(problem.wanted)  # type: ignore[index]


def _rename(document: Document, inside: Any, problem: Problem) -> None:
    key = str(problem.path[-1])
    value = inside.pop(key, None)
    if problem.meant and problem.meant not in inside:
        inside[problem.meant] = value
        document.renamed[(*problem.path[:-1], problem.meant)] = key


def _at(value: Any, path: Path) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _is_mapping(info: Any) -> bool:
    from msgspec import inspect

    return isinstance(bare(info), (inspect.StructType, inspect.DictType))


def _stand_in(info: Any) -> Any:
    """Return a simple valid value of a type, to put in place of a wrong one."""
    from msgspec import inspect

    info = bare(info)
    if isinstance(info, inspect.StructType):
        return {field.encode_name: _stand_in(field.type) for field in info.fields if field.required}
    if isinstance(info, inspect.DictType):
        return {}
    if isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        return [_stand_in(info.item_type)] * (info.min_length or 0)
    if isinstance(info, inspect.LiteralType):
        return info.values[0]
    if isinstance(info, inspect.StrType):
        return "x" * max(info.min_length or 0, 1)
    if isinstance(info, (inspect.IntType, inspect.FloatType)):
        bounds = [bound for bound in (info.ge, info.le) if bound is not None]
        return bounds[0] if bounds else 1 + (info.gt or 0)
    if isinstance(info, inspect.BoolType):
        return False
    return _stand_in(info.types[0]) if isinstance(info, inspect.UnionType) else None
