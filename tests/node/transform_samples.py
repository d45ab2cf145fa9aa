"""Declarations and sources as people write them, and worse: for fuzz_transforms."""

from __future__ import annotations

import csv
import io
import json
import random
from typing import Any

Case = dict[str, Any]

NAMES = (
    "id",
    "n",
    "t",
    "s",
    "geometry",
    "a b",
    "é",
    "10",
    "9",
    "properties.id",
    "/x",
    "😀",
    "ﬀ",
    "toString",
    "__proto__",
    "",
)
TEXTS = (
    "", " ", "a", "b", "A", "ab", "aab", "abab", "KS", "NE", "é", "z", "😀", "ﬀ", "\u00a0", "\u3000", "\x1f",
    "\u200b", "\ufeff", "x,y", 'q"q', "two\nlines", "r\rr", " padded ", "=1+1", "null", "\\", "*", "a*", "?",
    "12.5", "true", "TRUE", "Yes", "no", "t", "F", "y", "2020-01-31", "2020-02-01",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "1", "01", "+1", "1.0", "1.", ".5", "-1", "5", "5.0", " 5 ", "10", "9", "1e2", "1E-7", "1e21",
    "1e20", "0.1", "1e999", "-1e999", "5e-324", "9007199254740992", "9007199254740993", "-9007199254740993",
    "123456789012345678901", "0x5", "1_0", "\u0665", "NaN", "Infinity", "1 2", "--1", "1.50",
    "100000000000000000000.5", "0.30000000000000004", "4.35", "1" * 401,
)  # fmt: skip
VALUES = (
    None, True, False, 0, -0.0, 1, 1.0, 1.5, -1, 5, 10, 9, 1e21, 5e-324, 2**53, -(2**53), 0.1, 1e20, [], {},
    [1, "x"], [1.0], {"b": 1, "a": None}, {"x": {"y": [5, 6]}}, [[1], {"k": "v"}],
)  # fmt: skip
POINTERS = ("/x", "/x/y", "/x/y/0", "/x/y/1", "/n/x", "/t/0", "/10", "/a b/k", "/~1x", "/", "/x/y/01", "/geometry/type")
GLOBS = ("*", "a*", "*b", "?", "a?b", "*ab*", "*a*b*", "\\*", "a\\?", "*\\\\*", "", "??*", "*?😀", "\\d", "a\\")
POINT = {"type": "Point", "coordinates": [-97.5, 38.25]}
DELIMITERS = (",", ";", "\t", "|", " ", "é")
ENCODINGS = ("utf-8", "latin-1", "utf-16", "cp1252")


def rarely(pick: random.Random, chance: float = 0.1) -> bool:
    return pick.random() < chance


def text(pick: random.Random) -> str:
    if rarely(pick, 0.4):
        return pick.choice(NUMBERS)
    if rarely(pick, 0.1):
        return "".join(pick.choice(TEXTS) for _ in range(pick.randrange(4)))
    return pick.choice(TEXTS)


def value(pick: random.Random) -> Any:
    return text(pick) if rarely(pick, 0.5) else pick.choice(VALUES)


def columns(pick: random.Random) -> list[str]:
    names = pick.sample([name for name in NAMES if name.strip()], pick.randrange(1, 6))
    return names if rarely(pick, 0.9) else [pick.choice(NAMES) for _ in names]


def source(pick: random.Random) -> tuple[Case, list[str]]:
    """A source, and the columns it has."""
    kind = pick.choice(("csv", "csv", "csv", "json", "json", "ndjson", "geojson", "stac"))
    names = columns(pick)
    contract: Case = {"format": kind, "max_held_share": 1, "allow_empty": True, "shrink_limit": 1}
    made = {"csv": table, "json": document, "ndjson": lines, "geojson": features, "stac": items}[kind](
        pick, names, contract
    )
    if rarely(pick, 0.25):
        contract["partition_by"] = pick.choice(names)
    if rarely(pick, 0.5):  # a table whose contract names no column is not published
        contract["columns"] = [
            {"name": name, "type": pick.choice(("text", "number", "integer")),
             "mode": pick.choice(("evolve", "discard-row", "discard-value"))}
            for name in dict.fromkeys(names) if name.strip()
        ]  # fmt: skip
    own = {"geojson": ("id", "geometry", "bbox"), "stac": ("id", "geometry", "assets", "stac_version")}.get(kind, ())
    return {**made, "contract": contract}, [*names, *own]


