"""Applies an environment variable to a document: KFM_EXECUTE__THREADS sets execute.threads, with its type."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin

import msgspec

from kfm.errors import BadInput
from kfm.parsing import documents, record_shape, yaml_scalars
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document, Path
from kfm.parsing.partial_structs import annotations_of


def apply(document: Document, type_: Any, name: str, text: str, *, fixed: tuple[str, ...] = ()) -> None:
    """Set the key that `name` spells, in place. Dataset names match without regard to case and punctuation.

    Raise BadInput if it names no key or more than one. Only the types on the way to the key are inspected: inspecting
    all settings would double the time of a start.
    """
    shown = name if is_printable(name) and len(name) <= 100 else "an environment variable"
    found: Any = type_
    inside: Any = document.value
    path: Path = ()
    parts = name.split("_", 1)[1].lower().split("__")
    for depth, part in enumerate(parts):
        found = _bare(found)
        known = _known(found, inside, fixed if depth == 0 else ())
        matches = [key for key in known if _folded(key) == _folded(part)]
        if len(matches) != 1 or not isinstance(inside, dict):
            _unknown(shown, parts[:depth], part, known, len(matches))
        found = _within(found, matches[0])
        path = (*path, matches[0])
        if depth < len(parts) - 1:
            inside = inside.setdefault(matches[0], {})
    leaf = _bare(found)
    if _is_struct(leaf) or get_origin(leaf) is dict:
        keys = [key for key in _known(leaf, {}, ()) if key.isidentifier()]
        example = f"{shown}__{keys[0].upper()}" if keys else "one of its keys"
        raise BadInput(f"{shown} names a whole section", hint=f"set one key of it, e.g. {example}")
    inside[path[-1]] = _typed(leaf, text, shown)
    document.moved[path] = shown


def _known(type_: Any, inside: Any, fixed: tuple[str, ...]) -> list[str]:
    if _is_struct(type_):
        return [name for name in type_.__struct_encode_fields__ if name not in fixed]
    return list(inside) if get_origin(type_) is dict and isinstance(inside, dict) else []


def _within(type_: Any, key: str) -> Any:
    """Return the type of the value that a record or mapping type has under this key."""
    if not _is_struct(type_):
        return get_args(type_)[1]
    names = dict(zip(type_.__struct_encode_fields__, type_.__struct_fields__, strict=True))
    return annotations_of(type_, [names[key]])[0]


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _bare(type_: Any) -> Any:
    """Return the type without its annotations, and without None and "absent" if that leaves one type."""
    if get_origin(type_) is Annotated:
        return _bare(get_args(type_)[0])
    rest = [each for each in get_args(type_) if each not in (NoneType, msgspec.UnsetType)]
    return _bare(rest[0]) if get_origin(type_) in (Union, UnionType) and len(rest) == 1 else type_


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _unknown(shown: str, before: list[str], part: str, known: list[str], matches: int) -> NoReturn:
    if matches > 1:
        raise BadInput(f"{shown} could mean {matches} different keys", hint="set it in the file instead")
    close = record_shape.nearest(part, known)
    better = "__".join([*before, _folded(close)]).upper()
    raise BadInput(
        f"{shown} is not a setting",
        hint=f"did you mean KFM_{better}?" if close else "unset it, or see `kfm config show --resolved`",
    )


def _typed(type_: Any, text: str, shown: str) -> Any:
    from msgspec import inspect

    leaf = inspect.type_info(type_)

    def fail(what: str, hint: str) -> NoReturn:
        raise BadInput(f"{shown}: {what}", hint=hint)

    if not is_printable(text):
        fail("holds a control character", "remove it")
    if isinstance(leaf, (inspect.IntType, inspect.FloatType, inspect.BoolType)):
        return yaml_scalars.plain(text.strip(), fail)
    if isinstance(leaf, inspect.LiteralType) and all(isinstance(v, int) for v in leaf.values):
        return yaml_scalars.plain(text.strip(), fail)
    if isinstance(leaf, (inspect.VarTupleType, inspect.ListType)):
        if text.lstrip().startswith("["):
            return documents.read(text.encode("utf-8", "replace"), shown, json=False).value
        items = [item.strip() for item in text.split(",") if item.strip()]
        numbers = isinstance(record_shape.bare(leaf.item_type), (inspect.IntType, inspect.FloatType))
        return [yaml_scalars.plain(item, fail) for item in items] if numbers else items
    return text
