"""Makes sources for data contracts: usual ones, and worse."""

from __future__ import annotations

import json
import random
from typing import Any

NAMES = (
    "a",
    "b",
    "c",
    "id",
    "n",
    "é",
    "10",
    "9",
    "__proto__",
    "constructor",
    "a b",
    "#1",
    "\U0001f600",
    "\ufffd",
    "a/b",
    "a~b",
)
CELLS = (
    "", " ", "1", "-2", "+3", "1.5", "1.50", "x", "NA", "true", "FALSE", "Yes", "y", "0", "007", "1e5", "1E-7", ".5",
    "5.", "-",
    "--1", "1_0", "\u0663", "1e999", "-1e999", "1e-999", "nan", "inf", "-Infinity", "0x10", "9" * 30, "9" * 401,
    "-" + "9" * 399,
    "9007199254740993", "9007199254740992.5", "100000.5", "2024-01-01", "2024-02-30", "2024-02-29", "0000-01-01",
    "2024-W01-1", " 2024-01-01 ", "2024-01-01T00:00", "2024-01-01 23:59:60", "2024-01-01T12:30:15.123456789+05:30",
    "2024-01-01T12:00:00Z", "2024-01-01T12:00z", "01/02/2024", "1/2/24", "13/13/2024", "3 Jan 2024", "3 JAN 2024",
    "29 Feb 2023",
    "Monday, 1 May 2024", "20240229", "2024366", "2023366", "KS", "ks", "KS ", "a,b", 'say "hi"', '"', "\n", "\r",
    "\r\n", "a\nb",
    "é", "\u00a0", "\x85", "\x1c", "\u2028", "\ufeff", "\u3000x\u3000", "😀", "\U0001f600" * 3, "\u017f", "\u212a", "İ",
    "x" * 70,
    "\x00", "\x0b", "\x0c", "a;b", "a\tb", "null", "[1]", "{}", "~", "\ud7ff", "\ue000",
)  # fmt: skip
ENCODINGS = (
    "utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "ascii", "cp1252", "cp437",
    "cp850",
    "cp1250", "cp1251", "koi8-r", "mac-roman", "iso-8859-2", "iso-8859-15", "UTF_8", "Latin1", "US-ASCII",
    "shift_jis", "klingon",
    "", "utf-7", "windows 1252",
)  # fmt: skip
SAFE_ENCODINGS = ENCODINGS[:18]
DELIMITERS = (
    ",",
    ",",
    ",",
    ",",
    ";",
    "\t",
    "|",
    " ",
    "§",
    "a",
    "1",
    "\u3000",
    '"',
    "\n",
    "",
    ",,",
    "\U0001f600",
    "\0",
    "\\",
    "]",
    "^",
    "-",
)
ENDS = ("\n", "\n", "\r\n", "\r")


def source(pick: random.Random, asked: dict[str, Any]) -> bytes:
    kind = asked["format"]
    if kind == "csv":
        body = table(pick, asked)
    elif kind in ("text", "bytes"):
        text = "".join(pick.choice(CELLS) + pick.choice(("", "\n", "\r\n", " ")) for _ in range(pick.randint(0, 12)))
        body = _encoded(pick, text, asked.get("encoding", "utf-8"))
    else:
        body = document(pick, asked)
    return spoiled(pick, body)


def table(pick: random.Random, asked: dict[str, Any]) -> bytes:
    names = [c["name"] for c in asked.get("columns", [])]
    names += pick.sample(NAMES, k=pick.choice((0, 0, 1, 2)))
    if pick.random() < 0.9:
        names = list(dict.fromkeys(names))
    if pick.random() < 0.15:
        pick.shuffle(names)
    if pick.random() < 0.1 and names:
        names[pick.randrange(len(names))] = pick.choice(("", " ", "x", names[0]))
    delimiter = asked.get("delimiter", ",") if pick.random() < 0.95 else pick.choice(DELIMITERS)
    columns = {c["name"]: c for c in asked.get("columns", [])}
    rows = [] if asked.get("header", True) is False and pick.random() < 0.9 else [names]
    for _ in range(pick.choice((0, 1, 2, 5, 12, 40))):
        row = [cell(pick, columns.get(name)) for name in names]
        if pick.random() < 0.05:
            row = row[: pick.randrange(len(row) + 1)]
        elif pick.random() < 0.05:
            row.append(pick.choice(CELLS))
        rows.append(row)
    end = pick.choice(ENDS)
    text = ""
    for row in rows:
        text += delimiter.join(quoted(pick, field, delimiter) for field in row)
        text += end if pick.random() < 0.97 else pick.choice(("\n", "\r", "\r\n", "\n\n", "\r\r", "\n\r", ""))
    if pick.random() < 0.2:
        text = text.removesuffix(end)
    return _encoded(pick, text, asked.get("encoding", "utf-8"))


