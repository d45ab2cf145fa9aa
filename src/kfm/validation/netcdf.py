"""Reads NetCDF, classic and HDF5, with the library of its makers. Other files that it names cannot be opened: it runs
in a sandbox.

Places and times follow the CF conventions: coordinate variables in degrees, and time since a moment.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from kfm.validation.grid_reader import (
    MOST_VARIABLES,
    Grid,
    NoGrid,
    Variable,
    checked_block,
    libraries,
    slabs,
    turned,
)

_MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05", b"\x89HDF\r\n\x1a\n")
EAST = ("degrees_east", "degree_east", "degree_E", "degrees_E", "degreeE", "degreesE")
NORTH = ("degrees_north", "degree_north", "degree_N", "degrees_N", "degreeN", "degreesN")
MOST_GROUPS = 1000
MOST_TIMES = 1 << 20
MOST_AXIS = 1 << 24  # how many values a coordinate may have


def netcdf(body: BinaryIO) -> Grid:
    (library,) = libraries("NetCDF", "netCDF4")
    body.seek(0)
    if not body.read(8).startswith(_MAGIC):
        raise NoGrid
    # From memory: HDF5 opens files by name, and this file has none.
    file = library.Dataset("memory", "r", memory=mmap.mmap(body.fileno(), 0, access=mmap.ACCESS_READ))
    found = list(_variables(file, "", [0]))
    axes = {variable.name: (variable, raw) for variable, raw in found}
    east, north = _axis(axes, "standard_name", "longitude", EAST), _axis(axes, "standard_name", "latitude", NORTH)
    grid_x, grid_y = (_axis(axes, "standard_name", f"projection_{axis}_coordinate", ()) for axis in "xy")
    crs = _code([raw for _, raw in found])
    box = bounds = None
    if east is not None and north is not None:
        box = _box(east, north)
    if grid_x is not None and grid_y is not None:
        bounds = _box(grid_x, grid_y)
    elif box is not None:
        crs, bounds = crs or "OGC:CRS84", box
    return Grid([variable for variable, _ in found], crs, bounds, turned(box) if box else None, _times(found))


def _variables(group: Any, path: str, seen: list[int]) -> Iterator[tuple[Variable, Any]]:
    seen[0] += 1
    if seen[0] > MOST_GROUPS or len(group.variables) > MOST_VARIABLES:
        raise NoGrid("it holds more groups or variables than are looked at", "grid.size")
    for name, raw in group.variables.items():
        raw.set_auto_scale(False)
        shape = tuple(int(size) for size in raw.shape)
        kind = raw.dtype
        dtype = "text" if kind is str else str(getattr(kind, "name", kind))
        yield (
            Variable(
                name=path + name,
                dtype=dtype,
                units=_text(raw, "units"),
                dimensions=tuple(raw.dimensions),
                shape=shape,
                nodata=_nodata(raw),
                values=lambda raw=raw, shape=shape: _values(raw, shape),  # type: ignore[misc]
            ),
            raw,
        )
    for name, inner in group.groups.items():
        yield from _variables(inner, f"{path}{name}/", seen)


def _values(raw: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    """Return the values of a variable in their units: packed values are unpacked."""
    raw.set_auto_maskandscale(True)
    chunks = raw.chunking()
    size = getattr(raw.dtype, "itemsize", 16)
    if isinstance(chunks, list):
        for each in chunks:
            size *= int(each)
        checked_block(size)
    for piece in slabs(shape):
        yield raw[piece] if piece else raw[...]


def _text(raw: Any, name: str) -> str:
    found = raw.getncattr(name) if name in raw.ncattrs() else ""
    return found if isinstance(found, str) else ""


def _nodata(raw: Any) -> float | None:
    for name in ("_FillValue", "missing_value"):
        if name in raw.ncattrs():
            try:
                return float(raw.getncattr(name))
            except (TypeError, ValueError):
                return None
    return None


def _axis(axes: dict[str, tuple[Variable, Any]], attribute: str, value: str, units: tuple[str, ...]) -> Any:
    for variable, raw in axes.values():
        if "/" not in variable.name and (_text(raw, attribute) == value or variable.units in units):
            return raw
    return None


def _box(x: Any, y: Any) -> tuple[float, float, float, float] | None:
    across, along = reach(x), reach(y)
    return None if across is None or along is None else (across[0], along[0], across[1], along[1])


def reach(array: Any) -> tuple[float, float] | None:
    """Return the least and the largest coordinate of an array."""
    import numpy as np

    if not array.size or array.size > MOST_AXIS:
        return None
    values: Any = np.ma.masked_invalid(np.ma.asarray(array[...], dtype="float64")).compressed()
    return (float(values.min()), float(values.max())) if values.size else None


def _code(raws: list[Any]) -> str:
    """Return the code of the grid mapping that a variable names, if there is one."""
    for raw in raws:
        if "grid_mapping_name" in raw.ncattrs():
            for name in ("epsg_code", "spatial_epsg"):
                text = str(raw.getncattr(name)) if name in raw.ncattrs() else ""
                digits = text.upper().removeprefix("EPSG:")
                if digits.isdigit() and len(digits) < 8:
                    return f"EPSG:{digits}"
    return ""


def _times(found: list[tuple[Variable, Any]]) -> tuple[str, str] | None:
    """Return the interval of the time coordinate, not that of the times when a forecast was made."""
    for variable, raw in found:
        if " since " in variable.units and _is_time(variable, raw) and 0 < raw.size <= MOST_TIMES:
            return interval(raw[...], variable.units, _text(raw, "calendar") or "standard")
    return None


def interval(values: Any, units: str, calendar: str) -> tuple[str, str] | None:
    """Return the first and the last moment of a time coordinate; None for calendars other than the common one."""
    unit, _, since = units.partition(" since ")
    seconds = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}.get(unit.strip().lower().removesuffix("s"))
    if seconds is None or calendar.lower() not in ("standard", "gregorian", "proleptic_gregorian"):
        return None
    try:
        start = datetime.fromisoformat(_padded(since.strip().removesuffix("UTC").strip()))
        start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
        ends = [start + timedelta(seconds=float(end) * seconds) for end in (values.min(), values.max())]
    except (ValueError, OverflowError):
        return None
    first, last = (end.strftime("%Y-%m-%dT%H:%M:%SZ") for end in ends)
    return (first, last) if ends[0].year >= 1583 else None


def _padded(text: str) -> str:
    """Return a date such as 1-1-1 0:0:0 as ISO 8601 writes it, with leading zeros."""
    day, _, clock = text.replace("T", " ").partition(" ")
    parts = day.split("-")
    if len(parts) == 3:
        day = f"{parts[0]:0>4}-{parts[1]:0>2}-{parts[2]:0>2}"
    clock = ":".join(f"{part:0>2}" if part.isdigit() else part for part in clock.split(":")) if clock else ""
    return f"{day} {clock}".strip()


def _is_time(variable: Variable, raw: Any) -> bool:
    named = _text(raw, "standard_name")
    return named == "time" or (not named and variable.dimensions == (variable.name,)) or _text(raw, "axis") == "T"
