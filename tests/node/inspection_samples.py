"""Makes data contracts, right and wrong, each with a source and a limit for reading it."""

from __future__ import annotations

import random
from typing import Any

from kfm.parsing.patterns import pattern_flaw
from tests.node.inspection_sources import CELLS, DELIMITERS, ENCODINGS, NAMES, SAFE_ENCODINGS, source, value

Case = tuple[dict[str, Any], bytes, dict[str, int]]  # contract, source, limits

PATTERNS = (
    "", "", "", "[a-z]+", r"\d+", r"\w*", r"\s*\S+", ".*", "(?i)ks|ne", "(?:a|b)+", "a++b?", "(?>a|ab)c",
    r"^\d{4}-\d{2}-\d{2}$",
    "(?=.*[0-9]).+", "(?<!x)y|x", r"\bx\b", "[^,]*", "é|\\u00e9", "(a+)+", "(", "a{2,1}", "[", "(?P<n>x)", r"\1",
    "x{3}", ".{1,3}",
    "(?s).*", r"[^\W\d]+", "(?:,?a)*", "a*b*c*", ".*a.*b.*", "(?:x?)*", "(?i)[^k]+",
)  # fmt: skip
FORMATS = (
    "", "", "%Y-%m-%d", "%m/%d/%Y", "%d %b %Y", "%Y%m%d", "%Y%j", "%A, %d %B %Y", "%d.%m.%y", "%H:%M",
    "%Y-%m-%dT%H:%M:%S%z",
    "%I:%M %p", "%Q", "%Y %y", "%", "x", "%%%Y", "%j %d", "%Y\t%m", "%S.%f",
)  # fmt: skip
BOUNDS = (None, None, None, None, 0, 1, -1, 0.1, 5, 1e21, -1e-7, 100000.5, 9007199254740992, 1e300, -0.0)
MODES = ("evolve", "freeze", "discard-row", "discard-value")
MODES_CALM = ("evolve", "discard-row", "discard-row", "discard-row", "discard-value", "discard-value")
TYPES = ("text", "text", "integer", "number", "boolean", "date", "datetime")
KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")


def contract(pick: random.Random) -> dict[str, Any]:
    """Mostly one that can be used."""
    wild = pick.random() < 0.08
    kind = pick.choice(("csv", "csv", "csv", "json", "json", "ndjson", "geojson", "stac", "text", "bytes"))
    made: dict[str, Any] = {"format": kind}
    if kind in ("csv", "json", "ndjson", "geojson", "stac") or wild:
        names = pick.sample(NAMES, k=len(NAMES))
        made["columns"] = [column(pick, names[i], wild) for i in range(pick.choice((0, 1, 1, 2, 2, 3, 5)))]
        if wild and made["columns"] and pick.random() < 0.3:
            made["columns"].append(column(pick, pick.choice((names[0], "", " ", "\u00a0")), wild))
        if made["columns"] and pick.random() < 0.4:
            made["other_columns"] = pick.choice(
                MODES if wild else ("evolve", "evolve", "freeze", "discard-value", "discard-value")
            )
        if pick.random() < 0.2:
            made["partition_by"] = (
                pick.choice([c["name"] for c in made["columns"]] or NAMES) if pick.random() < 0.8 else "zz"
            )
        if pick.random() < 0.1:
            made["min_rows"] = pick.choice((-1, 1, 2, 5, 1000) if wild else (1, 2))
        if pick.random() < 0.1:
            made["max_held_rows"] = pick.choice((-2, 0, 1, 1000) if wild else (0, 1, 3))
        if pick.random() < 0.9:  # without it a fifth is the most, and of a few rows one is more than that
            made["max_held_share"] = pick.choice((-0.1, 1.5, 0.5) if wild else (0, 0.25, 0.5, 1, 1, 1, 1, 1))
        if pick.random() < (0.2 if wild else 0.05):
            made["shrink_limit"] = pick.choice((-0.1, 2, 1) if wild else (0, 0.5, 1))
        if pick.random() < 0.7 and (wild or not made.get("min_rows")):  # often all rows of so few are bad
            made["allow_empty"] = True
    if (kind in ("csv", "text") or wild) and pick.random() < 0.5:
        made["encoding"] = pick.choice(ENCODINGS if wild else SAFE_ENCODINGS)
    if kind == "csv" or wild:
        if pick.random() < 0.4:
            made["delimiter"] = pick.choice(DELIMITERS if wild else DELIMITERS[:12])
        if pick.random() < 0.2 and (made.get("columns") or wild):
            made["header"] = False
    if kind in ("json", "ndjson", "geojson", "stac") or wild:
        if pick.random() < 0.3:
            found = schema(pick, 2, wild)
            made["json_schema"] = found if isinstance(found, dict) else {}
        if (kind == "json" or wild) and pick.random() < 0.5:
            made["root"] = pick.choice(("list", "list", "a", "é", "__proto__"))
    return made


def column(pick: random.Random, name: str, wild: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": name,
        "type": pick.choice(TYPES),
        "mode": pick.choice(MODES if pick.random() < 0.15 else MODES_CALM),
    }
    numeric = made["type"] in ("integer", "number")
    if pick.random() < 0.25 and (wild or made["mode"] != "discard-value"):
        made["required"] = True
    if numeric or wild:
        bounds = sorted(
            [bound for bound in (pick.choice(BOUNDS), pick.choice(BOUNDS)) if bound is not None],
            reverse=wild and pick.random() < 0.3,
        )
        if bounds:
            made["minimum"] = bounds[0]
        if len(bounds) > 1:
            made["maximum"] = bounds[1]
    if pick.random() < 0.25:
        found = pick.choice(PATTERNS) if pick.random() < 0.7 else pattern(pick, 3)
        made["pattern"] = "" if not wild and pattern_flaw(found) else found
    bounded = not wild and (made.get("pattern") or "minimum" in made)
    if pick.random() < 0.15 and not bounded:
        made["values"] = pick.sample(CELLS, k=pick.randint(1, 4)) if wild else _fitting(made["type"], pick)
    if pick.random() < 0.25:
        made["missing"] = pick.sample(CELLS, k=pick.randint(1, 3))
    if (made["type"] in ("date", "datetime") and "values" not in made) or wild:
        made["date_format"] = pick.choice(FORMATS if wild else FORMATS[:12])
    if pick.random() < 0.2:
        made["unique"] = True
    return made


