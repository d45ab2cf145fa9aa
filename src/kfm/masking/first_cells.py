"""The first cell: the cell in which a record was first published stays its only public cell.

Two cells of one record could be intersected, and the intersection is smaller than either. So a correction that crosses
an edge does not change the public cell, unless the earlier versions are withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from kfm.masking.cells import resolution_of
from kfm.masking.public_record import PublicRecord

FirstCells = Mapping[str, str]  # public id: the cell it was first published in
Verdict = Literal["first", "same", "kept", "withdraw"]


class Remembered(NamedTuple):
    cell: str
    verdict: Verdict  # withdraw: all earlier versions with this record must be withdrawn first


def remembered(first: str, cell: str, *, moved: Literal["keep", "withdraw"] = "keep") -> Remembered:
    """Return the public cell: the first one, unless it is finer than is allowed now."""
    if not first or not cell:
        return Remembered(cell, "first" if cell and not first else "same")
    if first == cell:
        return Remembered(cell, "same")
    finer = resolution_of(int(first, 16)) > resolution_of(int(cell, 16))
    if finer or moved == "withdraw":
        return Remembered(cell, "withdraw")
    return Remembered(first, "kept")


def learned(first: FirstCells, records: Iterable[PublicRecord]) -> dict[str, str]:
    """Return the new first cells in these records; the first record of an id counts."""
    new: dict[str, str] = {}
    for record in records:
        if record.cell and record.id not in first:
            new.setdefault(record.id, record.cell)
    return new


def to_withdraw(first: FirstCells, records: Iterable[PublicRecord]) -> tuple[str, ...]:
    """Return the public ids that earlier versions show in another cell; those versions must be withdrawn first."""
    found = {r.id for r in records if r.id in first and r.cell != first[r.id]}
    return tuple(sorted(found))
