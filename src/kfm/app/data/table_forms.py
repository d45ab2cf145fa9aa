"""Writes the rows of a version as CSV, GeoJSON, NDJSON or Parquet, with the values that the version has.

A number stays a number and a text stays a text. Only an empty cell of a table counts as missing. What a form cannot
hold is written as text: objects and lists of JSON as JSON, bytes in base64, times as in ISO 8601.
"""

from __future__ import annotations

import io
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kfm.app.data import frames
from kfm.app.data.row_formats import Form
from kfm.app.data.version_reader import (
    DOCUMENTS,
    LINES,
    PARQUET,
    TABLES,
    Read,
    Selection,
    columns_by,
    features_by,
    kind_of,
    library,
    understood,
)
from kfm.app.stewards.protected_tables import columns_in, flat
from kfm.delivery.page_samples import coordinate_columns
from kfm.errors import BadInput, KfmError
from kfm.parsing.wkb import NoGeometry, as_geojson, of_geojson
from kfm.parsing.wkb import kind_of as wkb_kind

if TYPE_CHECKING:
    from kfm.app.stewards.protected_tables import Columns

MOST_CELLS = 2_000_000  # of one table
MOST_IN_PARQUET = 64 << 20  # bytes of Parquet files once they are unpacked
_ARROW = "parquet"  # the extra that writes Parquet
_EXACT = 2**53  # up to here each whole number is one float
_WGS84 = ("OGC:CRS84", "OGC:CRS84H", "EPSG:4326", "EPSG:4979")  # what GeoJSON is in
_json = msgspec.json.Encoder(decimal_format="number")


class Table(NamedTuple):
    """Rows that were read once, to be written in any form that can hold them."""

    kind: str  # the media type that they were read from
    columns: Columns  # as they are stored: cells of a table are texts
    values: Columns  # with numbers where that loses nothing
    records: Sequence[dict[str, Any]] | None  # of JSON: a key that a record lacks is not null
    features: Sequence[dict[str, Any]] | None  # if each record is a feature
    places: Sequence[dict[str, Any] | None] | None  # the geometry of each row; None: the rows have no places
    place_column: str  # the column that holds them; empty: they come from two columns of coordinates
    found: Selection
    read: Read

    @property
    def rows(self) -> int:
        return max(map(len, self.columns.values()), default=0)


def table_of(read: Read, found: Selection, *, with_coordinates: bool) -> Table:
    """Return the rows of a selection. Without `with_coordinates`, columns of coordinates do not become places. BadInput
    if it has no rows that can be read, or too many."""
    kind, records, features = kind_of(found), None, None
    if kind == PARQUET:
        _check_parquet(read, found)
    if kind in LINES | DOCUMENTS:
        objects = features_by(read, found)
        records = list(map(flat, objects))
        features = objects if objects and all(one.get("type") == "Feature" for one in objects) else None
        columns = columns_in(records)
    else:
        columns = columns_by(read, found)
    if sum(map(len, columns.values())) > MOST_CELLS:
        raise BadInput(f"{found.name} has more than {MOST_CELLS:,} values", hint="read its files")
    if kind in TABLES:
        values: Columns = {name: frames.typed(column) for name, column in columns.items()}
    elif kind == PARQUET:
        values = {name: list(map(_plain, column)) for name, column in columns.items()}
    else:
        values = columns
    made = Table(kind, columns, values, records, features, None, "", found, read)
    if kind == PARQUET:
        return _with_wkb(made)
    if features is not None:
        places = [one.get("geometry") for one in features]
        return made._replace(places=places, place_column="geometry") if _are_places(places) else made
    return _with_coordinates(made) if with_coordinates else made


def forms_of(table: Table) -> tuple[Form, ...]:
    """Return the forms that can hold these rows."""
    found: list[Form] = ["csv"] if table.columns else []
    if table.places is not None:
        found.append("geojson")
    found.append("ndjson")
    if table.columns and _can_be_parquet(table):
        found.append("parquet")
    return tuple(found)


def written(table: Table, form: Form) -> bytes:
    """Return the rows in a form that can hold them. BadInput if it turns out that it cannot."""
    writers: dict[Form, Callable[[Table], bytes]] = {
        "csv": _csv,
        "geojson": _geojson,
        "ndjson": _ndjson,
        "parquet": _parquet,
    }
    return writers[form](table)


