"""What a file of a geographic format must say of itself, beside its columns: a contract with more in it.

It is a record of its own, so that a contract that expects nothing has the digest it always had.
"""

from __future__ import annotations

from math import isfinite

import msgspec

from kfm.contract.declared import Expected
from kfm.contract.records import DataContract

GEOGRAPHIC = ("parquet",)  # formats that may say where they lie
LONGITUDE_FIRST = ("EPSG:4326", "OGC:CRS84")  # one to GeoParquet, whose positions are always x, y


class ExpectingContract(DataContract, frozen=True):
    """A data contract of a source that says more of itself than its columns."""

    expect: Expected = Expected()


def expecting(contract: DataContract, expect: Expected) -> ExpectingContract:
    return ExpectingContract(**msgspec.structs.asdict(contract), expect=expect)


def expected_of(contract: DataContract) -> Expected:
    return contract.expect if isinstance(contract, ExpectingContract) else Expected()


def problem_of(expect: Expected) -> tuple[str, str, str] | None:
    """What cannot be meant: the key, what is wrong with it, and what to do."""
    authority, colon, code = expect.crs.partition(":")
    if expect.crs and not (colon and authority.isalnum() and authority.isascii() and code.isalnum() and code.isascii()):
        return "crs", "is not an authority and a code", "write EPSG:4326, or another one"
    if expect.bbox:
        if len(expect.bbox) != 4 or not all(map(isfinite, expect.bbox)):
            return "bbox", "must hold four numbers", "west, south, east, north"
        west, south, east, north = expect.bbox
        if west > east or south > north:
            return "bbox", "has its sides the wrong way round", "west, south, east, north"
    return None


def same_crs(one: str, other: str) -> bool:
    return one.upper() == other.upper() or {one.upper(), other.upper()} <= set(LONGITUDE_FIRST)
