"""Lays one environment variable over a document: KFM_EXECUTE__THREADS sets execute.threads, typed."""

from __future__ import annotations

from typing import Any, NoReturn

from kfm.documents import reading, scalars, shape
from kfm.documents.characters import is_printable
from kfm.documents.reading import Document, Path
from kfm.errors import BadInput


def apply(document: Document, type_: Any, name: str, text: str, *, fixed: tuple[str, ...] = ()) -> None:
    """Sets the key that `name` spells, in place. Names of datasets are matched without case and marks."""
    from msgspec import inspect

    shown = name if is_printable(name) and len(name) <= 100 else "an environment variable"
    info: Any = shape.described(type_)
    inside: Any = document.value
    path: Path = ()
    parts = name.split("_", 1)[1].lower().split("__")
    for depth, part in enumerate(parts):
        info = shape.bare(info)
        known = _known(info, inside, fixed if depth == 0 else ())
        matches = [key for key in known if _folded(key) == _folded(part)]
        if len(matches) != 1 or not isinstance(inside, dict):
            _unknown(shown, parts[:depth], part, list(known), len(matches))
        info = known[matches[0]]
        path = (*path, matches[0])
        if depth < len(parts) - 1:
            inside = inside.setdefault(matches[0], {})
    leaf = shape.bare(info)
    if isinstance(leaf, (inspect.StructType, inspect.DictType)):
        keys = [key for key in _known(leaf, {}, ()) if key.isidentifier()]
        example = f"{shown}__{keys[0].upper()}" if keys else "one of its keys"
        raise BadInput(f"{shown} names a whole section", hint=f"set one key of it, e.g. {example}")
    inside[path[-1]] = _typed(leaf, text, shown)
    document.moved[path] = shown


def _known(info: Any, inside: Any, fixed: tuple[str, ...]) -> dict[str, Any]:
    from msgspec import inspect

    if isinstance(info, inspect.StructType):
        return {f.encode_name: f.type for f in info.fields if f.encode_name not in fixed}
    if isinstance(info, inspect.DictType) and isinstance(inside, dict):
        return dict.fromkeys(inside, info.value_type)
    return {}


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _unknown(shown: str, before: list[str], part: str, known: list[str], matches: int) -> NoReturn:
    if matches > 1:
        raise BadInput(f"{shown} could mean {matches} different keys", hint="set it in the file instead")
    close = shape.nearest(part, known)
    better = "__".join([*before, _folded(close)]).upper()
    raise BadInput(
        f"{shown} is not a setting",
        hint=f"did you mean KFM_{better}?" if close else "unset it, or see `kfm config show --resolved`",
    )


def _typed(leaf: Any, text: str, shown: str) -> Any:
    from msgspec import inspect

    def fail(what: str, hint: str) -> NoReturn:
        raise BadInput(f"{shown}: {what}", hint=hint)

    if not is_printable(text):
        fail("holds a control character", "remove it")
    if isinstance(leaf, (inspect.IntType, inspect.FloatType, inspect.BoolType)):
        return scalars.plain(text.strip(), fail)
    if isinstance(leaf, inspect.LiteralType) and all(isinstance(v, int) for v in leaf.values):
        return scalars.plain(text.strip(), fail)
    if isinstance(leaf, (inspect.VarTupleType, inspect.ListType)):
        if text.lstrip().startswith("["):
            return reading.read(text.encode("utf-8", "replace"), shown, json=False).value
        items = [item.strip() for item in text.split(",") if item.strip()]
        numbers = isinstance(shape.bare(leaf.item_type), (inspect.IntType, inspect.FloatType))
        return [scalars.plain(item, fail) for item in items] if numbers else items
    return text
