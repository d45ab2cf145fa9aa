"""The attacker joins a masked table with an open one: no record is found among fewer than k.

The table is that of [the real dates](../engine/protected/test_kansas.py) of Kansas, which is open itself.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.attacker.installation import Publisher
from tests.attacker.joins import Record, about, joined, same_or_withheld
from tests.attacker.public_view import View
from tests.attacker.score import Point, tail
from tests.attacker.test_attacker import installed
from tests.cli.conftest import Kfm

KANSAS = Path(__file__).parents[1] / "engine/protected/kansas.csv"
K = 5


class Dates(NamedTuple):
    """The dates under a masking policy with or without quasi-identifiers."""

    recognised_by: str
    name: str = "dates"
    format: str = "csv"
    resolution: int = 7

    def body(self, version: int) -> str:
        return KANSAS.read_text()

    @property
    def places(self) -> dict[str, Point]:
        return {record.name: record.place for record in records()}

    def mask(self) -> str:
        return (
            f'id: dates\nversion: "1"\nnamespace: {self.name}\nrecord_id: LabID\nresolution: 7\nk: {K}\n'
            "location:\n  latitude: Lat\n  longitude: Long\n"
            '  accuracy: {column: LocAccuracy, classes: {"1.0": {name: county, metres: 35000}}}\n'
            "columns:\n  Age: {kind: number, step: 50}\n  Error: {kind: number, step: 10}\n"
            "  Material: {kind: code, values: [CHARCOAL, SEEDS, BONE, POTTERYRESIDUE, OTHER]}\n" + self.recognised_by
        )


def records() -> list[Record]:
    with KANSAS.open(newline="") as file:
        return [Record(row["LabID"], (float(row["Lat"]), float(row["Long"])), row) for row in csv.DictReader(file)]


def found(kfm: Kfm, folder: Path, dates: Dates) -> tuple[int, int, float]:
    """How many rows the attacker names, how many rightly, and how likely chance does as well: one of k records, or one
    of the cell if it has fewer."""
    with installed(folder):
        publisher = Publisher(kfm, [dates])
        publisher.people()
        publisher.version(0)
        (edition,) = View(publisher.folders).editions["part0/dates"]
        truth = {id: name for (_, id), name in publisher.public_ids().items()}
    fits = {"Age": about(25), "Error": about(5), "Material": same_or_withheld}
    named = joined(edition.rows, records(), fits)
    right = sum(truth[one.row] == one.record for one in named)
    return len(named), right, tail([1 / min(K, one.others) for one in named], right)


@pytest.mark.long
def test_a_join_finds_no_record_among_fewer_than_k_and_finds_most_where_no_column_is_named(
    kfm: Kfm, place: Path
) -> None:
    named, right, p = found(kfm, place / "with", Dates("quasi_identifiers: [Material, Age, Error]\n"))
    assert named == 80 and p > 0.01, (right, p)
    named, right, p = found(kfm, place / "without", Dates(""))
    assert named == 80 and right > 40 and p < 0.01, (right, p)
