"""Looks at a file, an address or a folder as a run would read it, before anything declares it.

A local file is read by its head. An address and a member of an archive are fetched by the reader of a run, under the
network rules of the installation, into memory.
"""

from __future__ import annotations

import io
import os
import posixpath
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import msgspec

from kfm.app.declarations.neighbour_metadata import Stated, stated_by
from kfm.app.session.source_access import SourceOpener
from kfm.clock import Clock
from kfm.config import DatasetConfig, Resolved
from kfm.config.source_settings import SourceConfig
from kfm.engine.isolation.sandbox import profile_apart
from kfm.errors import BadInput, Refused
from kfm.model.format_rules import DEGREES
from kfm.model.records import FetchRequest
from kfm.model.reports.discovered_datasets import slug
from kfm.model.source_formats import GRIDS
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.strict_json import decode
from kfm.store.objects import DryObjects
from kfm.telemetry.log import NullLog
from kfm.validation.column_profile import ColumnProfile, bound_of, profile_text, profile_values
from kfm.validation.format_recognition import dialect_of, format_of, records_in
from kfm.validation.source_check import APART

HEAD = 4 << 20  # bytes of a text that are read for its types
LARGEST = 256 << 20  # bytes that are held in memory: a larger file is not checked before it is added
MOST_FILES = 200  # of a folder or an archive
MOST_COLUMNS = 300
_DATA = (
    ".csv", ".tsv", ".tab", ".psv", ".json", ".geojson", ".ndjson", ".jsonl", ".parquet", ".gpkg", ".fgb", ".tif",
    ".tiff", ".nc", ".grib2", ".grb2", ".zip", ".gz", ".txt",
)  # fmt: skip
_COORDINATES = frozenset({"lat", "lon", "latitude", "longitude", "x", "y", "time", "level", "height"})  # of a grid
_ABOUT = ("datapackage.json", "collection.json", "catalog.json", "readme.txt", "license.txt", "licence.txt")


class SourceFile(NamedTuple):
    """The bytes of one source: where a run will find them, and how to open them now."""

    uri: str
    name: str  # the name of the file, by which people know it
    size: int
    open: Callable[[], BinaryIO]
    settings: Mapping[str, str] = {}  # `unpack` or `member`, if the file is packed


class Look(NamedTuple):
    """What was seen of one source."""

    file: SourceFile
    format: str
    contract: dict[str, Any]  # how the text is written; without columns
    expect: dict[str, Any]
    profiles: list[ColumnProfile]
    table: dict[str, Sequence[Any]]  # values of the rows that were read
    rows: int
    whole: bool  # all of it was read
    has_shapes: bool
    bbox: list[float]
    time: str  # of a grid: a moment, or two with / between them
    stated: Stated
    units: dict[str, str]  # of a grid, by variable


class Access(NamedTuple):
    """The installation whose rules hold, and the folder that the caller is in."""

    resolved: Resolved
    clock: Clock
    here: str


# ---------------------------------------------------------------------------------------------- which files


def files_of(access: Access, what: str, member: str) -> list[SourceFile]:
    """Return the files of a path, an address or a folder. Raise Refused or BadInput, with the cure, if there are none
    or if they cannot be read."""
    if not what or not is_printable(what) or len(what) > 4000:
        raise BadInput("FILE must be one line: a path, an address or a folder")
    if "://" in what:
        return _unpacked(access, _fetched(access, what, {}), member)
    path = os.path.join(access.here, what)
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if name.lower().endswith(_DATA))
        names = [name for name in names if name.lower() not in _ABOUT and not name.startswith(".")]
        if not names:
            raise BadInput(f"{printable(what)} has no file of data", hint="name a file, or a folder that holds some")
        if len(names) > MOST_FILES:
            raise BadInput(
                f"{printable(what)} has {len(names):,} files, more than {MOST_FILES}",
                hint="an updater reads so many: `kfm new updater NAME`",
            )
        found = []
        for name in names:
            found += _unpacked(access, _local(access, os.path.join(path, name), f"{what.rstrip('/')}/{name}"), "")
        return found
    return _unpacked(access, _local(access, path, what), member)


def _local(access: Access, path: str, shown: str) -> SourceFile:
    if not os.path.lexists(path):
        raise BadInput(f"there is no file {printable(shown, 200)}", hint="look at the path, or give an address")
    if not os.path.isfile(path):
        raise BadInput(f"{printable(shown, 200)} is not a regular file", hint="name a file that can be read to its end")
    uri = _uri_of(access.resolved, path, shown)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as problem:
        reason = (problem.strerror or "unknown").lower()
        raise BadInput(f"{printable(shown, 200)} cannot be read: {reason}", hint="look at its owner and mode") from None
    return SourceFile(uri, os.path.basename(path), size, lambda: open(path, "rb"))