# -- places


def _with_coordinates(table: Table) -> Table:
    """Return the table with a point for each row that has a longitude and a latitude."""
    names = coordinate_columns(table.values)
    if names is None:
        return table
    latitudes, longitudes = (table.values[name] for name in names)
    places = [_point(east, north) for east, north in zip(longitudes, latitudes, strict=True)]
    return table if not any(places) else table._replace(places=places)


def _point(east: Any, north: Any) -> dict[str, Any] | None:
    if any(isinstance(each, bool) or not isinstance(each, int | float) for each in (east, north)):
        return None
    if not (-180 <= east <= 180 and -90 <= north <= 90):
        return None
    return {"type": "Point", "coordinates": [east, north]}


def _are_places(places: Iterable[Any]) -> bool:
    try:
        return all(one is None or of_geojson(one) for one in places)
    except NoGeometry:
        return False


def _with_wkb(table: Table) -> Table:
    """Return a table of Parquet with the geometries of its primary column, if they are in degrees."""
    from kfm.validation.geoparquet import GEO, geometry_of

    schemas = [one.schema_arrow.metadata or {} for one in _parquet_files(table.read, table.found)]
    try:
        said = [geometry_of(one.get(GEO)) for one in schemas]
        first = said[0] if said else None
        alike = first is not None and all(
            each is not None and (each.column, each.crs, each.encoding) == (first.column, first.crs, first.encoding)
            for each in said
        )
        if first is None or not alike or first.encoding != "WKB" or first.crs.upper() not in _WGS84:
            return table
        bodies = table.columns.get(first.column, ())
        places = [None if body is None else as_geojson(body) for body in bodies]
    except (ValueError, TypeError):
        return table
    return table._replace(places=places, place_column=first.column)


# -- CSV


def _csv(table: Table) -> bytes:
    names = list(table.columns)
    stored = table.kind in TABLES
    columns = [[_cell(value, stored) for value in _for_text(table, name)] for name in names]
    alone = len(names) == 1  # an empty line would be no row
    lines = [",".join(_quoted(name) for name in names)]
    lines += ['""' if alone and not row[0] else ",".join(row) for row in zip(*columns, strict=True)]
    return ("\n".join(lines) + "\n").encode()


def _for_text(table: Table, name: str) -> Iterable[Any]:
    if table.kind == PARQUET and name == table.place_column and table.places is not None:
        return table.places
    return table.columns[name] if table.kind in TABLES else table.values[name]


def _cell(value: Any, stored: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _quoted(value) if value or stored else '""'  # an empty text is not a missing value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int | float | Decimal):
        return str(value)
    return _quoted(_text_of(value))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text


# -- JSON


def _ndjson(table: Table) -> bytes:
    return b"".join(_json.encode(row) + b"\n" for row in _records(table))


def _records(table: Table) -> Iterable[dict[str, Any]]:
    if table.records is not None:
        return table.records
    values = dict(table.values)
    if table.kind == PARQUET and table.place_column and table.places is not None:
        values[table.place_column] = table.places
    return (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True))


def _geojson(table: Table) -> bytes:
    features = b",\n".join(map(_json.encode, _features(table)))
    return b'{"type":"FeatureCollection","features":[\n' + features + b"\n]}\n"


def _features(table: Table) -> Iterator[dict[str, Any]]:
    if table.features is not None:
        yield from table.features
        return
    for place, record in zip(table.places or (), _records(table), strict=True):
        properties = {name: value for name, value in record.items() if name != table.place_column}
        yield {"type": "Feature", "geometry": place, "properties": properties}


# -- Parquet


def _parquet_files(read: Read, found: Selection) -> Iterator[Any]:
    parquet = library("pyarrow.parquet", _ARROW)
    for entry in found.entries:
        body = io.BytesIO(read(found, entry))
        yield understood(partial(parquet.ParquetFile, body), f"{found.name} cannot be read as Parquet")


def _check_parquet(read: Read, found: Selection) -> None:
    """Raise BadInput if the files unpack to more than is read at once."""
    size = cells = 0
    for one in _parquet_files(read, found):
        about = one.metadata
        size += sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))
        cells += about.num_rows * about.num_columns
    if size > MOST_IN_PARQUET or cells > MOST_CELLS:
        raise BadInput(f"{found.name} is too large to be read at once", hint="read its files")


