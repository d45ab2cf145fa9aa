"""Checks GeoPackage, shapefile and FlatGeobuf sources against their contracts; the accepted rows become GeoParquet.

- A file whose first bytes are not those of its format is not passed to a library. GDAL reads the file from memory and
  gets no path, so it finds no other files.
- The number of rows that GDAL returns must be the number that the file declares: otherwise the source is quarantined.
- The geometry column is named `geometry`; the rows are then checked like GeoParquet, see parquet.py.
- The accepted rows are always written, and steps read only them. If all rows were accepted, the footer names the
  digest of the original file, which may then be published too.
"""

from __future__ import annotations

import hashlib
import io
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from kfm.errors import BadInput, Unavailable
from kfm.model.canonical import canonical
from kfm.model.records import DataContract
from kfm.parsing import arrow
from kfm.parsing.characters import printable
from kfm.parsing.parquet_footer import ALL_OF
from kfm.parsing.strict_json import decode
from kfm.parsing.wkb import Box, box_of, joined, kind_of
from kfm.validation.findings import NOTE, SOURCE, Outcome
from kfm.validation.geoparquet import GEO, geometry_of
from kfm.validation.parquet import Judge, named_apart
from kfm.validation.shapefiles import NoShapefile, Shapefile
from kfm.validation.vector_integrity import Unfit, check_database, check_flatgeobuf

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 1 << 30  # bytes of a file: it is read from memory
MOST_MADE = 2 << 30  # bytes of what passes
BATCH = 1 << 14
GEOMETRY = "geometry"
NAMES = {"geopackage": "GeoPackage", "shapefile": "a shapefile", "flatgeobuf": "FlatGeobuf"}
_DRIVERS = {"geopackage": "GPKG", "shapefile": "ESRI Shapefile", "flatgeobuf": "FlatGeobuf"}
_SQLITE = b"SQLite format 3\0"
_GEOPACKAGE = (b"GPKG", b"GP10", b"GP11")  # application ids
_FLATGEOBUF = b"fgb\x03fgb"
_GIVEN = "_ogr_geometry_"


class _Given(NamedTuple):
    """The bytes that GDAL reads, the layer in them, and the number of rows that the file declares."""

    body: bytes
    layer: str | None
    rows: int  # as the file says; -1: it does not


def library(form: str) -> Any:
    """Return pyogrio, with all modules that it would import later already loaded. Raise Unavailable if it is not
    installed."""
    arrow.library(NAMES[form], "vectors")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyogrio
            import pyogrio.raw
    except ModuleNotFoundError as problem:
        raise Unavailable(
            f"{NAMES[form]} needs a library that is not installed",
            hint="pip install 'kansas-frontier-matrix[vectors]'",
        ) from problem
    return pyogrio


