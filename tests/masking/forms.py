"""One protected table in many machine forms: notations, layouts, encodings and containers, and crosses of them.

A form maps the rows to files. The ids are in none of them, so that only places and free text can be recognised.
"""

from __future__ import annotations

import base64
import bz2
import csv
import gzip
import html
import io
import json
import lzma
import math
import pickle
import random
import sqlite3
import struct
import tarfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from tests.masking.notation_forms import NOTATIONS, Files, Form, Points, entities, geohash, wkb, written
from tests.masking.notation_forms import table as table

# ---------------------------------------------------------------------------------------------- layouts


def _csv(head: Sequence[str], rows: Sequence[Sequence[Any]], delimiter: str = ",") -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerows([head, *rows])
    return out.getvalue().encode()


def as_csv(points: Points) -> Files:
    return {"a.csv": _csv(("kind", "y", "x"), [("camp", *point) for point in points])}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def as_records(points: Points) -> Files:
    return {"a.json": _json([{"kind": "camp", "y": y, "x": x} for y, x in points])}


def as_features(points: Points) -> Files:
    features = [
        {
            "type": "Feature",
            "properties": {"kind": "camp"},
            "geometry": {"type": "Point", "coordinates": [_number(x), _number(y)]},
        }
        for y, x in points
    ]
    return {"a.geojson": _json({"type": "FeatureCollection", "features": features})}


def _parquet(columns: dict[str, Any], **how: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **how)
    return out.getvalue()


def as_parquet(points: Points) -> Files:
    return {"a.parquet": _parquet({"y": [_number(y) for y, _ in points], "x": [_number(x) for _, x in points]})}


