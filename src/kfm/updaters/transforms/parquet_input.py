"""Reads a Parquet source, or the accepted rows of a vector source, as columns or as records; both engines see the same
values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kfm.errors import BadInput
from kfm.model.format_rules import DEGREES
from kfm.model.updater import Reader
from kfm.parsing import arrow
from kfm.parsing.parquet_footer import MOST_FOOTER, footer_of
from kfm.parsing.strict_json import decode
from kfm.parsing.wkb import as_geojson

if TYPE_CHECKING:
    import pyarrow as pa

GEO = b"geo"
GEOMETRY = "geometry"
HIDDEN = "\0row"  # the last column: the number of a row in its source, from 1


class Opened:
    """An opened Parquet source that passed its contract."""

    def __init__(self, read: Reader, source: str) -> None:
        pa = arrow.library("Parquet")
        import pyarrow.parquet as pq

        self._scratch = read.scratch()
        with read.open(source) as body:
            while piece := body.read(1 << 20):
                self._scratch.write(piece)
        self._scratch.seek(0)
        self._file = pq.ParquetFile(pa.PythonFile(self._scratch, mode="r"), buffer_size=1 << 20, pre_buffer=False)
        schema = self._file.schema_arrow
        said = dict(schema.metadata or {})
        if GEO not in said and GEO in (self._file.metadata.metadata or {}):  # added when all rows had been seen
            said[GEO] = self._file.metadata.metadata[GEO]
        self.schema = pa.schema([(field.name, _plain_type(field.type)) for field in schema], said or None)

    def close(self) -> None:
        self._scratch.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        first = 1
        try:
            for batch in self._file.iter_batches(batch_size=arrow.BATCH):
                arrays = [_alike(arrow.plain(column)) for column in batch.columns]
                numbers = arrow.numbers(batch.num_rows, first)
                first += batch.num_rows
                yield pa.RecordBatch.from_arrays([*arrays, numbers], [*batch.schema.names, HIDDEN])
        finally:
            self._scratch.close()

    def said_by_us(self) -> pa.Schema:
        """Return the schema of a vector source's accepted rows with only the metadata about geometries, which KFM
        wrote."""
        said = {key: value for key, value in (self.schema.metadata or {}).items() if key == GEO}
        return self.schema.with_metadata(said)

    def rows(self, shapes: bool = False) -> Iterator[dict[str, Any]]:
        """Yield records of JSON. A value without a plain form is null, and `check_plain` refuses to write it. With
        `shapes`, geometries are GeoJSON."""
        for batch in self.batches():
            names = batch.schema.names[:-1]
            found = [values(column) for column in batch.columns[:-1]]
            if shapes and GEOMETRY in names:
                bodies = batch.column(names.index(GEOMETRY)).to_pylist()
                found[names.index(GEOMETRY)] = [None if body is None else as_geojson(body) for body in bodies]
            for row in zip(*found, strict=True) if names else iter([()] * batch.num_rows):
                yield dict(zip(names, row, strict=True))


def schema_of(read: Reader, source: str) -> pa.Schema:
    """Return the schema of a Parquet source that passed its contract."""
    opened = Opened(read, source)
    opened.close()
    return opened.schema


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _alike(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(column.type):
        return column
    finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    return pc.add(finite, pa.scalar(0.0, pa.float64()).cast(column.type))  # -0.0 and 0.0 make 0.0


def check_degrees(schema: pa.Schema, output: str) -> None:
    """Raise BadInput if GeoJSON, which is in degrees, is to be written from other coordinates: no step converts
    them."""
    crs, _ = _said((schema.metadata or {}).get(GEO))
    if crs not in DEGREES:
        raise BadInput(
            f"output {output}: the coordinate system of the source is not one of GeoJSON, which is in degrees",
            hint=f"write parquet, or publish the file as it came; GeoJSON is made of {', '.join(DEGREES)}",
        )


def box_of_accepted(read: Reader, source: str) -> list[float] | None:
    """Return the bounding box of a source if it is in degrees; else None."""
    tail = b""
    with read.open(source) as body:
        while piece := body.read(MOST_FOOTER):
            tail = (tail + piece)[-2 * MOST_FOOTER :]
    footer = footer_of(tail)
    crs, box = _said(footer.metadata.get(GEO) if footer is not None else None)
    return box if crs in DEGREES else None


def _said(geo: bytes | None) -> tuple[str, list[float] | None]:
    """Return the code of the coordinate system and the box from the metadata that KFM's writer wrote."""
    if geo is None:
        return "", None
    about = decode(geo, "geo")["columns"][GEOMETRY]
    known = (about["crs"] or {}).get("id", {})
    return f"{known.get('authority', '')}:{known.get('code', '')}".upper(), about.get("bbox")


def values(column: pa.Array) -> list[Any]:
    try:
        return arrow.values(column)
    except arrow.OutOfRange:
        raise BadInput(
            "a date lies before the year 1 or after 9999, and no step can read it",
            hint="a contract with a column of the type date or datetime quarantines such rows",
        ) from None
