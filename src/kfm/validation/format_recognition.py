"""Recognises the format of a file by its first bytes, and how a delimited table is written. Pure: no file is opened."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from kfm.errors import BadInput, Refused
from kfm.model.source_formats import Format
from kfm.parsing.strict_json import decode

DELIMITERS = (",", "\t", ";", "|")
_MARKS: tuple[tuple[bytes, Format], ...] = (
    (b"PAR1", "parquet"), (b"fgb\x03fgb", "flatgeobuf"), (b"GRIB", "grib2"), (b"CDF\x01", "netcdf"),
    (b"CDF\x02", "netcdf"), (b"CDF\x05", "netcdf"), (b"\x89HDF", "netcdf"), (b"II*\0", "geotiff"),
    (b"MM\0*", "geotiff"), (b"II+\0", "geotiff"), (b"MM\0+", "geotiff"),
)  # fmt: skip
_FOREIGN = (
    (b"%PDF", "a PDF", "export its table as CSV"),
    (b"\x89PNG", "a picture", "KFM publishes data: a GeoTIFF has a place"),
    (b"\xff\xd8\xff", "a picture", "KFM publishes data: a GeoTIFF has a place"),
    (b"GIF8", "a picture", "KFM publishes data: a GeoTIFF has a place"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file", "save it as CSV"),
    (b"\x00\x00\x27\x0a", "the .shp of a shapefile alone", "put its parts into one zip: `zip NAME.zip NAME.*`"),
)
_RDB = re.compile(r"[0-9]+[sndSND]")
_NUMERIC = re.compile(r"[+-]?[0-9.,:/eE-]*[0-9][0-9.,:/eE-]*")
_TAG = re.compile(rb"\s*<(?:!doctype\s+html|html|head|body|script|!--)", re.IGNORECASE)


class Dialect(NamedTuple):
    """How a table is written, and its header; the names of a table without a header are made up."""

    encoding: str
    delimiter: str
    skip_lines: int
    comment: str
    skip_after_header: int
    header: bool
    names: tuple[str, ...]
    rows: list[list[str]]  # those of the head that have as many fields as the header


def format_of(head: bytes, name: str, shown: str) -> Format | str:
    """Return the format of a file by its first bytes; `zip`, `gzip` or `tar` for an archive. Raise Refused, with the
    cure, for a file that KFM does not read."""
    if not head:
        raise Refused(f"{shown} is empty: it has 0 bytes", hint="nothing was written; look at its source")
    for mark, form in _MARKS:
        if head.startswith(mark):
            return form
    for mark, what, cure in _FOREIGN:
        if head.startswith(mark):
            raise Refused(f"{shown} is {what}, which KFM does not read", hint=cure)
    if head.startswith(b"SQLite format 3\0"):
        if head[68:72] in (b"GPKG", b"GP10", b"GP11"):
            return "geopackage"
        raise Refused(f"{shown} is a database of SQLite, which KFM does not read", hint="export its table as CSV")
    for mark, packed in ((b"PK\x03\x04", "zip"), (b"\x1f\x8b", "gzip")):
        if head.startswith(mark):
            return packed
    if head[257:262] == b"ustar":
        return "tar"
    if _TAG.match(head):
        raise Refused(
            f"{shown} is an HTML page, not data: servers send one in place of a file that is not there",
            hint="open the address in a browser, and name the address of the file itself",
        )
    encoding = encoding_of(head, shown)
    text = head.decode(encoding, "replace").lstrip("\ufeff \t\r\n")
    if not text:
        raise Refused(f"{shown} is empty: it has nothing but blank space", hint="look at its source")
    if text.startswith("<"):
        raise Refused(f"{shown} is XML, which KFM does not read", hint="look for the same data as CSV or GeoJSON")
    if text[0] in "{[":
        return _json_format(text, name)
    return "csv" if _looks_like_table(text, name) else "text"


def encoding_of(head: bytes, shown: str) -> str:
    """Return the encoding of a text. Raise Refused for bytes that are no text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in head or sum(byte < 9 or 13 < byte < 27 for byte in head[:4096]) > 8:
        raise Refused(
            f"{shown} is in no format that KFM recognises", hint="docs/guides/formats.md lists those it reads"
        )
    for cut in range(4):  # the head may end within a character
        try:
            head[: len(head) - cut].decode("utf-8")
            return "utf-8"
        except UnicodeDecodeError as problem:
            if problem.start < len(head) - 4:
                break
    try:
        head.decode("cp1252")
        return "cp1252"
    except UnicodeDecodeError:
        return "latin-1"


