"""Keeps every mistake of a document, and puts stand-ins in place of what is wrong, so that the rest can be checked.

A misspelled key is read as the key that was likely meant, and a wrong word of a choice as the word that was. Everything
else that is wrong gets a value that is merely valid, and its path is kept in `document.assumed`: what only follows from
it is then no mistake of its own. The result serves to find more mistakes, never to run anything.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kfm.errors import BadInput
from kfm.parsing.documents import Document, Path
from kfm.parsing.record_shape import Problem, bare, problems_of, refusal, without_place

T = TypeVar("T")
_ROUNDS = 10  # a key that was renamed shows what is below it


def repaired(document: Document, type_: type[T]) -> T:
    """The document as `type_`, with its mistakes kept in the document. BadInput if it cannot be made into one."""
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
            inside[problem.meant] = stand_in(problem.wanted)
            document.assumed.add((*problem.path, problem.meant))
        return
    if not problem.path:
        document.value = stand_in(problem.wanted)
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
            inside[key] = stand_in(problem.wanted)  # type: ignore[index]


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


def stand_in(info: Any) -> Any:
    """The plainest value of a type."""
    from msgspec import inspect

    info = bare(info)
    if isinstance(info, inspect.StructType):
        return {field.encode_name: stand_in(field.type) for field in info.fields if field.required}
    if isinstance(info, inspect.DictType):
        return {}
    if isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        return [stand_in(info.item_type)] * (info.min_length or 0)
    if isinstance(info, inspect.LiteralType):
        return info.values[0]
    if isinstance(info, inspect.StrType):
        return "x" * max(info.min_length or 0, 1)
    if isinstance(info, (inspect.IntType, inspect.FloatType)):
        bounds = [bound for bound in (info.ge, info.le) if bound is not None]
        return bounds[0] if bounds else 1 + (info.gt or 0)
    if isinstance(info, inspect.BoolType):
        return False
    return stand_in(info.types[0]) if isinstance(info, inspect.UnionType) else None
