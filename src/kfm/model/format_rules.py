"""Checks of a file in a geographic format beyond its columns: a data contract with more fields.

It is a record of its own, so that a contract without such checks keeps its digest.
"""

from __future__ import annotations

import re
from math import isfinite

import msgspec

from kfm.model.records import DataContract
from kfm.model.source_formats import COLUMNAR, GRIDS
from kfm.model.transform_config import GEOMETRIES, Expected, ExpectedVariable
from kfm.parsing.characters import printable

_WITH_SCHEMA = ("json", "ndjson", "geojson")
TABLES = ("csv", *_WITH_SCHEMA, *COLUMNAR)  # formats with columns
GEOGRAPHIC = (*COLUMNAR, *GRIDS)  # formats with a location
# Coordinate systems in degrees that agree within two metres; catalogs take their boxes from these.
DEGREES = ("EPSG:4326", "OGC:CRS84", "EPSG:4979", "OGC:CRS84H", "EPSG:4269", "EPSG:4258")
LONGITUDE_FIRST = ("EPSG:4326", "OGC:CRS84")  # the same to GeoParquet, in which positions are always x, y


class ExpectingContract(DataContract, frozen=True):
    """A data contract with checks beyond columns."""

    expect: Expected = Expected()


def expecting(contract: DataContract, expect: Expected) -> ExpectingContract:
    return ExpectingContract(**msgspec.structs.asdict(contract), expect=expect)


def expected_of(contract: DataContract) -> Expected:
    return contract.expect if isinstance(contract, ExpectingContract) else Expected()


def gap_of(contract: DataContract) -> str:
    """Return what a contract must say at least and does not; empty if it says enough. That is the columns of a table
    and the variables and coordinate system of a grid; GRIB2 describes its grid in every message, mostly without a code.
    STAC has its own rules, and text and bytes have no parts."""
    if contract.format in GRIDS:
        expect = expected_of(contract)
        missing = [] if expect.variables else ["expect.variables"]
        return " and ".join(missing + ([] if expect.crs or contract.format == "grib2" else ["expect.crs"]))
    if contract.format not in TABLES or contract.columns:
        return ""
    if contract.format in _WITH_SCHEMA:
        return "" if contract.json_schema else "contract.columns or contract.json_schema"
    return "contract.columns"


_OF_GRIDS = ("bands", "time", "variables")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z|\.\.")


def problem_of(expect: Expected, form: str) -> tuple[str, str, str] | None:
    """Return the key, the problem and the cure of the first check that makes no sense; None if all do."""
    if form in GRIDS and expect.geometry is not msgspec.UNSET:
        return "geometry", "has no meaning for this format", f"it is for {', '.join(COLUMNAR)}"
    if form not in GRIDS:
        for key in _OF_GRIDS:
            if getattr(expect, key) is not msgspec.UNSET:
                return key, "has no meaning for this format", f"it is for {', '.join(GRIDS)}"
    if expect.time:
        start, slash, end = expect.time.partition("/")
        if not slash or not (_MOMENT.fullmatch(start) and _MOMENT.fullmatch(end)) or start == end == "..":
            return (
                "time",
                "is not two instants in UTC",
                'write "2026-01-01T00:00:00Z/2026-12-31T23:59:59Z", or .. for one',
            )
        if ".." not in (start, end) and start > end:
            return "time", "ends before it begins", "swap the two"
    seen: set[str] = set()
    for variable in expect.variables or ():
        if problem := _variable_problem(variable, seen):
            return "variables", *problem
        seen.add(variable.name)
    authority, colon, code = expect.crs.partition(":")
    if expect.crs and not (colon and authority.isalnum() and authority.isascii() and code.isalnum() and code.isascii()):
        return "crs", "is not an authority and a code", "write a code such as EPSG:4326"
    if expect.bbox:
        if len(expect.bbox) != 4 or not all(map(isfinite, expect.bbox)):
            return "bbox", "must hold four numbers", "west, south, east, north"
        west, south, east, north = expect.bbox
        if west > east or south > north:
            return "bbox", "has its sides the wrong way round", "west, south, east, north"
    if expect.geometry is not msgspec.UNSET and (not expect.geometry or not set(expect.geometry) <= set(GEOMETRIES)):
        return "geometry", "names no kind of geometry, or an unknown one", f"use {', '.join(GEOMETRIES)}"
    return None


def _variable_problem(variable: ExpectedVariable, seen: set[str]) -> tuple[str, str] | None:
    name = printable(variable.name)
    if variable.name in seen:
        return f"names {name} twice", "name each variable once"
    bounds = [bound for bound in (variable.minimum, variable.maximum) if bound is not None]
    if not all(map(isfinite, bounds)):
        return f"has a bound of {name} that is not a number", "write numbers, or leave them out"
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        return f"has a minimum of {name} above its maximum", "swap them"
    if variable.dimensions and variable.shape and len(variable.dimensions) != len(variable.shape):
        return f"gives {name} more or fewer dimensions than its shape has", "give as many of each"
    return None


def same_crs(one: str, other: str) -> bool:
    return one.upper() == other.upper() or {one.upper(), other.upper()} <= set(LONGITUDE_FIRST)
