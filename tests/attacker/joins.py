"""Joins with an open table: which record of it is a published row?

The attacker has an open table with the exact values and places of the same records, and knows how values are rounded.
A row may be any record of the same cell whose values fit. The rows with the fewest such records are decided first, and
a record is taken once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import h3

Fits = Callable[[str, str], bool]  # a published value, an open one


class Record(NamedTuple):
    name: str
    place: tuple[float, float]
    values: Mapping[str, str]


class Named(NamedTuple):
    """A published row and the record that the attacker takes it for."""

    row: str
    record: str
    others: int  # records of the open table in the same cell


def joined(rows: Sequence[Mapping[str, str]], records: Sequence[Record], fits: Mapping[str, Fits]) -> list[Named]:
    """Return a record for each row that has a cell and fits at least one."""
    candidates: dict[str, list[str]] = {}
    within: dict[str, int] = {}
    for row in rows:
        if len(row["cell"]) == 15:
            near = [one for one in records if in_cell(one.place, row["cell"])]
            within[row["id"]] = len(near)
            candidates[row["id"]] = [
                one.name for one in near if all(test(row[name], one.values[name]) for name, test in fits.items())
            ]
    rng = random.Random(0)
    out = []
    while candidates:
        row_id = min(candidates, key=lambda id: (len(candidates[id]), id))
        found = candidates.pop(row_id)
        if found:
            chosen = rng.choice(found)
            out.append(Named(row_id, chosen, within[row_id]))
            for others in candidates.values():
                if chosen in others:
                    others.remove(chosen)
    return out


def in_cell(place: tuple[float, float], cell: str) -> bool:
    return h3.latlng_to_cell(*place, h3.get_resolution(cell)) == cell


def same_or_withheld(published: str, exact: str) -> bool:
    return published in ("withheld", exact)


def about(reach: float) -> Fits:
    """Whether an exact number may have been rounded to the published one."""
    return lambda published, exact: published == "withheld" or abs(float(published) - float(exact)) <= reach
