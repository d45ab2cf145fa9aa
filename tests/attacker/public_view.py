"""Everything that a reader of the public files can keep: each file with its time, at several times."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tests.attacker.score import Key

Row = dict[str, Any]
DATA = re.compile(r"(?:^|/)datasets/([^/]+)/versions/([0-9a-f]{16})/([^/]+)\.(csv|ndjson|geojson)$")


class File(NamedTuple):
    body: bytes
    time: float


Folder = dict[str, File]  # all public files at one time


class Edition(NamedTuple):
    """One table in one version."""

    table: str
    path: str
    file: File
    rows: list[Row]
    about: str  # the start of the version's digest


def folder(*roots: Path) -> Folder:
    """Read the files below these folders, or these files themselves."""
    found = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
    return {path.as_posix(): File(path.read_bytes(), path.stat().st_mtime) for path in found if path.is_file()}


class View:
    """The public files of an installation as a reader kept them, oldest first."""

    def __init__(self, folders: Sequence[Folder], towns: Sequence[tuple[float, float]] = ()) -> None:
        self.folders = folders
        self.towns = towns

    @cached_property
    def editions(self) -> dict[str, list[Edition]]:
        """The versions of each table in the order in which they appeared."""
        out: dict[str, list[Edition]] = {}
        seen = set()
        for files in self.folders:
            for path, file in sorted(files.items(), key=lambda item: item[1].time):
                match = DATA.search(path)
                if match and path not in seen:
                    seen.add(path)
                    dataset, version, name, kind = match.groups()
                    rows = list(rows_of(file.body, kind))
                    if rows and "cell" in rows[0]:
                        table = f"{dataset}/{name}"
                        out.setdefault(table, []).append(Edition(table, path, file, rows, version))
        return out

    @cached_property
    def rows(self) -> dict[Key, Row]:
        """The row of each site in the first version that has it."""
        out: dict[Key, Row] = {}
        for table, editions in self.editions.items():
            for edition in editions:
                for row in edition.rows:
                    if len(row["cell"]) == 15:
                        out.setdefault((table, row["id"]), row)
        return out

    @cached_property
    def first(self) -> dict[Key, Edition]:
        out: dict[Key, Edition] = {}
        for table, editions in self.editions.items():
            for edition in editions:
                for row in edition.rows:
                    out.setdefault((table, row["id"]), edition)
        return out

    @cached_property
    def texts(self) -> dict[str, str]:
        """Every text that was ever public, by path."""
        out: dict[str, str] = {}
        for number, files in enumerate(self.folders):
            for path, file in files.items():
                name = path if path not in out else f"{path}#{number}"
                if path not in out or out[path] != file.body.decode("utf-8", "replace"):
                    out[name] = file.body.decode("utf-8", "replace")
        return out


def rows_of(body: bytes, kind: str) -> Iterator[Row]:
    if kind == "csv":
        yield from csv.DictReader(io.StringIO(body.decode(), newline=""))
    elif kind == "ndjson":
        yield from map(json.loads, filter(None, body.splitlines()))
    else:
        for one in json.loads(body)["features"]:
            yield {"id": one.get("id"), **one["properties"], "geometry": one["geometry"], "bbox": one.get("bbox")}


def written(rows: Sequence[Mapping[str, Any]], kind: str) -> bytes:
    """The bytes of a table: the reverse of `rows_of`, for a copy with a planted leak."""
    if kind == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue().encode()
    if kind == "ndjson":
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    own = ("id", "geometry", "bbox")
    features = [
        {"type": "Feature"}
        | {name: row[name] for name in own if name in row}
        | {"properties": {name: value for name, value in row.items() if name not in own}}
        for row in rows
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()