def table(pick: random.Random, names: list[str], contract: Case) -> Case:
    delimiter = pick.choice(DELIMITERS) if rarely(pick, 0.15) else ","
    encoding = pick.choice(ENCODINGS) if rarely(pick, 0.15) else "utf-8"
    header = not rarely(pick, 0.1)
    if delimiter != ",":
        contract["delimiter"] = delimiter
    if encoding != "utf-8":
        contract["encoding"] = encoding
    if not header:
        contract |= {"header": False, "columns": [{"name": name} for name in names]}
    out = io.StringIO()
    ends = pick.choice(("\n", "\n", "\r\n", "\r"))
    quoting = csv.QUOTE_ALL if rarely(pick) else csv.QUOTE_MINIMAL
    writer = csv.writer(out, delimiter=delimiter, lineterminator=ends, quoting=quoting)
    if header:
        writer.writerow(names)
    plain = rarely(pick, 0.3)
    for _ in range(pick.choice((0, 1, 2, 3, 8, 30))):
        row = [pick.choice(("1", "2", "10", "x", "", "KS")) if plain else text(pick) for _ in names]
        writer.writerow(row[:-1] if rarely(pick, 0.01) else row)
        if rarely(pick, 0.03):
            out.write(ends)
    body = out.getvalue()
    if rarely(pick, 0.2):
        body = body.rstrip("\r\n")
    if encoding == "utf-8":
        return {"text": body}
    codec = "utf-16" if encoding == "utf-16" else encoding
    return {"hex": body.encode(codec, "replace").hex()}


def record(pick: random.Random, names: list[str]) -> Case:
    return {name: value(pick) for name in names if not rarely(pick, 0.15)}


def records(pick: random.Random, names: list[str]) -> list[Any]:
    found: list[Any] = [record(pick, names) for _ in range(pick.choice((0, 1, 2, 3, 8, 20)))]
    if rarely(pick, 0.02):
        found.append(pick.choice((5, "x", None, [1])))
    return found


def document(pick: random.Random, names: list[str], contract: Case) -> Case:
    if rarely(pick, 0.15):
        return {"text": json.dumps(record(pick, names), ensure_ascii=False)}
    if rarely(pick, 0.2):
        contract["root"] = "rows"
        return {"text": json.dumps({"about": {}, "rows": records(pick, names), "n": 1}, ensure_ascii=rarely(pick))}
    return {"text": json.dumps(records(pick, names), ensure_ascii=rarely(pick), indent=pick.choice((None, 1)))}


def lines(pick: random.Random, names: list[str], contract: Case) -> Case:
    del contract
    end = pick.choice(("\n", "\r\n", "\n\n"))
    return {
        "text": end.join(json.dumps(row, ensure_ascii=False) for row in records(pick, names)) + pick.choice(("", end))
    }


def feature(pick: random.Random, names: list[str]) -> Case:
    made: Case = {"type": "Feature", "geometry": pick.choice((None, POINT)), "properties": record(pick, names)}
    if rarely(pick, 0.6):
        made["id"] = pick.choice(("a", "b", 1, 2.5))
    if rarely(pick, 0.1):
        made["bbox"] = [1, 2, 3, 4]
    if rarely(pick, 0.1):
        made["foreign"] = value(pick)
    if rarely(pick, 0.05):
        made["properties"] = None
    return made


def features(pick: random.Random, names: list[str], contract: Case) -> Case:
    del contract
    found = [feature(pick, names) for _ in range(pick.choice((0, 1, 2, 3, 8)))]
    return {"text": json.dumps({"type": "FeatureCollection", "features": found}, ensure_ascii=False)}


def item(pick: random.Random, names: list[str]) -> Case:
    made = feature(pick, names)
    when = {"datetime": "2020-01-01T00:00:00Z"}
    made |= {"geometry": POINT, "bbox": [-97.5, 38.25, -97.5, 38.25], "stac_version": "1.0.0", "links": []}
    made |= {"id": pick.choice(("a", "b", "c")), "properties": {**(made["properties"] or {}), **when}}
    return {**made, "assets": {"B4": {"href": pick.choice(("x", "y"))}} if rarely(pick, 0.7) else {}}


def items(pick: random.Random, names: list[str], contract: Case) -> Case:
    del contract
    kind = pick.randrange(4)
    if kind == 0:
        made: Case = {"type": "Catalog", "stac_version": "1.0.0", "id": "c", "description": "d", "links": []}
        return {"text": json.dumps({**record(pick, names), **made}, ensure_ascii=False)}
    if kind == 1:
        return {"text": json.dumps(item(pick, names), ensure_ascii=False)}
    found = [item(pick, names) for _ in range(pick.randrange(5))]
    return {"text": json.dumps({"type": "FeatureCollection", "features": found}, ensure_ascii=False)}


def operand(pick: random.Random) -> Any:
    if rarely(pick, 0.4):
        return pick.choice((0, 1, 5, 5.0, 9, 10, -1, 0.1, 1e21, 2**53))
    return True if rarely(pick, 0.1) else text(pick)


def condition(pick: random.Random, column: str) -> Case:
    said: Case = {"column": column}
    for _ in range(1 if rarely(pick, 0.8) else 2):
        kind = pick.choice(("equals", "not_equals", "in", "above", "below", "at_least", "at_most", "matches", "blank"))
        if kind == "in":
            said[kind] = [operand(pick) for _ in range(pick.randrange(4))]
        elif kind == "matches":
            said[kind] = pick.choice(GLOBS)
        elif kind == "blank":
            said[kind] = pick.choice((True, False))
        else:
            said[kind] = operand(pick)
    return said