def _database(*statements: tuple[str, Sequence[Sequence[Any]]]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.db")
        state = sqlite3.connect(path)
        for statement, rows in statements:
            state.executemany(statement, rows) if rows else state.execute(statement)
        state.commit()
        state.close()
        return path.read_bytes()


def as_sqlite(points: Points) -> Files:
    rows = [("camp", _number(y), _number(x)) for y, x in points]
    return {"a.sqlite": _database(("create table t (kind, y, x)", ()), ("insert into t values (?, ?, ?)", rows))}


def as_gzip(points: Points) -> Files:
    return {"a.csv.gz": gzip.compress(as_csv(points)["a.csv"], mtime=0)}


def zipped(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def as_zip(points: Points) -> Files:
    return {"a.zip": zipped(as_records(points))}


CONTAINERS: dict[str, Callable[[Points], Files]] = {
    "csv": as_csv,
    "json": as_records,
    "geojson": as_features,
    "parquet": as_parquet,
    "sqlite": as_sqlite,
    "gz": as_gzip,
    "zip": as_zip,
}


def _far_apart(points: Points) -> bytes:
    rng = random.Random(3)
    fill = [[f"{rng.uniform(0, 5000):.2f}" for _ in range(900)] for _ in points]
    head = ["y", *(f"c{n}" for n in range(900)), "x"]
    return _csv(head, [(y, *middle, x) for (y, x), middle in zip(points, fill, strict=True)])


def _kml(points: Points) -> bytes:
    marks = "".join(f"<Placemark><Point><coordinates>{x},{y},0</coordinates></Point></Placemark>" for y, x in points)
    return f"<kml><Document>{marks}</Document></kml>".encode()


def _shapes(points: Points) -> bytes:
    body = b"".join(
        struct.pack(">ii", n, 10) + struct.pack("<idd", 1, float(x), float(y)) for n, (y, x) in enumerate(points, 1)
    )
    return struct.pack(">iiiiiii", 9994, 0, 0, 0, 0, 0, (100 + len(body)) // 2) + bytes(72) + body


LAYOUTS: dict[str, Callable[[Points], Files]] = {
    "tab separated": lambda points: {"a.tsv": _csv(("y", "x"), points, "\t")},
    "semicolons": lambda points: {"a.csv": _csv(("y", "x"), points, ";")},
    "longitude first": lambda points: {"a.csv": _csv(("x", "y"), [(x, y) for y, x in points])},
    "columns as JSON arrays": lambda points: {
        "a.json": _json({"y": [float(y) for y, _ in points], "x": [float(x) for _, x in points]})
    },
    "columns as indented JSON": lambda points: {
        "a.json": json.dumps({"y": [y for y, _ in points], "x": [x for _, x in points]}, indent=2).encode()
    },
    "arrays of arrays": lambda points: {"a.json": _json([[float(y), float(x)] for y, x in points])},
    "transposed": lambda points: {"a.csv": _csv(("y", *(y for y, _ in points)), [("x", *(x for _, x in points))])},
    "two files": lambda points: {
        "y.csv": _csv(("n", "y"), [(n, y) for n, (y, _) in enumerate(points)]),
        "x.csv": _csv(("n", "x"), [(n, x) for n, (_, x) in enumerate(points)]),
    },
    "two files, one reversed": lambda points: {
        "y.csv": _csv(("y",), [(y,) for y, _ in points]),
        "x.csv": _csv(("x",), [(x,) for _, x in reversed(points)]),
    },
    "two files of four decimals": lambda points: {
        "y.csv": _csv(("y",), [(f"{float(y):.4f}",) for y, _ in points]),
        "x.csv": _csv(("x",), [(f"{float(x):.4f}",) for _, x in points]),
    },
    "a file for each row": lambda points: {f"{n}.csv": _csv(("y", "x"), [point]) for n, point in enumerate(points)},
    "far apart in a row": lambda points: {"a.csv": _far_apart(points)},
    "only latitudes": lambda points: {"a.csv": _csv(("y",), [(y,) for y, _ in points])},
    "only longitudes": lambda points: {"a.csv": _csv(("x",), [(x,) for _, x in points])},
    "a fifth of the latitudes": lambda points: {"a.csv": _csv(("y",), [(y,) for y, _ in points[::4]])},
    "sorted columns": lambda points: {
        "a.csv": _csv(("y", "x"), list(zip(sorted(y for y, _ in points), sorted(x for _, x in points), strict=True)))
    },
    "a multipoint": lambda points: {
        "a.geojson": _json({"type": "MultiPoint", "coordinates": [[float(x), float(y)] for y, x in points]})
    },
    "a line": lambda points: {
        "a.geojson": _json({"type": "LineString", "coordinates": [[float(x), float(y), 400] for y, x in points]})
    },
    "wkt": lambda points: {"a.csv": _csv(("geom",), [(f"POINT ({x} {y})",) for y, x in points])},
    "ewkt": lambda points: {"a.csv": _csv(("geom",), [(f"SRID=4326;POINT({x} {y})",) for y, x in points])},
    "wkt multipoint": lambda points: {"a.txt": f"MULTIPOINT ({', '.join(f'({x} {y})' for y, x in points)})".encode()},
    "kml": lambda points: {"a.kml": _kml(points)},
    "kmz": lambda points: {"a.kmz": zipped({"doc.kml": _kml(points)})},
    "gpx": lambda points: {"a.gpx": "".join(f'<wpt lat="{y}" lon="{x}"/>\n' for y, x in points).encode()},
    "html table": lambda points: {"a.html": "".join(f"<tr><td>{y}</td><td>{x}</td></tr>" for y, x in points).encode()},
    "links to a map": lambda points: {
        "a.html": "".join(f'<a href="https://map.test/@{y},{x},15z">site</a>' for y, x in points).encode()
    },
    "query strings": lambda points: {"a.txt": "".join(f"https://map.test/?ll={y}%2C{x}\n" for y, x in points).encode()},
    "geo addresses": lambda points: {"a.txt": "".join(f"geo:{y},{x};u=5\n" for y, x in points).encode()},
    "sql": lambda points: {"a.sql": "".join(f"INSERT INTO t VALUES ({y}, {x});\n" for y, x in points).encode()},
    "yaml": lambda points: {"a.yml": "".join(f"- lat: {y}\n  lon: {x}\n" for y, x in points).encode()},
    "markdown": lambda points: {"a.md": "".join(f"| {y} | {x} |\n" for y, x in points).encode()},
    "names joined to numbers": lambda points: {"a.txt": "".join(f"lat={y}&lon={x}\n" for y, x in points).encode()},
    "letters joined to numbers": lambda points: {"a.txt": "".join(f"lat{y}lon{x}\n" for y, x in points).encode()},
    "prose": lambda points: {"a.txt": "".join(f"The next is at {y} by {x}. " for y, x in points).encode()},
    "utf-16": lambda points: {"a.csv": as_csv(points)["a.csv"].decode().encode("utf-16")},
    "utf-16 without mark": lambda points: {"a.csv": as_csv(points)["a.csv"].decode().encode("utf-16-le")},
    "utf-16 big-endian": lambda points: {"a.csv": as_csv(points)["a.csv"].decode().encode("utf-16-be")},
    "utf-32": lambda points: {"a.csv": as_csv(points)["a.csv"].decode().encode("utf-32")},
    "utf-8 with mark": lambda points: {"a.csv": b"\xef\xbb\xbf" + as_csv(points)["a.csv"]},
    "parquet uncompressed": lambda points: {
        "a.parquet": _parquet(
            {"y": [float(y) for y, _ in points], "x": [float(x) for _, x in points]}, compression="none"
        )
    },
    "parquet of texts": lambda points: {
        "a.parquet": _parquet({"y": [y for y, _ in points], "x": [x for _, x in points]})
    },
    "parquet single precision": lambda points: {
        "a.parquet": _parquet(
            {
                "y": pa.array(np.array([float(y) for y, _ in points], "f4")),
                "x": pa.array(np.array([float(x) for _, x in points], "f4")),
            }
        )
    },
    "parquet of lists": lambda points: {"a.parquet": _parquet({"at": [[float(y), float(x)] for y, x in points]})},
    "parquet of wkb": lambda points: {"a.parquet": _parquet({"geometry": [wkb(point) for point in points]})},
    "two parquet files": lambda points: {
        "y.parquet": _parquet({"y": [float(y) for y, _ in points]}),
        "x.parquet": _parquet({"x": [float(x) for _, x in points]}),
    },
    "feather": lambda points: {"a.feather": _feather(points)},
    "sqlite of texts": lambda points: {
        "a.sqlite": _database(("create table t (y text, x text)", ()), ("insert into t values (?, ?)", points))
    },
    "geopackage": lambda points: {
        "a.gpkg": _database(
            ("create table t (fid integer primary key, geom blob)", ()),
            ("insert into t (geom) values (?)", [(b"GP\0\1" + struct.pack("<i", 4326) + wkb(p),) for p in points]),
        )
    },
    "shapefile": lambda points: {"a.shp": _shapes(points)},
    "npy": lambda points: {"a.npy": _npy(points, "<f8")},
    "npy big-endian": lambda points: {"a.npy": _npy(points, ">f8")},
    "npy single precision": lambda points: {"a.npy": _npy(points, "<f4")},
    "pickle": lambda points: {"a.pkl": pickle.dumps([(float(y), float(x)) for y, x in points])},
}


def _feather(points: Points) -> bytes:
    out = io.BytesIO()
    rows = pa.table({"y": [float(y) for y, _ in points], "x": [float(x) for _, x in points]})
    pyarrow.feather.write_feather(rows, out, compression="uncompressed")
    return out.getvalue()


def _npy(points: Points, kind: str) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([[float(y), float(x)] for y, x in points], kind))
    return out.getvalue()


def _words(form: Callable[[tuple[str, str]], str]) -> Callable[[Points], Files]:
    return lambda points: {"a.csv": _csv(("kind", "place"), [("camp", form(point)) for point in points])}


TOKENS: dict[str, Callable[[tuple[str, str]], str]] = {
    "wkb hex": lambda point: wkb(point).hex(),
    "wkb upper hex": lambda point: wkb(point).hex().upper(),
    "wkb big-endian hex": lambda point: wkb(point, ">").hex(),
    "ewkb hex": lambda point: wkb(point, srid=4326).hex(),
    "ewkb big-endian hex": lambda point: wkb(point, ">", 4326).hex(),
    "postgres bytes": lambda point: "\\x" + wkb(point).hex(),
    "sql blob": lambda point: f"X'{wkb(point).hex()}'",
    "wkb base64": lambda point: base64.b64encode(wkb(point)).decode(),
    "doubles hex": lambda point: struct.pack("<dd", float(point[0]), float(point[1])).hex(),
    "geohash of 9": lambda point: geohash(float(point[0]), float(point[1]), 9),
    "geohash of 10": lambda point: geohash(float(point[0]), float(point[1]), 10),
    "geohash of 12": lambda point: geohash(float(point[0]), float(point[1]), 12),
    "upper geohash": lambda point: geohash(float(point[0]), float(point[1]), 11).upper(),
    "base64 of each point": lambda point: base64.b64encode(f"{point[0]},{point[1]}".encode()).decode(),
    "hex of each point": lambda point: f"{point[0]},{point[1]}".encode().hex(),
    "geojson in a cell": lambda point: f'{{"type": "Point", "coordinates": [{point[1]}, {point[0]}]}}',
    "json in json": lambda point: json.dumps(json.dumps({"lat": point[0], "lng": point[1]})),
}


# ---------------------------------------------------------------------------------------------- encodings


def _tar(body: bytes, mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        entry = tarfile.TarInfo("a.csv")
        entry.size = len(body)
        archive.addfile(entry, io.BytesIO(body))
    return out.getvalue()


def _lines(body: bytes) -> bytes:
    return base64.encodebytes(body)


def _in_json(body: bytes) -> bytes:
    return _json({"data": base64.b64encode(body).decode()})


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "base64": base64.b64encode,
    "base64 in lines": _lines,
    "base64 for addresses": base64.urlsafe_b64encode,
    "base64 in json": _in_json,
    "data address": lambda body: b'<a href="data:text/csv;base64,' + base64.b64encode(body) + b'">x</a>',
    "hex": lambda body: body.hex().encode(),
    "hex in lines": lambda body: b"\n".join(body.hex().encode()[n : n + 64] for n in range(0, 2 * len(body), 64)),
    "url": lambda body: urllib.parse.quote(body).encode(),
    "url twice": lambda body: urllib.parse.quote(urllib.parse.quote(body)).encode(),
    "all percent": lambda body: b"".join(b"%%%02x" % c for c in body),
    "html escaped": lambda body: html.escape(body.decode()).encode(),
    "html entities everywhere": lambda body: entities(body.decode()).encode(),
    "gzip": lambda body: gzip.compress(body, mtime=0),
    "zip": lambda body: zipped({"a.csv": body}),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lzma alone": lambda body: lzma.compress(body, lzma.FORMAT_ALONE),
    "zlib": lambda body: zlib.compress(body),
    "tar": _tar,
    "tar.gz": lambda body: gzip.compress(_tar(body), mtime=0),
    "tar.bz2": lambda body: _tar(body, "w:bz2"),
    "gzip twice": lambda body: gzip.compress(gzip.compress(body, mtime=0), mtime=0),
    "zip in zip": lambda body: zipped({"a.zip": zipped({"a.csv": body})}),
    "base64 of gzip": lambda body: base64.b64encode(gzip.compress(body, mtime=0)),
    "hex of gzip": lambda body: gzip.compress(body, mtime=0).hex().encode(),
    "gzip of base64": lambda body: gzip.compress(base64.b64encode(body), mtime=0),
    "base64 twice": lambda body: base64.b64encode(base64.b64encode(body)),
    "base64 three times": lambda body: base64.b64encode(base64.b64encode(base64.b64encode(body))),
    "base64 of xz in json": lambda body: _in_json(lzma.compress(body)),
    "zip of base64 in json": lambda body: zipped({"a.json": _in_json(body)}),
}
REVIEWED: dict[str, Callable[[bytes], bytes]] = {
    "gzip four times": lambda body: _times(lambda one: gzip.compress(one, mtime=0), body, 4),
    "zip five times": lambda body: _times(lambda one: zipped({"a": one}), body, 5),
    "base64 five times": lambda body: _times(base64.b64encode, body, 5),
    "zstd": lambda body: b"\x28\xb5\x2f\xfd" + random.Random(1).randbytes(len(body) // 3),
    "seven zip": lambda body: b"7z\xbc\xaf\x27\x1c" + random.Random(2).randbytes(len(body) // 3),
    "encrypted": lambda body: random.Random(4).randbytes(len(body)),
    "encrypted zip": lambda body: _encrypted(zipped({"a.csv": body})),
    "cut gzip": lambda body: gzip.compress(body, mtime=0)[:-30],
    "every bit turned": lambda body: bytes(c ^ 0xFF for c in body),
    "image": lambda body: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + random.Random(5).randbytes(4000),
}  # fmt: skip


def _encrypted(archive: bytes) -> bytes:
    """Return an archive of one member that says that a password is needed."""
    body = bytearray(archive)
    body[6] |= 1
    body[body.index(b"PK\x01\x02") + 8] |= 1
    return bytes(body)


def _times(how: Callable[[bytes], bytes], body: bytes, count: int) -> bytes:
    for _ in range(count):
        body = how(body)
    return body


# ---------------------------------------------------------------------------------------------- free text


TEXTS: dict[str, Form] = {
    "notes as csv": lambda rows: {"a.csv": _csv(("kind", "notes"), [(row.kind, row.notes) for row in rows])},
    "notes as json": lambda rows: {"a.json": _json([{"n": row.notes} for row in rows])},
    "notes as lines": lambda rows: {"a.txt": "\n".join(row.notes for row in rows).encode()},
    "notes in capitals": lambda rows: {"a.txt": "\n".join(row.notes.upper() for row in rows).encode()},
    "notes without marks": lambda rows: {"a.txt": "\n".join(row.notes.replace(",", "") for row in rows).encode()},
    "notes in another order": lambda rows: {"a.txt": "\n".join(row.notes for row in reversed(rows)).encode()},
    "notes within prose": lambda rows: {
        "a.txt": " ".join(f"He wrote: {row.notes}. So it is." for row in rows).encode()
    },
    "notes as parquet": lambda rows: {"a.parquet": _parquet({"n": [row.notes for row in rows]})},
    "notes as sqlite": lambda rows: {
        "a.sqlite": _database(("create table t (n)", ()), ("insert into t values (?)", [(row.notes,) for row in rows]))
    },
    "notes as zip": lambda rows: {"a.zip": zipped({"a.txt": "\n".join(row.notes for row in rows).encode()})},
    "notes as base64": lambda rows: {"a.txt": base64.b64encode("\n".join(row.notes for row in rows).encode())},
    "notes as html": lambda rows: {"a.html": "".join(f"<p>{entities(row.notes)}</p>" for row in rows).encode()},
    "a third of the notes": lambda rows: {"a.txt": "\n".join(row.notes for row in rows[::3]).encode()},
}


# ---------------------------------------------------------------------------------------------- beyond recognition


def _utm(point: tuple[str, str]) -> tuple[str, str]:
    """Return easting and northing in zone 14 to a metre, by the usual series."""
    lat, lng = math.radians(float(point[0])), math.radians(float(point[1]) + 99)
    a, e2, k0 = 6378137.0, 0.00669438, 0.9996
    n = a / math.sqrt(1 - e2 * math.sin(lat) ** 2)
    t, c, big_a = math.tan(lat) ** 2, 0.00673949 * math.cos(lat) ** 2, lng * math.cos(lat)
    m = a * (
        (1 - e2 / 4 - 3 * e2**2 / 64) * lat
        - (3 * e2 / 8 + 3 * e2**2 / 32) * math.sin(2 * lat)
        + (15 * e2**2 / 256) * math.sin(4 * lat)
    )
    east = k0 * n * (big_a + (1 - t + c) * big_a**3 / 6) + 500000
    north = k0 * (m + n * math.tan(lat) * (big_a**2 / 2 + (5 - t + 9 * c) * big_a**4 / 24))
    return f"{east:.2f}", f"{north:.2f}"


def _mercator(point: tuple[str, str]) -> tuple[str, str]:
    radius = 6378137.0
    lat, lng = math.radians(float(point[0])), math.radians(float(point[1]))
    return f"{radius * lng:.2f}", f"{radius * math.log(math.tan(math.pi / 4 + lat / 2)):.2f}"


def _retyped(text: str) -> str:
    return text[:-4] + text[-3] + text[-4] + text[-2:] if text[-4] != text[-3] else text + "9"


def _plain(how: Callable[[tuple[str, str]], tuple[str, str]]) -> Callable[[Points], Files]:
    return lambda points: {"a.csv": _csv(("a", "b"), [how(point) for point in points])}


_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
UNRECOGNISED: dict[str, Callable[[Points], Files]] = {
    "utm": _plain(_utm),
    "web mercator": _plain(_mercator),
    "radians": _plain(lambda p: (f"{math.radians(float(p[0])):.9f}", f"{math.radians(float(p[1])):.9f}")),
    "grads": _plain(lambda p: (f"{float(p[0]) / 0.9:.8f}", f"{float(p[1]) / 0.9:.8f}")),
    "kilometres from a corner": _plain(
        lambda p: (f"{(float(p[0]) - 37) * 111.19:.4f}", f"{(float(p[1]) + 102) * 87.8:.4f}")
    ),
    "differences of rows": lambda points: {
        "a.csv": _csv(
            ("a", "b"),
            [
                (f"{float(b[0]) - float(a[0]):.7f}", f"{float(b[1]) - float(a[1]):.7f}")
                for a, b in pairwise(points)
            ],
        )
    },
    "shift of a hundredth": _plain(lambda p: (f"{float(p[0]) + 0.01:.7f}", f"{float(p[1]) + 0.01:.7f}")),
    "retyped digits": _plain(lambda p: (_retyped(p[0][:8]), _retyped(p[1][:9]))),
    "digits in reverse": lambda points: {"a.csv": as_csv(points)["a.csv"][::-1]},
    "digits as letters": lambda points: {
        "a.csv": as_csv(points)["a.csv"].translate(bytes.maketrans(b"0123456789", b"qwertyuiop"))
    },
    "digits as words": lambda points: {
        "a.txt": " ".join(
            " ".join(_WORDS[int(c)] for c in y + x if c.isdigit())
            for y, x in points
        ).encode()
    },
    "whole and fraction in two columns": _plain(lambda p: (p[0].replace(".", " , "), p[1].replace(".", " , "))),
    "base32": lambda points: {"a.txt": base64.b32encode(as_csv(points)["a.csv"])},
    "base85": lambda points: {"a.txt": base64.b85encode(as_csv(points)["a.csv"])},
    "one decimal": _plain(lambda p: (f"{float(p[0]):.1f}", f"{float(p[1]):.1f}")),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- all of them


def _of(points: Callable[[Points], Files], notation: str = "exact") -> Form:
    return lambda rows: points(written(rows, notation))


def _encoded(how: Callable[[bytes], bytes]) -> Form:
    return lambda rows: {"a.bin": how(as_csv(written(rows, "exact"))["a.csv"])}


_CROSSED = (
    "exponent", "unsigned", "0 to 360", "hemisphere after", "hemisphere before", "dms", "microdegrees",
    "full-width digits", "html entities", "decimal comma", "shift of 1e-6", "shift of 5e-5", "four decimals",
)  # fmt: skip


def _all() -> tuple[dict[str, Form], dict[str, Form], dict[str, Form]]:
    denied: dict[str, Form] = {}
    for name in NOTATIONS:
        denied[f"csv, {name}"] = _of(as_csv, name)
    for container, how in CONTAINERS.items():
        denied.setdefault(f"{container}, exact", _of(how))
        for name in _CROSSED:
            denied.setdefault(f"{container}, {name}", _of(how, name))
    denied |= {name: _of(how) for name, how in LAYOUTS.items()}
    denied |= {name: _of(_words(how)) for name, how in TOKENS.items()}
    denied |= {name: _encoded(how) for name, how in ENCODINGS.items()}
    denied |= TEXTS
    reviewed = {name: _encoded(how) for name, how in REVIEWED.items()}
    missed = {name: _of(how) for name, how in UNRECOGNISED.items()}
    return denied, reviewed, missed


DENIED, PENDING, MISSED = _all()
FORMS: dict[str, Form] = DENIED | PENDING | MISSED
