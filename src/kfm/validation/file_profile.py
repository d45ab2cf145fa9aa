"""Looks at a file that a foreign library reads, before there is a contract for it: the first rows of a table, the
variables of a grid, its coordinate system and its extent. It runs in the sandbox."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.records import DataContract
from kfm.model.source_formats import GRIDS, VECTORS
from kfm.parsing import arrow
from kfm.validation.geoparquet import GEO, Geometry, geometry_of
from kfm.validation.grid_reader import Grid, NoGrid
from kfm.validation.grids import MOST_NAMED, NAMES, UNREADABLE, described, opened_grid, value_range
from kfm.validation.shapefiles import NoShapefile
from kfm.validation.vector_integrity import Unfit
from kfm.validation.vectors import NAMES as VECTOR_NAMES
from kfm.validation.vectors import opened_vector

MOST_ROWS = 2000
MOST_COLUMNS = 300
MOST_TEXT = 300


def profile(open_body: Callable[[], BinaryIO], form: str) -> dict[str, Any]:
    """Return `sample` (values by column), `rows` and `whole` of a table, or `variables` of a grid, each with `crs`,
    `bbox` and `geometry` if the file has them. Raise BadInput if it cannot be read."""
    if form in GRIDS:
        return _of_grid(open_body, form)
    if form in VECTORS:
        return _of_vector(open_body, form)
    return _of_parquet(open_body)


def _of_grid(open_body: Callable[[], BinaryIO], form: str) -> dict[str, Any]:
    try:
        with open_body() as body:
            grid = opened_grid(form, body)
            return {**described(grid), "crs": grid.crs, "variables": list(_variables(grid))}
    except NoGrid as problem:
        raise BadInput(problem.why or f"it cannot be read as {NAMES[form]}", hint="look at the file") from None
    except MemoryError:
        raise
    except UNREADABLE:
        raise BadInput(f"it cannot be read as {NAMES[form]}", hint="look at the file") from None


def _variables(grid: Grid) -> Iterator[dict[str, Any]]:
    for one in grid.variables[:MOST_NAMED]:
        said: dict[str, Any] = {"name": one.name, "dtype": one.dtype, "units": one.units}
        if one.nodata is not None and math.isfinite(one.nodata):
            said["nodata"] = one.nodata
        largest = 0.0
        if one.dtype.startswith("float"):
            for values in one.values():
                for bound in value_range(values):
                    if bound is not None and math.isfinite(bound):
                        largest = max(largest, abs(float(bound)))
        yield {**said, "largest": largest}


def _of_parquet(open_body: Callable[[], BinaryIO]) -> dict[str, Any]:
    pa = arrow.library("Parquet")
    import pyarrow.parquet as pq

    try:
        with open_body() as body:
            file = pq.ParquetFile(pa.PythonFile(body, mode="r"), pre_buffer=False)
            geometry = geometry_of((file.schema_arrow.metadata or {}).get(GEO))
            batches = file.iter_batches(batch_size=MOST_ROWS, use_threads=False)
            first = next(batches, None)
            found = _sampled(first, geometry) if first is not None else {"sample": {}}
            rows = file.metadata.num_rows
            return {**found, "rows": rows, "whole": rows <= MOST_ROWS, **_place(geometry)}
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError):
        raise BadInput("it cannot be read as Parquet", hint="look at the file") from None


def _of_vector(open_body: Callable[[], BinaryIO], form: str) -> dict[str, Any]:
    import pyarrow as pa

    contract = DataContract(format=form)  # type: ignore[arg-type]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with opened_vector(open_body, contract) as (rows, about, batches):
                geometry = geometry_of(canonical(about)) if about is not None else None
                first = next(batches, None)
                found = _sampled(first, geometry) if first is not None else {"sample": {}}
                kinds = sorted(set(found.pop("geometry", [])))
                whole = first is not None and next(batches, None) is None and first.num_rows <= MOST_ROWS
                return {**found, "rows": rows, "whole": whole, **_place(geometry), "geometry": kinds}
    except MemoryError:
        raise
    except Unfit as flaw:
        raise BadInput(flaw.message, hint="correct the file, or name the layer in kfm.yml") from None
    except NoShapefile as flaw:
        raise BadInput(str(flaw), hint="put its parts into one zip") from None
    except (pa.ArrowException, RuntimeError, OSError, LookupError, ValueError):
        raise BadInput(f"it cannot be read as {VECTOR_NAMES[form]}", hint="look at the file") from None


def _sampled(batch: Any, geometry: Geometry | None) -> dict[str, Any]:
    """Return the first rows by column. A geometry has no plain value: its kinds and its box are returned instead."""
    from kfm.parsing.wkb import Box, box_of, joined, kind_of

    batch = batch.slice(0, MOST_ROWS)
    sample: dict[str, list[Any]] = {}
    found: dict[str, Any] = {"sample": sample}
    for name in batch.schema.names[:MOST_COLUMNS]:
        column = batch.column(batch.schema.get_field_index(name))
        if geometry is not None and name == geometry.column:
            bodies = [body for body in column.to_pylist() if body is not None]
            found["geometry"] = [kind_of(body) for body in bodies]
            box: Box | None = None
            for body in bodies:
                if (one := box_of(body)) is not None:
                    box = one if box is None else joined(box, one)
            if box is not None:
                found["bbox"] = list(box)
            continue
        plain = arrow.plain(column)
        if arrow.family(plain.type) in ("other", "null"):
            sample[name] = [[]]  # a value that has no plain type
            continue
        sample[name] = [_short(value) for value in arrow.values(plain)]
        found.setdefault("families", {})[name] = arrow.family(plain.type)
    return found


def _short(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value[:MOST_TEXT] if isinstance(value, str) else value


def _place(geometry: Geometry | None) -> dict[str, Any]:
    return {"crs": geometry.crs, "places": geometry.column} if geometry is not None else {}
