"""Checks grids against what their source expects: variables, shapes, units, values, place and time.

- A reader of a format returns a `Grid`: its description, and its values in slabs.
- All values are read, also of variables that the contract does not name, so that data that passed can be read. A grid
  of more than `MOST_VALUES` is quarantined before that.
- A grid is published whole or not at all: whatever does not fit quarantines the source, except that a variable with
  `mode: evolve` only gets a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, BinaryIO
from zipfile import BadZipFile

from kfm.model.format_rules import LONGITUDE_FIRST, expected_of, same_crs
from kfm.model.records import DataContract
from kfm.model.transform_config import ExpectedVariable
from kfm.parsing.characters import is_printable
from kfm.validation.findings import NOTE, SOURCE, Outcome
from kfm.validation.grid_reader import MOST_VALUES, MOST_VARIABLES, Grid, NoGrid, Variable, count_of
from kfm.validation.stac_rules import moment

MOST_NAMED = 200  # variables that are described
NAMES = {"geotiff": "GeoTIFF", "grib2": "GRIB2", "netcdf": "NetCDF", "zarr": "Zarr"}

# What the readers of grids raise at bytes that they cannot read.
UNREADABLE = (
    KeyError, IndexError, TypeError, AttributeError, ArithmeticError, RuntimeError, OSError, ValueError, BadZipFile,
)  # fmt: skip


def inspect_grid(open_body: Callable[[], BinaryIO], contract: DataContract, out: Outcome) -> dict[str, Any]:
    """Check a grid against its contract, and return its description in the terms of STAC."""
    form = contract.format
    try:
        with open_body() as body:
            grid = opened_grid(form, body)
            _check(grid, contract, out)
            if out.held:
                return {}
            _scan(grid, contract, out)
            return {} if out.held else described(grid)
    except NoGrid as problem:
        why = problem.why or f"it cannot be read as {NAMES[form]}"
        out.add(SOURCE, problem.rule or f"{form}.unreadable", f"{why}; the source is held")
    except MemoryError:
        raise
    except UNREADABLE:
        out.add(SOURCE, f"{form}.unreadable", f"it cannot be read as {NAMES[form]}; the source is held")
    return {}


def describe(open_body: Callable[[], BinaryIO], form: str) -> dict[str, Any]:
    """Return the STAC description of a grid that was checked before, and its variables, without reading its values."""
    try:
        with open_body() as body:
            grid = opened_grid(form, body)
            return {**described(grid), "variables": _variables(grid)}
    except (NoGrid, *UNREADABLE):
        return {}


def described(grid: Grid) -> dict[str, Any]:
    """Return where and when a grid lies, in the terms of STAC."""
    from kfm.validation.geojson import bbox_flaw
    from kfm.validation.output_description import is_datetime

    found: dict[str, Any] = {}
    if grid.box is not None:
        box = [round(float(each), 9) for each in grid.box]
        if all(each - each == 0 for each in box) and bbox_flaw({"bbox": box}) is None and box[1] <= box[3]:
            found["bbox"] = box
    if grid.times is not None:
        first, last = grid.times
        when = first if first == last else f"{first}/{last}"
        if is_datetime(when):
            found["datetime"] = when
    return found


def _variables(grid: Grid) -> list[dict[str, str]]:
    named = [one for one in grid.variables[:MOST_NAMED] if is_printable(one.name) and len(one.name) <= 200]
    return [{"name": one.name, "type": one.dtype, "units": _shown_units(one)} for one in named]


def _shown_units(variable: Variable) -> str:
    return variable.units if is_printable(variable.units) and len(variable.units) <= 100 else ""


def opened_grid(form: str, body: BinaryIO) -> Grid:
    """Return the grid in a file. Raise NoGrid, or one of UNREADABLE, if there is none."""
    if form == "geotiff":
        from kfm.validation.rasters import geotiff

        return geotiff(body)
    if form == "grib2":
        from kfm.validation.rasters import grib2

        return grib2(body)
    if form == "netcdf":
        from kfm.validation.netcdf import netcdf

        return netcdf(body)
    from kfm.validation.zarr import zarr

    return zarr(body)


def _check(grid: Grid, contract: DataContract, out: Outcome) -> None:
    expect = expected_of(contract)
    if not grid.variables:
        out.add(SOURCE, "grid.variable", "there is nothing in it; the source is held")
    if len(grid.variables) > MOST_VARIABLES:
        out.add(SOURCE, "grid.size", f"it holds more than {MOST_VARIABLES:,} variables; the source is held")
        return
    count = sum(count_of(variable.shape) for variable in grid.variables)
    if count > MOST_VALUES:
        out.add(SOURCE, "grid.size", f"it holds more than {MOST_VALUES:,} values; the source is held")
        return
    bands = expect.bands or 0
    if bands and len(grid.variables) != bands:
        what = f"it has {len(grid.variables):,} variables, and {bands:,} are expected"
        out.add(SOURCE, "grid.bands", f"{what}; the source is held")
    if expect.crs and not same_crs(grid.crs, expect.crs):
        what = f"its coordinate system is {grid.crs}" if grid.crs else "it does not say its system by code"
        out.add(SOURCE, "geo.crs", f"{what}, and {expect.crs} is expected; the source is held")
    if expect.bbox:
        _check_place(grid, expect.bbox, out)
    if expect.time:
        _check_time(grid, expect.time, out)
    for said in expect.variables or ():
        found = [variable for variable in grid.variables if variable.name == said.name]
        if not found:
            grave = said.required and said.mode != "evolve"
            end = "is required and is not there; the source is held" if grave else "is not there; noted only"
            out.add(SOURCE if grave else NOTE, "variable.missing", f"the variable {end}", column=said.name)
        for variable in found:
            _check_variable(variable, said, out)


def _check_place(grid: Grid, expected: tuple[float, ...], out: Outcome) -> None:
    if grid.bounds is None:
        out.add(SOURCE, "geo.missing", "it does not say where it lies, which its source expects; the source is held")
        return
    places = [grid.bounds]
    if grid.crs.upper() in LONGITUDE_FIRST and grid.box is not None:
        places.append(grid.box)  # 260 degrees east are 100 degrees west
    if not any(
        west >= expected[0] and south >= expected[1] and east <= expected[2] and north <= expected[3]
        for west, south, east, north in places
    ):
        out.add(SOURCE, "geo.extent", "it reaches beyond the box that is expected; the source is held")


def _check_time(grid: Grid, expected: str, out: Outcome) -> None:
    if grid.times is None:
        out.add(SOURCE, "grid.time", "it does not say of when it is, which its source expects; the source is held")
        return
    start, _, end = expected.partition("/")
    found = [moment(text) for text in grid.times]
    low, high = moment(start), moment(end)
    if None in found or (low is not None and found[0] < low) or (high is not None and found[1] > high):  # type: ignore[operator]
        out.add(SOURCE, "grid.time", "it reaches beyond the time that is expected; the source is held")


def _check_variable(variable: Variable, said: ExpectedVariable, out: Outcome) -> None:
    for rule, wrong, what in (
        ("grid.dtype", said.dtype and said.dtype != variable.dtype, f"is of {variable.dtype}, and {said.dtype}"),
        ("grid.units", said.units and said.units != variable.units, _units(variable, said)),
        (
            "grid.dimensions",
            said.dimensions and said.dimensions != variable.dimensions,
            f"has the dimensions {_listed(variable.dimensions)}, and {_listed(said.dimensions)}",
        ),
        (
            "grid.shape",
            said.shape and said.shape != variable.shape,
            f"is of {_sizes(variable.shape)} values, and {_sizes(said.shape)}",
        ),
        (
            "grid.nodata",
            said.nodata is not None and not _same(said.nodata, variable.nodata),
            "marks missing values " + ("by nothing" if variable.nodata is None else "otherwise") + ", and by this",
        ),
    ):
        if wrong:
            effect, end = _effect(said)
            out.add(effect, rule, f"the variable {what} is expected; {end}", column=said.name)


def _units(variable: Variable, said: ExpectedVariable) -> str:
    found = variable.units if is_printable(variable.units) and len(variable.units) <= 100 else "units of another name"
    return f"is in {found}, and {said.units}" if variable.units else f"names no units, and {said.units}"


def _effect(said: ExpectedVariable) -> tuple[int, str]:
    return (NOTE, "noted only") if said.mode == "evolve" else (SOURCE, "the source is held")


def _scan(grid: Grid, contract: DataContract, out: Outcome) -> None:
    """Check every value of every variable against the contract, and record the findings in `out`."""
    expect = {said.name: said for said in expected_of(contract).variables or ()}
    for variable in grid.variables:
        said = expect.get(variable.name)
        low, high = (said.minimum, said.maximum) if said is not None else (None, None)
        below = above = False
        for values in variable.values():
            if low is None and high is None:
                continue
            least, most = value_range(values)
            if least is not None and most is not None:
                below = below or (low is not None and least < low)
                above = above or (high is not None and most > high)
        if said is not None:
            effect, end = _effect(said)
            if below:
                out.add(effect, "minimum", f"a value is below {low:g}; {end}", column=variable.name)
            if above:
                out.add(effect, "maximum", f"a value is above {high:g}; {end}", column=variable.name)


def value_range(values: Any) -> tuple[Any, Any]:
    """Return the least and the largest known value; NaN is not a known value."""
    import numpy as np

    known = values.compressed() if isinstance(values, np.ma.MaskedArray) else np.asarray(values).ravel()
    if known.dtype.kind not in "biuf" or not known.size:
        return None, None
    if known.dtype.kind == "f":
        known = known[~np.isnan(known)]
        if not known.size:
            return None, None
    return known.min().item(), known.max().item()


def _same(said: float, found: float | None) -> bool:
    return found is not None and (said == found or (said != said and found != found))


def _listed(names: Iterable[str]) -> str:
    shown = [name if is_printable(name) and len(name) <= 100 else "?" for name in names]
    return ", ".join(shown) or "none"


def _sizes(shape: Iterable[int]) -> str:
    return " x ".join(str(size) for size in shape) or "1"