def _fitting(kind: str, pick: random.Random) -> list[str]:
    fits = {
        "text": ["KS", "x", "é", "1", "😀"], "integer": ["1", "-2", "007"], "number": ["1.5", "1", "1e5"],
        "boolean": ["true", "0"],
        "date": ["2024-01-01"], "datetime": ["2024-01-01T12:00:00Z"],
    }[kind]  # fmt: skip
    return pick.sample(fits, k=pick.randint(1, len(fits)))


ATOMS = (
    "a", "b", "k", "1", "é", "\U0001f600", ".", r"\.", r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\b", r"\B", "^", "$",
    r"\A", r"\Z", "[ab]", "[^a]", "[]a-]", "[^k]", "[A-z]", r"[\w.]", r"[^\s\d]", r"[\S1]", r"[^\W_]", "[é-ü]",
    r"[\x41-\u00e9]", r"\U0001f600", r"\x6b", r"[\b\t]", "{", "x{", "-", "[^\\x00-\\U0010ffff]",
)  # fmt: skip
REFUSED = (
    "(?=a)",
    "(?<=a)",
    "(?!b)",
    "(?>a)",
    "a*+",
    r"(a)\1",
    r"\p{L}",
    r"\C",
    r"\Qa\E",
    "[[:alpha:]]",
    "(?<n>a)",
    "a{1001}",
)


def pattern(pick: random.Random, depth: int) -> str:
    roll = pick.random()
    if depth == 0 or roll < 0.3:
        return pick.choice(ATOMS) if pick.random() < 0.99 else pick.choice(REFUSED)
    if roll < 0.55:
        return pattern(pick, depth - 1) + pattern(pick, depth - 1)
    if roll < 0.7:
        return f"(?:{pattern(pick, depth - 1)}|{pattern(pick, depth - 1)})"
    if roll < 0.78:
        return f"(?{pick.choice(('i', 's', 'is'))}:{pattern(pick, depth - 1)})"
    if roll < 0.83:
        return f"({pattern(pick, depth - 1)}|)"
    repeat = pick.choice(
        ("*", "+", "?", "{2}", "{0,2}", "*?", "{1,3}?", "??", "+?", "{0}", "{3,}", "{9,}", "{,20}", "{007}")
    )
    return f"({pattern(pick, depth - 1)}){repeat}"


def schema(pick: random.Random, depth: int, wild: bool) -> Any:
    if pick.random() < 0.08:
        return pick.random() < 0.5
    made: dict[str, Any] = {}
    some = {
        "type": lambda: pick.choice((pick.choice(KINDS), pick.sample(KINDS, k=pick.randint(1, 3)))),
        "enum": lambda: [value(pick, 1) for _ in range(pick.randint(1, 3))],
        "const": lambda: value(pick, 1),
        "required": lambda: pick.sample(NAMES, k=pick.randint(0, 2)),
        "minimum": lambda: pick.choice((0, 1, -1.5, 1e21)),
        "maximum": lambda: pick.choice((0, 1, 2.5, 100)),
        "exclusiveMinimum": lambda: pick.choice((0, 1)),
        "exclusiveMaximum": lambda: pick.choice((0, 5)),
        "minLength": lambda: pick.choice((0, 1, 2, 2.0)),
        "maxLength": lambda: pick.choice((0, 1, 3)),
        "minItems": lambda: pick.choice((0, 1, 2)),
        "maxItems": lambda: pick.choice((0, 1, 2, 10)),
        "pattern": lambda: pick.choice([p for p in PATTERNS if wild or not pattern_flaw(p)]),
        "title": lambda: "only a note",
    }
    for name in pick.sample(sorted(some), k=pick.choice((0, 1, 1, 2, 3))):
        made[name] = some[name]()
    if depth:
        if pick.random() < 0.5:
            made["properties"] = {
                name: schema(pick, depth - 1, wild) for name in pick.sample(NAMES, k=pick.randint(1, 3))
            }
            if pick.random() < 0.3:
                made["properties"]["list"] = schema(pick, depth - 1, wild)
        if pick.random() < 0.3:
            made["additionalProperties"] = schema(pick, depth - 1, wild)
        if pick.random() < 0.3:
            made["items"] = schema(pick, depth - 1, wild)
    if wild and pick.random() < 0.3:
        made[pick.choice(("$ref", "allOf", "minimum", "type", "required", "properties", "é"))] = pick.choice(
            (1, "x", [], None, {})
        )
    return made


def limits(pick: random.Random) -> dict[str, int]:
    """Mostly the real ones; else so little that every piece ends somewhere inside."""
    if pick.random() < 0.7:
        return {}
    made = {"block": pick.choice((1, 2, 3, 4, 5, 7, 16, 61)), "chunk": pick.choice((1, 2, 3, 5, 8, 33, 100))}
    if pick.random() < 0.4:
        made["maxLine"] = pick.choice((5, 20, 64, 100))
        made["maxRecord"] = pick.choice((10, 50, 200, 1000))
    return made


def case(pick: random.Random) -> Case:
    asked = contract(pick)
    return asked, source(pick, asked), limits(pick)