def inspect_vector(
    open_body: Callable[[], BinaryIO], contract: DataContract, out: Outcome, accept: Callable[[bytes], None]
) -> None:
    form = contract.format
    pyogrio = library(form)
    import pyarrow as pa

    with open_body() as file:
        body = file.read(MOST + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            given = _given(pyogrio, body, contract)
            del body
            _judged(pyogrio, given, contract, digest, out, accept)
    except MemoryError:
        raise
    except Unfit as flaw:
        out.add(SOURCE, flaw.rule, f"{flaw.message}; the source is held")
    except NoShapefile as flaw:
        out.add(SOURCE, flaw.rule, f"{flaw}; the source is held")
    except (pa.ArrowException, RuntimeError, OSError, LookupError, ValueError):
        what = f"it cannot be read as {NAMES[form]} from here; the source is held"
        out.add(SOURCE, f"{form}.unreadable", what, out.rows + 1 if out.rows else 0)


@contextmanager
def opened_vector(
    open_body: Callable[[], BinaryIO], contract: DataContract
) -> Iterator[tuple[int, dict[str, Any] | None, Iterator[pa.RecordBatch]]]:
    """Open a file that has no contract yet: yield the number of its rows, the metadata of its geometries and its
    rows. Raise Unfit or NoShapefile, or an error of the library, if it cannot be read."""
    pyogrio = library(contract.format)
    with open_body() as file:
        body = file.read(MOST + 1)
    given = _given(pyogrio, body, contract)
    with pyogrio.raw.open_arrow(given.body, layer=given.layer, use_pyarrow=True, batch_size=BATCH) as (_, reader):
        schema, about = _schema(reader.schema)
        yield given.rows, None if about is None else _geo(about), _batches(reader, schema)


def _given(pyogrio: Any, body: bytes, contract: DataContract) -> _Given:
    form = contract.format
    if len(body) > MOST:
        raise Unfit(f"{form}.limits", f"it is larger than {MOST >> 30} GiB, and would be read from memory")
    if form == "shapefile":
        shapes = Shapefile(io.BytesIO(body))
        return _Given(shapes.packed(), None, shapes.rows)
    if form == "flatgeobuf":
        if not body.startswith(_FLATGEOBUF):
            raise Unfit("flatgeobuf.unreadable", "it does not begin as FlatGeobuf does")
        return _Given(body, None, _features(pyogrio, body))
    _check_header(body)
    check_database(body)
    layer = _layer(pyogrio, body, contract.layer or "")
    table = _quoted(layer, '"')
    counted = pyogrio.raw.read(body, sql=f"SELECT COUNT(*) AS n FROM {table}")[3]  # noqa: S608
    return _Given(body, layer, int(counted[0][0]))


def _features(pyogrio: Any, body: bytes) -> int:
    """Return how many features the file contains, which must match its header if the header gives a number, and which
    its index must lead to if it has one.

    The library reads as many as the header says, cuts that number to 32 bits, and leaves the rest unread.
    """
    try:
        said, node = _header(body)
        index = 12 + struct.unpack_from("<I", body, 8)[0]
        first = at = index + _index_bytes(said, node)
    except struct.error:
        raise Unfit("flatgeobuf.unreadable", "its header cannot be read") from None
    starts, end = [], len(body)
    while at + 4 <= end and (length := int.from_bytes(body[at : at + 4], "little")):
        starts.append(at - first)
        at += 4 + length
    found = len(starts)
    if at != end:
        raise Unfit("flatgeobuf.rows", "its features do not end where it ends, or are not as many as its header says")
    if said not in (0, found):
        raise Unfit("flatgeobuf.rows", f"it says that it has {said:,} rows, and it has {found:,}")
    if first > index and found:
        boxes = pyogrio.read_bounds(body)[1].T.tolist()
        if len(boxes) != found:
            raise Unfit("flatgeobuf.rows", f"it has {found:,} rows, and {len(boxes):,} could be read")
        check_flatgeobuf(body[index:first], max(node, 2), starts, boxes)
    return found


def _header(body: bytes) -> tuple[int, int]:
    """Return the number of features that a FlatGeobuf header gives, 0 if it gives none, and the number of entries in a
    node of its index."""
    table = 12 + struct.unpack_from("<I", body, 12)[0]
    fields = table - struct.unpack_from("<i", body, table)[0]
    known = struct.unpack_from("<H", body, fields)[0]  # bytes: the number is the ninth field, the node the tenth
    number, node = (struct.unpack_from("<H", body, fields + at)[0] if known >= at + 2 else 0 for at in (20, 22))
    said = struct.unpack_from("<Q", body, table + number)[0] if number else 0
    return said, struct.unpack_from("<H", body, table + node)[0] if node else 16


def _index_bytes(features: int, node: int) -> int:
    """Return the length of the index tree between header and features: 40 bytes for each feature and each node."""
    if not features or not node:
        return 0
    nodes = level = features
    while True:
        level = -(-level // max(node, 2))
        nodes += level
        if level == 1:
            return 40 * nodes


def _check_header(body: bytes) -> None:
    if not body.startswith(_SQLITE) or len(body) < 100:
        raise Unfit("geopackage.unreadable", "it does not begin as GeoPackage does")
    if body[68:72] not in _GEOPACKAGE:
        raise Unfit("geopackage.unreadable", "it is a database of SQLite, and says nowhere that it is a GeoPackage")
    if 2 in (body[18], body[19]):
        what = "it was written in WAL mode, so that a part of it may lie in another file: close it where it is written"
        raise Unfit("geopackage.wal", what)
    page = int.from_bytes(body[16:18], "big")
    size = int.from_bytes(body[28:32], "big") * (65536 if page == 1 else page)
    if body[24:28] == body[92:96] and size != len(body):
        raise Unfit("geopackage.unreadable", "it is not as long as it says, as if it were cut off")


def _layer(pyogrio: Any, body: bytes, wanted: str) -> str:
    """Return the layer to read: a table, never a view, because a view is a program and may run for ever."""
    there = [str(name) for name, _ in pyogrio.list_layers(body)]
    shown = ", ".join(printable(name)[:60] for name in there[:10])
    if wanted and wanted not in there:
        raise Unfit("geopackage.layer", f"it has no layer of the name that `layer` says; it has: {shown or 'none'}")
    if not wanted and len(there) != 1:
        what = (
            f"it has {len(there)} layers: say with `layer` which one; it has: {shown}" if there else "it has no layer"
        )
        raise Unfit("geopackage.layer", what)
    layer = wanted or there[0]
    name = _quoted(layer, "'")
    asked = f"SELECT type, sql FROM sqlite_master WHERE lower(name) = lower({name}) AND type <> 'trigger'"  # noqa: S608
    found = list(zip(*pyogrio.raw.read(body, sql=asked)[3], strict=True))
    if len(found) != 1 or found[0][0] != "table" or "virtual" in str(found[0][1])[:40].lower():
        raise Unfit("geopackage.layer", "the layer is a view or virtual, and only plain tables are read")
    return layer


def _quoted(name: str, mark: str) -> str:
    if "\0" in name:
        raise Unfit("geopackage.layer", "the name of the layer holds what no name may")
    return mark + name.replace(mark, mark * 2) + mark


def _judged(
    pyogrio: Any, given: _Given, contract: DataContract, digest: str, out: Outcome, accept: Callable[[bytes], None]
) -> None:
    form = contract.format
    if pyogrio.read_info(given.body, layer=given.layer)["driver"] != _DRIVERS[form]:
        raise Unfit(f"{form}.unreadable", f"it is not {NAMES[form]}")
    with pyogrio.raw.open_arrow(given.body, layer=given.layer, use_pyarrow=True, batch_size=BATCH) as (_, reader):
        schema, about = _schema(reader.schema)
        if not named_apart(schema.names, out):
            return
        geometry = geometry_of(canonical(_geo(about))) if about is not None else None
        if about is not None and geometry is not None and not geometry.crs and form == "shapefile":
            out.add(NOTE, "geo.crs", "it does not say its coordinate system by code; noted only")
        judge = Judge(schema, contract, geometry, out)
        if out.held:
            return
        kept = judge.kept
        made = _Made(accept, judge.schema_after(), GEOMETRY if about is not None else "")
        whole = not judge.drops
        for batch in _batches(reader, schema):
            passed = judge.take(batch)
            whole = whole and passed is batch
            if not out.held:
                made.add(passed.select(kept))
        if given.rows >= 0 and out.rows != given.rows:
            raise Unfit(f"{form}.rows", f"it says that it has {given.rows:,} rows, and {out.rows:,} could be read")
        made.close(about, digest if whole else "")
        out.changed = True
        out.skipped = whole


def _schema(schema: pa.Schema) -> tuple[pa.Schema, dict[str, Any] | None]:
    """Return the schema with plain types and the GeoParquet metadata of the geometries, which are the last column."""
    import pyarrow as pa

    about: dict[str, Any] | None = None
    fields = []
    for field in schema:
        said = field.metadata or {}
        name = field.name
        if said.get(b"ARROW:extension:name") in (b"geoarrow.wkb", b"ogc.wkb"):
            if about is not None:
                raise Unfit("geo.columns", "it has several columns of geometries, and only one is read")
            name = GEOMETRY
            about = {"encoding": "WKB", "crs": _crs(said.get(b"ARROW:extension:metadata")), "geometry_types": []}
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        fields.append(pa.field(name, kind))
    return pa.schema(fields), about


def _crs(said: bytes | None) -> Any:
    try:
        found = decode(said or b"{}", "crs")
    except BadInput:
        return None
    crs = found.get("crs") if type(found) is dict else None
    return crs if type(crs) is dict else None


def _geo(about: dict[str, Any]) -> dict[str, Any]:
    return {"version": "1.0.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: about}}


def _batches(reader: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in reader:
        batch.validate(full=True)
        columns = [arrow.plain(column) for column in batch.columns]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


class _Made:
    """Writes the accepted rows as GeoParquet."""

    def __init__(self, accept: Callable[[bytes], None], schema: pa.Schema, geometry: str) -> None:
        self._accept = accept
        self._size = 0
        self._writer = arrow.ParquetWriter(self._take, schema)
        self._geometry = geometry
        self._box: Box | None = None
        self._kinds: set[str] = set()

    def _take(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > MOST_MADE:
            raise Unfit("rows.limits", f"what passes is larger than {MOST_MADE >> 30} GiB")
        self._accept(body)

    def add(self, batch: pa.RecordBatch) -> None:
        if self._geometry:
            for body in batch.column(self._geometry).to_pylist():
                if body is not None:
                    self._kinds.add(kind_of(body))
                    if (box := box_of(body)) is not None:
                        self._box = box if self._box is None else joined(self._box, box)
        self._writer.add(batch)

    def close(self, about: dict[str, Any] | None, all_of: str) -> None:
        said = {ALL_OF: all_of.encode()} if all_of else {}
        if about is not None:
            about = {**about, "geometry_types": sorted(self._kinds)}
            if self._box is not None:
                about["bbox"] = list(self._box)
            said[GEO] = canonical(_geo(about))
        self._writer.close(said)
