"""Reads a table of the carbon of electricity by region and hour: the shipped one, or one of the installation.

A table is CSV text with the columns region, hour, g_per_kwh and source. The hour is that of the day in UTC, or * for an
average over all hours.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from kfm.errors import BadInput
from kfm.model.reports.energy_method import GridFactor

SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "grid_factors.csv")
HEADER = "region,hour,g_per_kwh,source"
MOST_BYTES = 4 << 20
MOST_G = 5000.0  # no power station emits more per kilowatt-hour
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}\Z")
_HOUR = re.compile(r"\*\Z|(?:0?[0-9]|1[0-9]|2[0-3])\Z")
_NUMBER = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,9})?\Z")
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .:/_&+-]{0,79}\Z")


class RowMistake(NamedTuple):
    """A line of a table that cannot be used."""

    line: int
    what: str
    cure: str


class GridTable:
    """The factors of a table."""

    def __init__(self, rows: dict[tuple[str, str], GridFactor]) -> None:
        self._rows = rows
        self.regions = sorted({region for region, _ in rows})

    def factor(self, region: str, hour: int) -> GridFactor | None:
        """Return the factor of a region at an hour of the day; None if there is none."""
        return self._rows.get((region, str(hour))) or self._rows.get((region, "*"))


def shipped_rows() -> bytes:
    """Return the shipped table."""
    with open(SHIPPED, "rb") as file:
        return file.read()


def read_table(body: bytes, where: str) -> tuple[GridTable, list[BadInput]]:
    """Return the table of these bytes, and its mistakes with their places."""
    rows, mistakes = _parsed(body)
    return GridTable(rows), [BadInput(f"{where}:{line}: {what}", hint=cure) for line, what, cure in mistakes]


def _parsed(body: bytes) -> tuple[dict[tuple[str, str], GridFactor], list[RowMistake]]:
    if len(body) > MOST_BYTES:
        return {}, [RowMistake(1, f"the table is larger than {MOST_BYTES >> 20} MiB", "keep the regions that you use")]
    try:
        lines = [line.removesuffix("\r") for line in body.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as problem:
        at = body.count(b"\n", 0, problem.start) + 1
        return {}, [RowMistake(at, "the line is not UTF-8", "save the file as UTF-8")]
    if [cell.strip() for cell in lines[0].split(",")] != HEADER.split(","):
        return {}, [RowMistake(1, "the first line must name the columns", f"write {HEADER}")]
    rows: dict[tuple[str, str], GridFactor] = {}
    mistakes: list[RowMistake] = []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        found = _row(line)
        if isinstance(found, GridFactor):
            key = found.region, found.hour
            if key not in rows:
                rows[key] = found
                continue
            found = f"{found.region} has two factors for hour {found.hour}", "keep one of them"
        mistakes.append(RowMistake(number, *found))
    if not rows and not mistakes:
        mistakes.append(RowMistake(1, "the table has no factor", "write one line for each region and hour"))
    return rows, mistakes


def _row(line: str) -> GridFactor | tuple[str, str]:
    """Return the factor of a line, or what is wrong with it and the cure."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 4:
        return f"the line has {len(cells)} cells, not 4", f"write it as {HEADER}, without quotes"
    region, hour, grams, source = cells
    if not _REGION.match(region):
        return "the region is no name", "write it like US-SPNO, of letters, digits, dots and dashes"
    if not _HOUR.match(hour):
        return "the hour is not one of 0 to 23 or *", "write the hour of the day in UTC, or * for all hours"
    if not _NUMBER.match(grams) or float(grams) > MOST_G:
        return f"g_per_kwh is no number from 0 to {MOST_G:g}", "write grams of CO2e per kilowatt-hour, such as 435.2"
    if not _SOURCE.match(source):
        cure = "write who published it and for which year, in at most 80 letters, digits, spaces and . : / _ & + -"
        return "the source is empty or has other characters", cure
    plain = hour if hour == "*" else str(int(hour))
    return GridFactor(g_per_kwh=float(grams), region=region, hour=plain, source=source)
