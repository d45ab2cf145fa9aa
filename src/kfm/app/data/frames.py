"""Converts data to a frame of Polars, pandas or GeoPandas, or to an xarray dataset, if that library is installed.

A text column becomes numbers only if nothing is lost: `007` stays text, and so does a number that 64 bits cannot hold.
Only an empty cell counts as missing. `read` returns the bytes of an entry, from this installation or from a server.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from kfm.app.data import xarray_grids
from kfm.app.data.version_reader import (
    GEOJSON,
    NETCDF,
    PARQUET,
    TABLES,
    Read,
    Selection,
    columns_by,
    kind_of,
    library,
    only,
    records_by,
    understood,
)
from kfm.errors import BadInput
from kfm.model.canonical import canonical

EXTRA = "frames"
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?")
_NOT_A_FRAME = "the rows of {} do not make one frame"


def polars(read: Read, found: Selection, *, text: bool) -> Any:
    """Return the rows as a Polars frame. With `text`, table columns stay text."""
    pl = library("polars", EXTRA)
    if kind_of(found) == PARQUET and found.entries:
        bodies = [io.BytesIO(read(found, entry)) for entry in found.entries]
        return understood(
            lambda: pl.concat([pl.read_parquet(body) for body in bodies]), _NOT_A_FRAME.format(found.name)
        )
    columns = _columns(read, found, text=text)
    return understood(
        lambda: pl.DataFrame({name: pl.Series(name, list(column), strict=True) for name, column in columns.items()}),
        _NOT_A_FRAME.format(found.name),
    )


def pandas(read: Read, found: Selection, *, text: bool) -> Any:
    """Return the rows as a pandas frame. With `text`, table columns stay text."""
    pd = library("pandas", EXTRA)
    if kind_of(found) == PARQUET and found.entries:
        library("pyarrow", EXTRA)
        bodies = [io.BytesIO(read(found, entry)) for entry in found.entries]
        return understood(
            lambda: pd.concat([pd.read_parquet(body) for body in bodies], ignore_index=True),
            _NOT_A_FRAME.format(found.name),
        )
    columns = _columns(read, found, text=text)
    return understood(lambda: pd.DataFrame(_for_pandas(pd, columns)), _NOT_A_FRAME.format(found.name))


def _for_pandas(pd: Any, columns: dict[str, Sequence[Any]]) -> dict[str, Any]:
    """Return pandas columns. Integers with missing values stay integers, because as floats large ones would be
    rounded."""
    made = {}
    for name, column in columns.items():
        whole = any(type(each) is int for each in column) and all(each is None or type(each) is int for each in column)
        made[name] = pd.Series(column, dtype="Int64" if whole and None in column else None)
    return made


def geopandas(read: Read, found: Selection) -> Any:
    """Return GeoJSON or GeoParquet as a GeoPandas frame. BadInput for other formats."""
    gpd = library("geopandas", EXTRA)
    kind = kind_of(found)
    if kind == PARQUET:
        body = io.BytesIO(read(found, only(found)))
        return understood(lambda: gpd.read_parquet(body), f"{found.name} cannot be read as GeoParquet")
    if kind != GEOJSON:
        raise BadInput(f"{found.name} is {kind or 'of no known type'}, not GeoJSON", hint="read it as a plain frame")
    rows = records_by(read, found)
    shape = library("shapely.geometry", EXTRA).shape

    def make() -> Any:
        shapes = [shape(row["geometry"]) if row.get("geometry") else None for row in rows]
        plain = [{name: value for name, value in row.items() if name != "geometry"} for row in rows]
        return gpd.GeoDataFrame(plain, geometry=shapes, crs="EPSG:4326")  # the only reference system of GeoJSON

    return understood(make, _NOT_A_FRAME.format(found.name))


def arrow(read: Read, found: Selection, *, text: bool) -> Any:
    """Return the rows as an Arrow table. With `text`, table columns stay text."""
    pa = library("pyarrow", "parquet")
    if kind_of(found) == PARQUET and found.entries:
        parquet = library("pyarrow.parquet", "parquet")
        bodies = [io.BytesIO(read(found, entry)) for entry in found.entries]
        return understood(
            lambda: pa.concat_tables([parquet.read_table(body) for body in bodies]), _NOT_A_FRAME.format(found.name)
        )
    columns = _columns(read, found, text=text)
    return understood(
        lambda: pa.table({name: pa.array(list(column)) for name, column in columns.items()}),
        _NOT_A_FRAME.format(found.name),
    )


def xarray(read: Read, found: Selection) -> Any:
    """Return a grid, or the rows of a table, as an xarray dataset."""
    xr = library("xarray", EXTRA)
    kind = kind_of(found)
    if kind in NETCDF or kind in xarray_grids.RASTERS or kind == xarray_grids.ZARR:
        body = read(found, only(found))
        if kind in NETCDF:
            return understood(lambda: xarray_grids.of_netcdf(xr, body), f"{found.name} cannot be read as NetCDF")
        if kind == xarray_grids.ZARR:
            return understood(lambda: xarray_grids.of_zarr(xr, body), f"{found.name} cannot be read as Zarr")
        driver = xarray_grids.RASTERS[kind]
        return understood(lambda: xarray_grids.of_raster(xr, body, driver), f"{found.name} cannot be read as {driver}")
    frame = pandas(read, found, text=False)
    return understood(lambda: xr.Dataset.from_dataframe(frame), _NOT_A_FRAME.format(found.name))


def _columns(read: Read, found: Selection, *, text: bool) -> dict[str, Sequence[Any]]:
    columns = columns_by(read, found)
    if kind_of(found) in TABLES:
        return {name: typed(column, text=text) for name, column in columns.items()}
    return {name: _geometries(column) if name == "geometry" else _alike(column) for name, column in columns.items()}


def _alike(column: Sequence[Any]) -> Sequence[Any]:
    """Return a JSON column with integers as floats if it mixes both."""
    kinds = {type(each) for each in column if each is not None}
    return [each if each is None else float(each) for each in column] if kinds == {int, float} else column


def typed(column: Sequence[str], *, text: bool = False) -> Sequence[Any]:
    """Return a text column as numbers if nothing is lost by it; with `text` it stays text. An empty cell is None."""
    distinct = set(column) - {""}
    read: Any = str
    if distinct and not text:
        if all(map(_INTEGER.fullmatch, distinct)):
            read = int
        elif all(_NUMBER.fullmatch(each) and _is_exact(each) for each in distinct):
            read = float
    return [read(each) if each else None for each in column]


def _is_exact(number: str) -> bool:
    """Return whether the shortest text of this number as a float has the same value: longer ones lose digits."""
    from decimal import Decimal

    return len(number) < 16 or Decimal(repr(float(number))) == Decimal(number)


def _geometries(column: Sequence[Any]) -> Sequence[Any]:
    """Return geometries as JSON text, because a column of a plain frame cannot mix points and polygons."""
    return [canonical(each).decode() if isinstance(each, dict) else each for each in column]