def step(pick: random.Random, there: list[str], lookups: dict[str, list[str]]) -> Case:
    """One step; `there` follows the columns, as well as anyone can tell."""

    def column() -> str:
        return pick.choice(there) if there and not rarely(pick, 0.02) else pick.choice(NAMES)

    def some(most: int) -> list[str]:
        return list(dict.fromkeys(column() for _ in range(pick.randrange(1, most + 1))))

    kind = pick.choice(("select", "rename", "cast", "filter", "filter", "sort", "sort", "deduplicate", "join"))
    if kind == "select":
        chosen = some(5)
        if rarely(pick, 0.15):
            chosen.append(pick.choice(POINTERS))
        if "geometry" in there and rarely(pick, 0.7):
            chosen.append("geometry")
        there[:] = chosen = list(dict.fromkeys(chosen)) if not rarely(pick, 0.02) else chosen
        return {"select": chosen}
    if kind == "rename":
        new = {name: pick.choice((*NAMES, "new", "other")) for name in some(2)}
        there[:] = [new.get(name, name) for name in there]
        return {"rename": new}
    if kind == "cast":
        said: Case = {"cast": {name: pick.choice(("text", "integer", "number", "boolean")) for name in some(3)}}
        if not rarely(pick, 0.2):
            said["unfit"] = pick.choice(("blank", "drop", "blank", "drop", "refuse"))
        return said
    if kind == "filter":
        return {"filter": condition(pick, column())}
    if kind == "sort":
        keys: list[Any] = [
            name if rarely(pick, 0.4) else {"column": name, "descending": pick.choice((True, False))}
            for name in some(3)
        ]
        return {"sort": keys}
    if kind == "deduplicate":
        return {
            "deduplicate": {"by": some(2), **({"keep": pick.choice(("first", "last"))} if rarely(pick, 0.6) else {})}
        }
    name = pick.choice(list(lookups))
    theirs = lookups[name] or ["id"]
    on = {column(): pick.choice(theirs) for _ in range(1 if rarely(pick, 0.8) else 2)}
    add = list(dict.fromkeys(pick.choice(theirs) for _ in range(pick.randrange(1, 3))))
    there += add
    missing = {"missing": pick.choice(("keep", "drop", "refuse"))} if rarely(pick, 0.7) else {}
    return {"join": {"source": name, "on": on, "add": add, **missing}}


def output(pick: random.Random, name: str, contract: Case, names: list[str], lookups: dict[str, list[str]]) -> Case:
    there = list(dict.fromkeys(names))
    said: Case = {"from": name, "steps": [step(pick, there, lookups) for _ in range(pick.choice((0, 1, 1, 2, 3, 4)))]}
    wanted = [None, "json", "ndjson"]
    if contract["format"] == "csv" or any("select" in one for one in said["steps"]) or rarely(pick, 0.05):
        wanted += ["csv", "csv"]
    if contract["format"] not in ("csv",) or rarely(pick, 0.02):
        wanted.append("geojson")
    format_ = pick.choice(wanted)
    if format_ is not None:
        said["format"] = format_
    if contract.get("partition_by") and rarely(pick, 0.6):
        said["partition_by"] = contract["partition_by"]
    return said


def spoiled(pick: random.Random, case: Case) -> Case:
    """Now and then something that cannot be."""
    if not rarely(pick, 0.04):
        return case
    one = pick.choice(list(case["outputs"].values()))
    one["steps"] = [*one["steps"], pick.choice((
        {}, {"mask": {}}, {"select": []}, {"select": ["id"], "sort": ["id"]}, {"unfit": "drop"}, {"sort": [5]},
        {"filter": {"column": "n"}}, {"filter": {"column": "n", "above": True}}, {"cast": {"n": "float"}},
        {"filter": {"column": "", "blank": True}}, {"join": {"source": "x", "on": {"n": "n"}, "add": ["t"]}},
        {"deduplicate": {"by": []}}, {"rename": {"n": ""}}, {"filtr": {}}, {"sort": "n"}, {"select": "n"}, 5,
        {"filter": {"column": "n", "equals": None}}, {"filter": {"column": "n", "equals": [1]}}, {"rename": {"n": 5}},
    ))]  # fmt: skip
    return case


def case_of(pick: random.Random) -> Case:
    sources: dict[str, Case] = {}
    names: dict[str, list[str]] = {}
    for name in ("t", "u") if rarely(pick, 0.35) else ("t",):
        sources[name], names[name] = source(pick)
    outputs = {"o": output(pick, "t", sources["t"]["contract"], names["t"], names)}
    if rarely(pick, 0.15):
        outputs["p"] = output(pick, "t", sources["t"]["contract"], names["t"], names)
    used = json.dumps(outputs)
    if "u" in sources and '"source": "u"' not in used and not rarely(pick, 0.02):
        del sources["u"]
    return spoiled(pick, {"sources": sources, "outputs": outputs})