def cell(pick: random.Random, asked: dict[str, Any] | None) -> str:
    if asked is None or pick.random() < 0.15:
        return pick.choice(CELLS)
    if asked.get("missing") and pick.random() < 0.1:
        return str(pick.choice(asked["missing"]))
    if asked.get("values") and pick.random() < 0.8:
        return str(pick.choice(asked["values"]))
    good = {
        "text": ("x", "KS", "abc", "é", "a b", "1", "\U0001f600"), "integer": ("1", "2", "-5", "12", " 7 "),
        "number": ("1.5", "2", "-0.5", "1e5"),
        "boolean": ("true", "No", "1", "F"), "date": ("2024-01-01", "2024-02-29", "01/02/2024", "3 Jan 2024",
        "20240229", "2024060"),
        "datetime": ("2024-01-01T12:00:00Z", "2024-01-01 12:00", "2024-01-01T12:00:00+0100"),
    }[asked["type"]]  # fmt: skip
    return pick.choice(good)


def quoted(pick: random.Random, field: str, delimiter: str) -> str:
    roll = pick.random()
    special = any(sign in field for sign in ('"', "\n", "\r", delimiter or "\0"))
    if (special and roll < 0.9) or roll < 0.1:
        field = '"' + field.replace('"', '""') + '"'
        if pick.random() < 0.02:
            field = pick.choice((field + "x", field[:-1], " " + field, field + " ", '"' + field))
    return field


def _encoded(pick: random.Random, text: str, encoding: str) -> bytes:
    if pick.random() < 0.03:
        encoding = pick.choice(SAFE_ENCODINGS)
    try:
        body = text.encode(encoding, "replace" if pick.random() < 0.97 else "surrogatepass")
    except (LookupError, UnicodeError):
        body = text.encode("utf-8", "surrogatepass")
    if pick.random() < 0.1:
        body = pick.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf\xef\xbb\xbf", b"\xef\xbb")) + body
    return body


def value(pick: random.Random, room: int) -> Any:
    kind = pick.randrange(9 if room else 6)
    if kind == 0:
        return pick.choice((None, True, False))
    if kind == 1:
        return pick.choice((0, 1, -1, 5, 12, 2**53, -(2**53), 1767225600))
    if kind == 2:
        return pick.choice((0.5, 1.0, -0.0, 1e21, 1e-7, 2.5, 100000.5, 5e-324, 1.7976931348623157e308))
    if kind <= 5:
        return pick.choice(CELLS)
    if kind == 6:
        return [value(pick, room - 1) for _ in range(pick.randrange(4))]
    return {pick.choice(NAMES): value(pick, room - 1) for _ in range(pick.randrange(4))}


def record(pick: random.Random, asked: dict[str, Any]) -> Any:
    if pick.random() < 0.06:
        return value(pick, 2)
    made: dict[str, Any] = {}
    for one in asked.get("columns", []):
        if pick.random() < 0.9:
            made[one["name"]] = member(pick, one)
    for _ in range(pick.choice((0, 0, 1, 2))):
        made[pick.choice(NAMES)] = value(pick, 2)
    items = list(made.items())
    if pick.random() < 0.3:
        pick.shuffle(items)
    return dict(items)


def member(pick: random.Random, asked: dict[str, Any]) -> Any:
    text = cell(pick, asked)
    if asked["type"] in ("integer", "number") and pick.random() < 0.9:
        return pick.choice((1, 2, -5, 12, 1.0, 1.5, 1e21, -0.0, None, 2**53))
    if asked["type"] == "boolean" and pick.random() < 0.9:
        return pick.choice((True, False, None))
    return text if pick.random() < 0.95 else value(pick, 1)


NUMBERS = (0, 1, -1, 179.5, -179.5, 180, -180, 180.5, 90, -90, 91, 38.5, -98, 1e3, True, "1", None, 0.001, -0.0)


def position(pick: random.Random) -> Any:
    if pick.random() < 0.02:
        return pick.choice(([], [1], "x", [1, 2, 3, 4], {}, 5))
    return [pick.choice(NUMBERS[:12] if pick.random() < 0.97 else NUMBERS) for _ in range(pick.choice((2, 2, 2, 3)))]


