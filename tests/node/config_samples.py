"""Makes configurations, right and wrong, and environments that override them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from msgspec import inspect

from kfm.config import Config
from kfm.parsing import record_shape

ODD: Sequence[Any] = (
    None, True, False, 0, 1, -1, 2, 1.0, 1.5, 1e300, 2**53, "", " ", "a", "A b", "é", "x" * 70, "x" * 5000, "a\nb",
    [], ["a"], [1, None], {}, {"a": 1}, {"1": 2, "0": 3, "b": 4}, "\u00ad", "\U000105c0", "\ue000", "0", "null", [[]],
    {"a": {"b": [1]}},
)  # fmt: skip
TEXTS: Sequence[str] = (
    "sqlite:a.db", "sqlite:", "sqlite://h/x", "sqlite:///abs", "jsonl:x/y", "memory", "memory:", "memory:x", "file:a",
    "file:..", "noop", "noop:", "s3://b", "u.py:U", "pkg.mod:Class", "a b:C", "u.py", "mañana.py:Día", "1x:C",
    "u.py:1", "pkg..m:C", "http://h/x", "https://u:p@h/", "ftp://h/x", "data/a.csv", " a", "a ", "file:///etc/x",
    "https://h/?token=abc&a=1", "example.org", "127.0.0.1:8931", "[::1]:80", "h:123456", "h:٣", "a/b", "utf-8",
    "UTF_16", "latin1", "klingon", ",", "\t", "::", '"', "\n", "[a-z]+", "(", "a{2,1}", "(?P<x>a)", "\\d",
    "sha256:" + "0" * 64, "sha256:x", "CC0-1.0", "public", "csv", "geojson", "stac", "evolve", "discard-row",
    "env:NAME", "file:secret", "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "now", "kfm", "github", "1.0.0",
    "equals", "first", "s", "a", "station", "integer", "drop",
)  # fmt: skip
NAMES: Sequence[str] = (
    "a",
    "s",
    "b-c",
    "2020",
    "10",
    "9",
    "A",
    "con",
    "global",
    "../x",
    "",
    "é",
    "a.b",
    "a_b",
    "__proto__",
    "constructor",
)


def value(pick: random.Random, info: Any, wildness: float) -> Any:
    """A value of this type, mostly."""
    if pick.random() < wildness:
        return pick.choice(ODD)
    if pick.random() < 0.05 and record_shape._nullable(info):
        return None
    info = record_shape.bare(info)
    if isinstance(info, inspect.UnionType):
        return value(pick, pick.choice(info.types), wildness)
    if isinstance(info, inspect.StructType):
        return record(pick, info, wildness)
    if isinstance(info, inspect.DictType):
        return {pick.choice(NAMES): value(pick, info.value_type, wildness) for _ in range(pick.choice((0, 1, 1, 2, 3)))}
    if isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        return [value(pick, info.item_type, wildness) for _ in range(pick.choice((0, 1, 1, 2, 4)))]
    return scalar(pick, info)


def scalar(pick: random.Random, info: Any) -> Any:
    if isinstance(info, inspect.LiteralType):
        return pick.choice((*info.values, *info.values, pick.choice(TEXTS)))
    if isinstance(info, inspect.BoolType):
        return pick.random() < 0.5
    if isinstance(info, inspect.IntType):
        return pick.choice((0, 1, 2, 3, 64, 65, 4096, 2**40, 2**51, -1))
    if isinstance(info, inspect.FloatType):
        return pick.choice((0, 0.1, 1, 30, 30.5, -90, 180, 181, 1e9, 0.0))
    return pick.choice(TEXTS) if isinstance(info, inspect.StrType) else pick.choice(ODD)


def record(pick: random.Random, info: Any, wildness: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in info.fields:
        if (field.required and pick.random() > wildness) or pick.random() < 0.3:
            found[field.encode_name] = value(pick, field.type, wildness)
    if pick.random() < wildness:
        name = pick.choice([field.encode_name for field in info.fields] + list(NAMES))
        at = pick.randrange(len(name) + 1)
        found[name[:at] + pick.choice(("", "x", "-", "S")) + name[at + 1 :]] = pick.choice(ODD)
    items = list(found.items())
    pick.shuffle(items)
    return dict(items)


def good(pick: random.Random) -> dict[str, Any]:
    """What the types and the checks are content with, before anything else is done to it."""
    source: dict[str, Any] = {"uri": "data/a.csv", "format": "csv"}
    return {
        "datasets": {
            "a": {"updater": "u.py:U", "sources": {"s": source}},
            "2020": {
                "version": "1",
                "outputs": {"o": {"from": "s", "steps": [{"select": ["station"]}]}},
                "sources": {"s": {"uri": "b.csv", "format": "csv"}},
            },
        }
    }


def spoiled(pick: random.Random, settings: Any, info: Any) -> Any:
    """The same with some part of it replaced."""
    info = record_shape.bare(info)
    if pick.random() < 0.15 or not isinstance(settings, dict):
        return value(pick, info, 0.1)
    found = dict(settings)
    if isinstance(info, inspect.StructType):
        field = pick.choice(info.fields)
        name = field.encode_name
        found[name] = spoiled(pick, found[name], field.type) if name in found else value(pick, field.type, 0.05)
    elif isinstance(info, inspect.DictType) and found:
        name = pick.choice(list(found))
        found[name] = spoiled(pick, found[name], info.value_type)
    return found


def settings(pick: random.Random) -> Any:
    info = record_shape.described(Config)
    if pick.random() < 0.3:
        return value(pick, info, pick.choice((0.0, 0.02, 0.1)))
    found: Any = good(pick)
    for _ in range(pick.choice((1, 1, 2, 3))):
        found = spoiled(pick, found, info)
    return found


def config_text(pick: random.Random) -> tuple[str, bool]:
    """The text of a file, and whether it is named as JSON; JSON is also YAML."""
    indent = pick.choice((None, 1, 2))
    text = json.dumps(settings(pick), ensure_ascii=pick.random() < 0.5, indent=indent)
    return text, pick.random() < 0.5


def environment(pick: random.Random) -> dict[str, str]:
    if pick.random() < 0.7:
        return {}
    found: dict[str, str] = {}
    for _ in range(pick.choice((1, 1, 2))):
        info: Any = record_shape.described(Config)
        parts: list[str] = []
        while True:
            info = record_shape.bare(info)
            if isinstance(info, inspect.StructType):
                field = pick.choice(info.fields)
                parts.append(field.encode_name)
                info = field.type
            elif isinstance(info, inspect.DictType):
                parts.append(pick.choice(NAMES))
                info = info.value_type
            else:
                break
            if pick.random() < 0.05:
                break
        if pick.random() < 0.2:
            parts.append(pick.choice(("x", "", "threads", "uri")))
        name = "KFM_" + "__".join(parts).upper().replace("-", "_")
        if pick.random() < 0.1:
            at = pick.randrange(5, len(name) + 1)
            name = name[:at] + pick.choice("XÉ_") + name[at + 1 :]
        text = pick.choice(
            (*TEXTS, "7", " 7 ", "0.5", "true", "no", "a, b", "[a", '["a"]', "[1, 2]", "1,2", "~", "", "a\tb")
        )
        found[name] = text.replace("\x00", "")
    return found
