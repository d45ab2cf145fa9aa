"""The first cell: what was once public about a record's place stays all there is.

Two cells of one record can be laid over each other; where both may be true is smaller than either. So a correction that
crosses an edge changes nothing in public, unless what was public before is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from kfm.masking.cells import resolution_of
from kfm.masking.public_record import PublicRecord

FirstCells = Mapping[str, str]  # public id to the cell it was first published in
Verdict = Literal["first", "same", "kept", "withdraw"]


class Remembered(NamedTuple):
    cell: str
    verdict: Verdict  # withdraw: every earlier version that shows the record must go before this one is published


def remembered(first: str, cell: str, *, moved: Literal["keep", "withdraw"] = "keep") -> Remembered:
    """Which cell is public: the first, unless it is finer than what is allowed today."""
    if not first or not cell:
        return Remembered(cell, "first" if cell and not first else "same")
    if first == cell:
        return Remembered(cell, "same")
    finer = resolution_of(int(first, 16)) > resolution_of(int(cell, 16))
    if finer or moved == "withdraw":
        return Remembered(cell, "withdraw")
    return Remembered(first, "kept")


def learned(first: FirstCells, records: Iterable[PublicRecord]) -> dict[str, str]:
    """What there is to remember anew after these records; the first of an id counts."""
    new: dict[str, str] = {}
    for record in records:
        if record.cell and record.id not in first:
            new.setdefault(record.id, record.cell)
    return new


def to_withdraw(first: FirstCells, records: Iterable[PublicRecord]) -> tuple[str, ...]:
    """Public ids whose earlier versions show another cell than these records: they go before these come."""
    found = {r.id for r in records if r.id in first and r.cell != first[r.id]}
    return tuple(sorted(found))