def geometry(pick: random.Random, room: int = 3) -> Any:
    roll = pick.random()
    if roll < 0.08:
        return pick.choice((None, "Point", {}, {"type": "point", "coordinates": [0, 0]}, {"type": "Point"}, []))
    kind = pick.choice(
        ("Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection")
    )
    made: dict[str, Any] = {"type": kind}
    if kind == "GeometryCollection":
        made["geometries"] = [geometry(pick, room - 1) for _ in range(pick.randrange(3))] if room else []
        if pick.random() < 0.03:
            for _ in range(12):
                made = {"type": kind, "geometries": [made]}
    elif kind == "Point":
        made["coordinates"] = position(pick)
    elif kind in ("MultiPoint", "LineString"):
        made["coordinates"] = [position(pick) for _ in range(pick.randrange(4))]
    elif kind == "MultiLineString":
        made["coordinates"] = [[position(pick) for _ in range(pick.randrange(4))] for _ in range(pick.randrange(3))]
    else:
        rings = [ring(pick) for _ in range(pick.randrange(3))]
        made["coordinates"] = rings if kind == "Polygon" else [rings, [ring(pick)]]
    if pick.random() < 0.1:
        made["bbox"] = box(pick)
    return made


def ring(pick: random.Random) -> Any:
    made = [position(pick) for _ in range(pick.choice((2, 3, 3, 3, 4)))]
    return [*made, made[0]] if pick.random() < 0.9 else pick.choice((made, made[0], 5))


def box(pick: random.Random) -> Any:
    made = pick.choice(
        ([-180, -90, 180, 90], [170, -10, -170, 10], [0, 0, 0, 1, 1, 1], [1, 2, 3], None, "x", [0, 0, 0, 91])
    )
    return [pick.choice(NUMBERS[:12]) for _ in range(4)] if pick.random() < 0.3 else made


def feature(pick: random.Random, asked: dict[str, Any]) -> Any:
    if pick.random() < 0.04:
        return value(pick, 2)
    properties = record(pick, asked) if pick.random() < 0.95 else pick.choice((None, [], 5))
    made: dict[str, Any] = {"type": "Feature", "geometry": geometry(pick), "properties": properties}
    if pick.random() < 0.2:
        made["id"] = pick.choice(("x", 5, True, None, 1.5))
    if pick.random() < 0.2:
        made["bbox"] = box(pick)
    if pick.random() < 0.05:
        del made[pick.choice(list(made))]
    return made


MOMENTS = (
    "2020-12-11T22:38:32.125Z", "2020-12-11T22:38:32Z", "2021-01-01T00:00:00+00:00", "2020-12-11",
    "2020-02-30T00:00:00Z", None, 5,
    "2020-12-11T22:38:32+01:00", "2020-12-11T22:38:32.1250000001Z", "0000-01-01T00:00:00Z",
)  # fmt: skip


def stac(pick: random.Random, asked: dict[str, Any]) -> Any:
    kind = pick.choice(("Feature", "Feature", "Feature", "Collection", "Catalog", "FeatureCollection", "x"))
    if kind == "FeatureCollection":
        return {"type": kind, "features": [stac_item(pick, asked) for _ in range(pick.randrange(5))], "links": []}
    made = stac_item(pick, asked)
    if kind == "Feature":
        return made
    made = {
        "type": kind, "stac_version": made.get("stac_version"), "id": made.get("id"), "description": pick.choice(("d",
        "d", "", 5)),
        "license": pick.choice(("CC0-1.0", "CC0-1.0", "", None)), "links": made.get("links"),
        "extent": {"spatial": {"bbox": [box(pick), [0, 0, 1, 1]][pick.randrange(2) :]},
                   "temporal": {"interval": [[pick.choice(MOMENTS), pick.choice(MOMENTS)]] * pick.randrange(3)}},
        **record_of(pick, asked),
    }  # fmt: skip
    for name in ("providers", "assets", "stac_extensions"):
        if pick.random() < 0.2:
            made[name] = pick.choice(([], {}, [{"name": "x"}], [{}], {"a": {"href": "x"}}, {"a": {}}, ["x"], [5], None))
    if pick.random() < 0.15:
        del made[pick.choice(list(made))]
    return made


def record_of(pick: random.Random, asked: dict[str, Any]) -> dict[str, Any]:
    made = record(pick, asked)
    return made if isinstance(made, dict) else {}


