"""Converts values to large record types by learning only the fields that the values have.

msgspec analyses a whole type before it converts the first value, and most of a configuration's type is settings that
few files use. This module converts with reduced types and then builds the real records. msgspec does the checks; if it
refuses a value here, the caller converts again with the full type to get its error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T")
_ABSENT = object()
_Made = tuple[Any, Callable[[Any], Any] | None]  # a reduced type, and a function from its value to the real one


def convert_partial(value: Any, type_: type[T]) -> T:
    """Convert a value to `type_` as `msgspec.convert` does. Raise ValidationError where that function does, but with
    another text."""
    narrow, made = _narrow(type_, [value])
    found = msgspec.convert(value, narrow, strict=True)
    return found if made is None else made(found)  # type: ignore[no-any-return]


def _narrow(type_: Any, values: Sequence[Any]) -> _Made:
    """Return a version of a type that has only the fields which occur in these values."""
    origin, arguments = get_origin(type_), get_args(type_)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return _struct(type_, values) if all(type(value) is dict for value in values) else (type_, None)
    if origin is Annotated:
        inner, made = _narrow(arguments[0], values)
        return (Annotated[(inner, *type_.__metadata__)], made) if made is not None else (type_, None)
    if origin is dict and all(type(value) is dict for value in values):
        inner, made = _narrow(arguments[1], [item for value in values for item in value.values()])
        if made is not None:
            return dict[arguments[0], inner], _each_value(made)  # type: ignore[valid-type]
    if origin is tuple and arguments[1:] == (...,) and all(type(value) is list for value in values):
        inner, made = _narrow(arguments[0], [item for value in values for item in value])
        if made is not None:
            return tuple[inner, ...], _each_item(made)  # type: ignore[valid-type]
    if origin in (Union, UnionType) and len(arguments) == 2 and NoneType in arguments:
        one = next(argument for argument in arguments if argument is not NoneType)
        inner, made = _narrow(one, [value for value in values if value is not None])
        if made is not None:
            return inner | None, _or_none(made)
    return type_, None


def _struct(type_: type[msgspec.Struct], values: Sequence[dict[Any, Any]]) -> _Made:
    names = dict(zip(type_.__struct_encode_fields__, type_.__struct_fields__, strict=True))
    given = list(dict.fromkeys(key for value in values for key in value))
    if not all(key in names for key in given):
        return type_, None
    defaults = type_.__struct_defaults__
    needed = type_.__struct_fields__[: len(type_.__struct_fields__) - len(defaults)]
    with_defaults = type_.__struct_fields__[len(needed) :]
    needed += tuple(name for name, default in zip(with_defaults, defaults, strict=True) if default is msgspec.NODEFAULT)
    wanted = {key: name for key, name in names.items() if key in given or name in needed}
    fields, makers = [], {}
    for (key, name), annotation in zip(wanted.items(), annotations_of(type_, wanted.values()), strict=True):
        inner, makers[name] = _narrow(annotation, [value[key] for value in values if key in value])
        fields.append((name, inner) if name in needed else (name, inner, _ABSENT))
    rename = {name: key for key, name in wanted.items()}
    narrow = msgspec.defstruct(type_.__name__, fields, rename=rename, forbid_unknown_fields=True, kw_only=True)

    def made(found: Any) -> Any:
        has = {name: value for name in makers if (value := getattr(found, name)) is not _ABSENT}
        return type_(**{name: make(has[name]) if (make := makers[name]) is not None else has[name] for name in has})

    return narrow, made


def annotations_of(type_: type, names: Iterable[str]) -> list[Any]:
    """Return the types of these fields only: resolving the others would import many types."""
    return [_annotation(type_, name) for name in names]


@cache
def _annotation(type_: type, name: str) -> Any:
    owner = next(each for each in type_.__mro__ if name in getattr(each, "__annotations__", {}))
    some: Any = SimpleNamespace(__annotations__={name: owner.__annotations__[name]})
    return get_type_hints(some, vars(sys.modules[owner.__module__]), include_extras=True)[name]


def _each_value(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda found: {key: made(value) for key, value in found.items()}


def _each_item(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda found: tuple(map(made, found))


def _or_none(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda found: None if found is None else made(found)