def _can_be_parquet(table: Table) -> bool:
    try:
        library("pyarrow.parquet", _ARROW)
        if table.kind == PARQUET:
            return True
        if table.places is not None and not all(one is None or _wkb(one) for one in table.places):
            return False
    except (KfmError, NoGeometry):
        return False
    rest = (column for name, column in table.values.items() if name != table.place_column)
    return all(_arrow_type(column) is not None for column in rest)


def _wkb(place: dict[str, Any]) -> bytes:
    return of_geojson(place, heights=True)


def _arrow_type(column: Sequence[Any]) -> str | None:
    """Return the one type of a column's values; None if no type holds all of them exactly."""
    kinds = {type(each) for each in column if each is not None}
    if kinds <= {dict, list}:
        return "json" if kinds else "string"
    if kinds == {int, float}:
        return "double" if all(abs(each) <= _EXACT for each in column if type(each) is int) else None
    if kinds == {int}:
        return "int64" if all(-(2**63) <= each < 2**63 for each in column if each is not None) else None
    return {bool: "bool", float: "double", str: "string"}.get(kinds.pop()) if len(kinds) == 1 else None


def _parquet(table: Table) -> bytes:
    parquet, pa = library("pyarrow.parquet", _ARROW), library("pyarrow", _ARROW)
    if table.kind == PARQUET:
        made = _joined(table, pa)
    else:
        made = pa.table({name: _arrow_column(pa, table, name) for name in table.values if name != table.place_column})
        if table.places is not None:
            name = table.place_column or _unused("geometry", table.values)
            bodies = [None if one is None else _wkb(one) for one in table.places]
            made = made.append_column(name, pa.array(bodies, pa.binary()))
            kinds = sorted({wkb_kind(body) for body in bodies if body is not None})
            made = made.replace_schema_metadata({"geo": _json.encode(_geo(name, kinds))})
    out = io.BytesIO()
    parquet.write_table(made, out, compression="zstd")
    return out.getvalue()


def _arrow_column(pa: Any, table: Table, name: str) -> Any:
    column = table.values[name]
    kind = _arrow_type(column)
    if kind == "json":
        return pa.array([None if each is None else _text_of(each) for each in column], pa.string())
    if kind == "double":
        column = [None if each is None else float(each) for each in column]
    types = {"bool": pa.bool_(), "double": pa.float64(), "int64": pa.int64(), "string": pa.string()}
    return understood(
        lambda: pa.array(column, types[str(kind)], from_pandas=False), f"{table.found.name} has no columns"
    )


def _joined(table: Table, pa: Any) -> Any:
    """Return the tables of several Parquet files as one. BadInput if their columns differ."""
    tables = [one.read() for one in _parquet_files(table.read, table.found)]
    about = dict(tables[0].schema.metadata or {})
    bare = [each.replace_schema_metadata(None) for each in tables]
    made = understood(lambda: pa.concat_tables(bare), f"the files of {table.found.name} have other columns each")
    if b"geo" in about and table.places is not None:
        kinds = sorted({wkb_kind(body) for body in table.columns[table.place_column] if body is not None})
        geo = msgspec.json.decode(about[b"geo"])
        geo["columns"][table.place_column]["geometry_types"] = kinds
        geo["columns"][table.place_column].pop("bbox", None)  # that of the first file
        about[b"geo"] = msgspec.json.encode(geo)
    return made.replace_schema_metadata(about)


def _geo(name: str, kinds: list[str]) -> dict[str, Any]:
    column = {"encoding": "WKB", "geometry_types": kinds}
    return {"version": "1.1.0", "primary_column": name, "columns": {name: column}}


def _unused(name: str, names: Iterable[str]) -> str:
    taken = {each.casefold() for each in names}
    while name in taken:
        name += "_"
    return name


# -- values


def _plain(value: Any) -> Any:
    """Return a value of Parquet in a type that JSON has, as far as it has one."""
    if value is None or isinstance(value, str | bool | int | Decimal):
        return value
    if isinstance(value, float):
        return value
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, timedelta):
        return str(msgspec.to_builtins(value))
    if isinstance(value, date | time):  # a datetime is a date, too
        return value.isoformat()
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    raise BadInput(f"a value is of the type {type(value).__name__}, which has no text", hint="read the file")


def _text_of(value: Any) -> str:
    return _json.encode(value).decode()