def _json_format(text: str, name: str) -> Format:
    start = re.sub(r"\s", "", text[:20_000])
    first = text.split("\n", 1)[0].strip()
    if name.lower().endswith((".ndjson", ".jsonl")) or (_is_object(first) and text.count("\n") > 0 and _second(text)):
        return "ndjson"
    if '"stac_version"' in text:
        return "stac"
    if '"type":"FeatureCollection"' in start or '"type":"Feature"' in start or name.lower().endswith(".geojson"):
        return "geojson"
    return "json"


def _is_object(line: str) -> bool:
    try:
        return isinstance(decode(line.encode(), "line"), dict)
    except BadInput:
        return False


def _second(text: str) -> bool:
    lines = [line for line in text.split("\n")[1:4] if line.strip()]
    return bool(lines) and lines[0].lstrip().startswith("{")


def _looks_like_table(text: str, name: str) -> bool:
    if name.lower().endswith((".csv", ".tsv", ".tab", ".psv")):
        return True
    lines = [line for line in text.split("\n")[:200] if line.strip() and not line.startswith("#")]
    return len(lines) > 1 and any(
        all(line.count(mark) == lines[0].count(mark) for line in lines[:20]) and mark in lines[0] for mark in DELIMITERS
    )


def dialect_of(head: bytes, shown: str, *, whole: bool) -> Dialect:
    """Return how a table is written, and the rows of its head. The last line of a head is left out, unless it is the
    whole file. Raise Refused if it has no row."""
    encoding = encoding_of(head, shown)
    text = head.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace").replace("\r\n", "\n")
    text = text.replace("\r", "\n")
    if not whole and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    comment = "#" if text.startswith("#") else ""
    if comment:
        text = "".join(line for line in io.StringIO(text) if not line.startswith("#"))
    delimiter = _delimiter(text)
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(map(str.strip, row))]
    if not rows:
        raise Refused(f"{shown} has no rows", hint="look at its source")
    above = 0 if comment else _preamble(rows)
    rows = rows[above:]
    filled = [at for at, line in enumerate(text.split("\n")) if line.strip()]
    skip = filled[above] if above else 0
    first = [cell.strip() for cell in rows[0]]
    header = bool(first) and all(first) and len(set(first)) == len(first) and not any(map(_NUMERIC.fullmatch, first))
    names = tuple(rows[0]) if header else tuple(f"column_{at}" for at in range(1, len(rows[0]) + 1))
    body = rows[1:] if header else rows
    units = int(header and bool(body) and len(body[0]) == len(names) and all(map(_RDB.fullmatch, body[0])))
    body = [row for row in body[units:] if len(row) == len(names)]
    if not body:
        raise Refused(f"{shown} has a header and no rows", hint="look at its source")
    return Dialect(encoding, delimiter, skip, comment, units, header, names, body)


def _delimiter(text: str) -> str:
    """Return the mark that most lines have equally often; a comma if none is in them."""
    lines = [line for line in text.split("\n")[:200] if line.strip()]
    found = []
    for mark in DELIMITERS:
        counts = Counter(len(row) for row in csv.reader(lines, delimiter=mark))
        width, times = counts.most_common(1)[0] if counts else (1, 0)
        if width > 1:
            found.append((times, width, mark))
    return max(found, key=lambda one: (one[0], one[1]))[2] if found else ","


def _preamble(rows: Sequence[Sequence[str]]) -> int:
    """Return how many lines above the table are no rows of it: fewer than ten, each with one or two fields."""
    width = Counter(len(row) for row in rows[:200]).most_common(1)[0][0]
    above = next((at for at, row in enumerate(rows[:10]) if len(row) == width), 0)
    return above if width > 2 and all(len(row) <= 2 for row in rows[:above]) else 0


def records_in(document: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the member that holds the list of records, and the records: the list at the top, the only list of objects
    in a member, or the document itself."""
    if isinstance(document, list):
        return "", [one for one in document if isinstance(one, dict)]
    if not isinstance(document, dict):
        return "", []
    lists = [
        name for name, value in document.items() if isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    if len(lists) == 1:
        return lists[0], [one for one in document[lists[0]] if isinstance(one, dict)]
    return "", [document]
