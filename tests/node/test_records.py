"""Every record has the same fields, types and defaults in both languages."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import inspect

from kfm import config
from kfm.contract import declared, records
from kfm.contract.canonical import canonical
from tests.node.twin import Twin

KINDS = {
    inspect.StrType: "text",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.AnyType: "any",
    inspect.LiteralType: "literal",
    inspect.VarTupleType: "list",
    inspect.ListType: "list",
    inspect.TupleType: "tuple",
    inspect.DictType: "map",
    inspect.StructType: "struct",
    inspect.UnionType: "choice",
}
BOUNDS = {"min_length": "min", "max_length": "max", "ge": "ge", "gt": "gt", "le": "le", "lt": "lt"}


def described(info: Any) -> list[Any]:
    while isinstance(info, inspect.Metadata):
        info = info.type
    nullable = False
    if isinstance(info, inspect.UnionType):
        rest = [choice for choice in info.types if not isinstance(choice, inspect.NoneType)]
        nullable = len(rest) < len(info.types)
        # A number may be whole: JavaScript has one kind of them.
        if any(isinstance(choice, inspect.FloatType) for choice in rest):
            rest = [choice for choice in rest if not isinstance(choice, inspect.IntType)]
        if len(rest) == 1:
            kind, _, bounds, inside = described(rest[0])
            return [kind, nullable, bounds, inside]
        order = list(KINDS)
        return ["choice", nullable, [], [described(c) for c in sorted(rest, key=lambda c: order.index(type(c)))]]
    given = {name: getattr(info, field, None) for field, name in BOUNDS.items()}
    bounds = sorted([name, value] for name, value in given.items() if value is not None)
    inside: Any = None
    if isinstance(info, inspect.LiteralType):
        inside = sorted(info.values)
    elif isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        inside = described(info.item_type)
    elif isinstance(info, inspect.TupleType):
        inside = [described(item) for item in info.item_types]
    elif isinstance(info, inspect.DictType):
        inside = described(info.value_type)
    elif isinstance(info, inspect.StructType):
        inside = info.cls.__name__
    return [KINDS[type(info)], nullable, bounds, inside]


def field(one: Any) -> list[Any]:
    fallback = one.default
    if one.default_factory is not msgspec.NODEFAULT:
        fallback = one.default_factory()
    shown = None if one.required else msgspec.to_builtins(fallback)
    return [one.encode_name, described(one.type), one.required, shown]


def test_every_record_is_the_same_in_node() -> None:
    ours: dict[str, Any] = {}
    for module in (records, config, declared):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, records.Record) and kind is not records.Record:
                info = inspect.type_info(kind)
                assert isinstance(info, inspect.StructType)
                ours[kind.__name__] = [field(one) for one in info.fields]
    with Twin() as twin:
        theirs = json.loads(twin.ask("kinds")["ok"])
    expected = json.loads(canonical(ours))
    assert len(expected) > 30
    assert theirs.keys() == expected.keys()
    for name, fields in expected.items():
        assert theirs[name] == fields, name