def _uri_of(resolved: Resolved, path: str, shown: str) -> str:
    """Return the path as kfm.yml names it. Raise BadInput if a run may not read it there."""
    root, real = os.path.realpath(resolved.root), os.path.realpath(path)
    inside = os.path.join(root, os.path.relpath(os.path.abspath(path), os.path.abspath(resolved.root)))
    uri = os.path.relpath(real, root).replace(os.sep, "/")
    if os.path.normpath(inside) != real and not uri.startswith("../"):
        raise BadInput(f"{printable(shown, 200)} leads through a symbolic link", hint=f"name the file itself: {uri}")
    if not uri.startswith("../"):
        return uri
    if any(real.startswith(os.path.join(os.path.realpath(folder), "")) for folder in resolved.config.read_from):
        return real
    name = os.path.basename(path)
    raise BadInput(
        f"{printable(shown, 200)} is outside of the folder of kfm.yml",
        hint=f"--copy copies it to data/{name}; or name its folder under `read_from:`",
    )


def _fetched(access: Access, uri: str, settings: Mapping[str, str]) -> SourceFile:
    """Return the bytes of an address or of a packed file, fetched as a run fetches them."""
    network = access.resolved.config.network
    source = msgspec.convert({"uri": uri, **settings}, SourceConfig)
    declared = DatasetConfig(sources={"it": source})
    opener = SourceOpener(access.resolved, access.clock, NullLog(), lambda _: None, dry=True)
    request = FetchRequest(
        uri=source.known_as,
        name="it",
        base_dir=access.resolved.root,
        roots=access.resolved.config.read_from,
        allow=network.allow,
        max_bytes=min(network.max_bytes, LARGEST),
        timeout_ms=round(network.timeout_s * 1000),
        total_ms=round(network.total_s * 1000),
        now_ms=access.clock.now_ms(),
    )
    objects = DryObjects(None)
    try:
        ref = opener.open("it", declared, uri).fetch(request, None, objects).ref
    except Refused as problem:
        if "larger than" not in problem.message or network.max_bytes <= LARGEST:
            raise
        raise Refused(
            f"{problem.message}, the most that KFM looks at before it is declared",
            hint="download it below the folder of kfm.yml and add the file; then write the address as its uri",
        ) from None
    name = settings.get("member") or posixpath.basename(uri.partition("?")[0].partition("#")[0]) or "data"
    if settings.get("unpack"):
        name = name.removesuffix(".gz")
    return SourceFile(uri, posixpath.basename(name), ref.size, lambda: objects.open(ref.content_hash), dict(settings))


def _unpacked(access: Access, file: SourceFile, member: str) -> list[SourceFile]:
    """Return the files in an archive, or the file itself if it is none, or if it is a format that is a zip."""
    with file.open() as body:
        head = body.read(512)
    kind = format_of(head, file.name, printable(file.name, 200)) if head[:2] in (b"PK", b"\x1f\x8b") else ""
    if head[257:262] == b"ustar":
        kind = "tar"
    if kind == "gzip" and not file.name.lower().endswith((".tar.gz", ".tgz")):
        return [_fetched(access, file.uri, {"unpack": "gzip"})]
    if kind in ("tar", "gzip"):
        if not member:
            raise BadInput(f"{printable(file.name)} is a tar archive", hint="name the file in it: --member PATH")
        return [_fetched(access, file.uri, {"member": member})]
    if kind != "zip":
        return [file]
    names = _zip_names(file)
    if member:
        return [_fetched(access, file.uri, {"member": member})]
    if any(name.lower().endswith(".shp") for name in names) or _is_zarr(names):
        return [file]
    if "xl/workbook.xml" in names or "mimetype" in names[:1]:
        raise Refused(f"{printable(file.name)} is a spreadsheet, which KFM does not read", hint="save it as CSV")
    data = [name for name in names if name.lower().endswith(_DATA) and posixpath.basename(name).lower() not in _ABOUT]
    if not data or len(data) > MOST_FILES:
        raise BadInput(
            f"{printable(file.name)} is an archive with {len(data):,} files of data",
            hint="name one of them: --member PATH",
        )
    return [_fetched(access, file.uri, {"member": name}) for name in data]