def stac_item(pick: random.Random, asked: dict[str, Any]) -> Any:
    made: dict[str, Any] = {
        "type": "Feature", "stac_version": pick.choice(("1.0.0", "1.0.0", "1.1.0", "1.0.0-rc.1", "0.9.0", "1.2.0", 1)),
        "id": pick.choice(("x", "x", "x", "", 5)), "geometry": {"type": "Point", "coordinates": [-98, 38.5]},
        "bbox": [-98, 38.5, -98, 38.5],
        "properties": {"datetime": "2020-12-11T22:38:32Z", **record_of(pick, asked)}, "links": [],
        "assets": {"a": {"href": "x"}},
    }  # fmt: skip
    if pick.random() < 0.3:
        made["geometry"], made["bbox"] = geometry(pick), box(pick)
    for name in ("datetime", "start_datetime", "end_datetime"):
        if pick.random() < 0.25:
            made["properties"][name] = pick.choice(MOMENTS)
    if pick.random() < 0.3:
        made["links"] = pick.choice(([{"rel": "collection", "href": "x"}], [{"rel": "self"}], [5], {}, None, [{}] * 25))
    if pick.random() < 0.2:
        made["collection"] = pick.choice(("x", None, 5, ""))
    if pick.random() < 0.1:
        made["assets"] = pick.choice(({}, [], {"a": {}}, {"a": 5}, None))
    if pick.random() < 0.1:
        made["stac_extensions"] = pick.choice(([], ["x"], [5], None))
    if pick.random() < 0.15:
        del made[pick.choice(list(made))]
    return made


def written(pick: random.Random, made: Any) -> str:
    text = json.dumps(made, ensure_ascii=pick.random() < 0.3, indent=pick.choice((None, None, None, 1, "\t")))
    return text.replace(", ", pick.choice((", ", ",", " ,\r\n"))) if pick.random() < 0.1 else text


def document(pick: random.Random, asked: dict[str, Any]) -> bytes:
    kind = asked["format"]
    count = pick.choice((0, 1, 2, 5, 12))
    if kind == "ndjson":
        ends = [pick.choice(("\n", "\n", "\r\n", "\n\n", " \n", "\n\t")) for _ in range(count)]
        lines = [written(pick, record(pick, asked)).replace("\n", " ") + end for end in ends]
        text = "".join(lines)
        if pick.random() < 0.3:
            text = text.rstrip()
    elif kind == "geojson":
        made: Any = {"type": "FeatureCollection", "features": [feature(pick, asked) for _ in range(count)]}
        if pick.random() < 0.2:
            made[pick.choice(("bbox", "type", "features", "x"))] = pick.choice((box(pick), "Feature", None, 5))
        text = written(pick, dict(sorted(made.items())) if pick.random() < 0.3 else made)
    elif kind == "stac":
        text = written(pick, stac(pick, asked))
    else:
        records: Any = [record(pick, asked) for _ in range(count)]
        root = asked.get("root", "")
        if root and pick.random() < 0.95:
            before = {pick.choice(NAMES): value(pick, 2) for _ in range(pick.randrange(3))}
            after = {pick.choice(NAMES): value(pick, 2) for _ in range(pick.randrange(3))}
            records = {**before, root: records if pick.random() < 0.97 else value(pick, 1), **after}
        elif pick.random() < 0.3:
            records = record(pick, asked)
        text = written(pick, records)
    return text.encode("utf-8", "surrogatepass")


PIECES = (
    b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x90\x80", b"\xe2\x82", b"\xef\xbb\xbf", b'"', b"\n", b"\r",
    b",", b"{", b"}",
    b"[", b"]", b":", b" ", b"NaN", b"-Infinity", b"1e999", b"9007199254740993", b'\\ud800', b'"a":1,',
    b'"features":[],', b"\\", b"\\u",
    b"\x0b", b"\x85", b"\xa0", b"01", b"\x1c", b"\xd8", b"\x00\xd8", b"\xdc\x00", b"x" * 50, b"[" * 250,
    b'{"a":' * 210, b"\x81", b"\x98",
)  # fmt: skip


def spoiled(pick: random.Random, body: bytes) -> bytes:
    for _ in range(pick.choice((0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3))):
        at = pick.randrange(len(body) + 1)
        kind = pick.randrange(5)
        if kind == 0:
            body = body[:at] + pick.choice(PIECES) + body[at:]
        elif kind == 1:
            body = body[:at] + body[at + pick.randint(1, 9) :]
        elif kind == 2 and body:
            at %= len(body)
            body = body[:at] + bytes([body[at] ^ 1 << pick.randrange(8)]) + body[at + 1 :]
        elif kind == 3:
            body = body[:at]
        else:
            body = body[:at] + body[at : at + pick.randint(1, 60)] + body[at:]
    return body