def _zip_names(file: SourceFile) -> list[str]:
    try:
        with file.open() as body, zipfile.ZipFile(body) as archive:
            names = [one.filename for one in archive.infolist()[: MOST_FILES * 50] if not one.is_dir()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise Refused(f"{printable(file.name)} is an archive that cannot be read", hint="make it again") from None
    return [name for name in names if not name.startswith("__MACOSX/")]


def _is_zarr(names: Sequence[str]) -> bool:
    return any(posixpath.basename(name) in (".zgroup", ".zarray", "zarr.json", ".zmetadata") for name in names)


# ---------------------------------------------------------------------------------------------- what is in them


def look_at(file: SourceFile, wanted: str = "") -> Look:
    """Return what is in a file; `wanted` is the format that the caller names. Raise Refused if KFM cannot read it."""
    shown = printable(file.name, 200)
    with file.open() as body:
        head = body.read(HEAD)
    form = wanted or format_of(head, file.name, shown)
    if form == "zip":
        form = "shapefile" if any(name.lower().endswith(".shp") for name in _zip_names(file)) else "zarr"
    whole = file.size <= len(head)
    if form in APART:
        return _apart(file, form, shown)
    if form == "csv":
        return _table(file, head, whole=whole)
    if form == "ndjson":
        lines = head.splitlines()[: None if whole else -1]
        records = [decode(line, f"{shown}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
        return _records(file, form, [one for one in records if isinstance(one, dict)], {}, Stated(), whole=whole)
    if form in ("json", "geojson", "stac"):
        return _document(file, form, head, whole=whole)
    return _look(file, form, {} if form != "text" else _text_contract(head, shown), whole=whole)


def _look(file: SourceFile, form: str, contract: dict[str, Any], *, whole: bool, **more: Any) -> Look:
    nothing: dict[str, Any] = {
        "expect": {}, "profiles": [], "table": {}, "rows": 0, "has_shapes": False, "bbox": [], "time": "",
        "stated": Stated(), "units": {},
    }  # fmt: skip
    return Look(file=file, format=form, contract=contract, whole=whole, **{**nothing, **more})


def _text_contract(head: bytes, shown: str) -> dict[str, Any]:
    from kfm.validation.format_recognition import encoding_of

    encoding = encoding_of(head, shown)
    return {"encoding": encoding} if encoding != "utf-8" else {}


def _table(file: SourceFile, head: bytes, *, whole: bool) -> Look:
    found = dialect_of(head, printable(file.name, 200), whole=whole)
    if len(found.names) > MOST_COLUMNS:
        raise Refused(f"{printable(file.name)} has {len(found.names):,} columns", hint="an updater reads so many")
    usual: dict[str, Any] = {
        "encoding": "utf-8", "delimiter": ",", "skip_lines": 0, "comment": "", "skip_after_header": 0, "header": True,
    }  # fmt: skip
    contract = {name: getattr(found, name) for name, value in usual.items() if getattr(found, name) != value}
    table = {name: [row[at] for row in found.rows] for at, name in enumerate(found.names)}
    profiles = [profile_text(name, values, whole=file.size <= LARGEST) for name, values in table.items()]
    return _look(
        file,
        "csv",
        contract,
        whole=whole,
        profiles=profiles,
        table=table,
        rows=len(found.rows),
        bbox=_box_of(table) if whole else [],
    )


def _box_of(table: Mapping[str, Sequence[Any]]) -> list[float]:
    from kfm.app.declarations.sensitivity_signs import place_columns

    pair = place_columns(table)
    if pair is None:
        return []
    places = []
    for north, east in zip(table[pair[0]], table[pair[1]], strict=True):
        try:
            latitude, longitude = float(north), float(east)
        except (TypeError, ValueError):
            continue
        if abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude or longitude):
            places.append((longitude, latitude))
    return _around(places)


def _around(places: Sequence[tuple[float, float]]) -> list[float]:
    if not places:
        return []
    easts, norths = zip(*places, strict=True)
    return [min(easts), min(norths), max(easts), max(norths)]


def _document(file: SourceFile, form: str, head: bytes, *, whole: bool) -> Look:
    if not whole:
        if file.size > LARGEST:
            raise Refused(
                f"{printable(file.name)} is one JSON document of more than {LARGEST >> 20} MiB",
                hint="publish it as lines of JSON (NDJSON), of which the first are enough",
            )
        with file.open() as body:
            head = body.read()
    document = decode(head, printable(file.name, 200))
    stated = stated_by(document, file.name) if isinstance(document, dict) else Stated()
    if form == "stac":
        items = document.get("features", [document]) if isinstance(document, dict) else []
        return _look(file, form, {}, whole=True, rows=len(items), stated=stated, has_shapes=True)
    if form == "geojson":
        features = document.get("features", [document]) if isinstance(document, dict) else []
        return _features(file, [one for one in features if isinstance(one, dict)], stated)
    root, records = records_in(document)
    return _records(file, form, records, {"root": root} if root else {}, stated, whole=True)


def _records(
    file: SourceFile, form: str, records: list[dict[str, Any]], contract: dict[str, Any], stated: Stated, *, whole: bool
) -> Look:
    if not records:
        raise Refused(f"{printable(file.name)} has no records", hint="look at its source")
    names = list(dict.fromkeys(name for one in records for name in one))[:MOST_COLUMNS]
    table: dict[str, Sequence[Any]] = {name: [one.get(name) for one in records] for name in names}
    profiles = [profile_values(name, values, whole=file.size <= LARGEST) for name, values in table.items()]
    return _look(
        file, form, contract, whole=whole, profiles=profiles, table=table, rows=len(records), stated=stated,
        bbox=_box_of(table) if whole else [],
    )  # fmt: skip


def _features(file: SourceFile, features: list[dict[str, Any]], stated: Stated) -> Look:
    rows = [one.get("properties") or {} for one in features]
    look = _records(file, "geojson", rows, {}, stated, whole=True) if any(rows) else None
    look = look or _look(file, "geojson", {}, whole=True, rows=len(features), stated=stated)
    shapes = [one["geometry"] for one in features if isinstance(one.get("geometry"), dict)]
    return look._replace(has_shapes=bool(shapes), bbox=_box_of_shapes(features))


def _box_of_shapes(features: list[dict[str, Any]]) -> list[float]:
    from kfm.validation.geojson import feature_flaw, place_flaw, positions

    fine = [one for one in features if not feature_flaw(one) and not place_flaw(one) and one["geometry"] is not None]
    return _around([(place[0], place[1]) for one in fine for place in positions(one["geometry"])])


def _apart(file: SourceFile, form: str, shown: str) -> Look:
    if file.size > LARGEST:
        raise Refused(
            f"{shown} has {file.size:,} bytes, and KFM looks at no {form} of more than {LARGEST >> 20} MiB",
            hint="declare it by hand: docs/guides/formats.md",
        )
    try:
        said = profile_apart(io.BytesIO, file.open, form)
    except BadInput as problem:
        raise Refused(f"{shown}: {problem.message}", hint=problem.hint) from None
    crs = said.get("crs", "")
    box = said.get("bbox", []) if form in GRIDS or crs in DEGREES else []
    if form in GRIDS:
        return _grid(file, form, said, crs, box)
    table = said["sample"]
    profiles = [_columnar(name, values, said) for name, values in table.items()]
    expect: dict[str, Any] = {"crs": crs} if said.get("places") and crs else {}
    return _look(
        file, form, {}, whole=said["whole"], expect=expect, profiles=profiles, table=table, rows=said["rows"],
        has_shapes=bool(said.get("geometry")), bbox=box[:2] + box[-2:] if len(box) == 4 else [],
    )  # fmt: skip


def _columnar(name: str, values: Sequence[Any], said: dict[str, Any]) -> ColumnProfile:
    """Return the profile of a typed column: its own type counts, not that of the values that were read."""
    types = {"text": "text", "integer": "integer", "number": "number", "decimal": "number", "boolean": "boolean"}
    types |= {"date": "date", "timestamp": "datetime"}
    family = said.get("families", {}).get(name, "")
    found = profile_values(name, values, whole=bool(said["whole"]))
    if not family or found.column is None:
        return found._replace(column=None)
    kind = types[family]
    if found.column.type != kind and (found.column.type, kind) != ("number", "integer"):
        plain = msgspec.structs.replace(found.column, type=kind, minimum=None, maximum=None)
        return found._replace(column=plain)
    return found


def _grid(file: SourceFile, form: str, said: dict[str, Any], crs: str, box: list[float]) -> Look:
    variables = []
    for one in said["variables"]:
        kept: dict[str, Any] = {"name": one["name"], "required": True, "dtype": one["dtype"]}
        if one["units"] and is_printable(one["units"]) and len(one["units"]) <= 100:
            kept["units"] = one["units"]
        if "nodata" in one:
            kept["nodata"] = one["nodata"]
        if one["largest"] and " since " not in one["units"] and one["name"].lower() not in _COORDINATES:
            kept["minimum"], kept["maximum"] = -bound_of(one["largest"]), bound_of(one["largest"])
        variables.append(kept)
    expect: dict[str, Any] = {"crs": crs} if crs else {}
    return _look(
        file, form, {}, whole=True, expect={**expect, "variables": variables}, bbox=box, time=said.get("datetime", ""),
        units={one["name"]: one["units"] for one in said["variables"]},
    )  # fmt: skip


def source_name(file: SourceFile, taken: set[str]) -> str:
    """Return a name for a source and its output, made from the name of its file, that is not taken."""
    stem = file.name
    for ending in (".zarr.zip", ".shp.zip"):
        stem = stem.removesuffix(ending)
    plain = slug(posixpath.splitext(stem)[0]) or "data"
    found, at = plain, 2
    while found in taken:
        found, at = f"{plain}-{at}", at + 1
    return found
