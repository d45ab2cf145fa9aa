"""Counts instead of records: how many records of a cell have each value of one column.

Readers get no ids, so nothing joins one version with the next. Counts below k are withheld, and with them those from
which they follow, also if a reader knows how many rows the source has. A count that was withheld once stays withheld:
the step from "fewer than k" to k would reveal the record that came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kfm.masking.cells import resolution_of, shape_of
from kfm.masking.counts import Key, counted, suppressed
from kfm.masking.places import PlaceKeys
from kfm.masking.public_record import WITHHELD, PublicRecord
from kfm.model.masks import MaskingPolicy

COUNT = "count"
OWN = ("cell", "resolution")


class CountTable(NamedTuple):
    """The counts of a table as they may be published, by cell and value; None is a withheld count."""

    counts: dict[Key, int | None]
    forms: dict[str, dict[str, str]]  # what the state must remember: the withheld counts, by keyed digests


def count_table(
    records: Iterable[PublicRecord], policy: MaskingPolicy, known: Mapping[str, Any], keys: PlaceKeys | None
) -> CountTable:
    """Return the counts of these records by cell and the column that the policy counts by; `known` are the digests of
    counts that were withheld before. Without `keys` none is remembered."""
    column = count_column(policy)
    pairs = {(one.id, one.cell, one.attributes[column]) for one in records}
    counts = counted((cell, value) for _, cell, value in pairs)
    names = {key: keys.of_count(column, *key) for key in counts} if keys is not None else {}
    hidden = {key for key, name in names.items() if name in known}
    found = suppressed(counts, policy.k, hidden).counts
    while more := _to_hide(found, counts, policy.k):
        found = suppressed(counts, policy.k, {*_hidden(found), more}).counts
    return CountTable(found, {name: {COUNT: WITHHELD} for key, name in names.items() if found[key] is None})


def count_column(policy: MaskingPolicy) -> str:
    """Return the public name of the column that a policy counts by; empty if it publishes records."""
    by = policy.counts_by
    return "" if by is msgspec.UNSET else policy.columns[by].name or by


def _hidden(counts: Mapping[Key, int | None]) -> set[Key]:
    return {key for key, count in counts.items() if count is None}


def _to_hide(found: Mapping[Key, int | None], counts: Mapping[Key, int], k: int) -> Key | None:
    """Return one more count to withhold if the withheld ones follow from the number of all rows; None if not, or if
    nothing is left."""
    hidden = _hidden(found)
    if not hidden or (len(hidden) > 1 and sum(counts[key] for key in hidden) >= k):
        return None
    return min((key for key in counts if key not in hidden), key=lambda key: (counts[key], key), default=None)


def rows_of(table: CountTable, column: str) -> list[dict[str, Any]]:
    """Return the counts as rows, sorted by cell and value."""
    return [
        {
            "cell": cell or WITHHELD,
            "resolution": resolution_of(int(cell, 16)) if cell else None,
            column: value,
            COUNT: WITHHELD if count is None else count,
        }
        for (cell, value), count in sorted(table.counts.items())
    ]


def features_of(rows: Sequence[Mapping[str, Any]], column: str) -> list[bytes]:
    """Return rows of counts as GeoJSON features."""
    out = []
    for row in rows:
        shape = shape_of(int(row["cell"], 16)) if row["cell"] != WITHHELD else None
        out.append(
            _encode(
                {
                    "type": "Feature",
                    "id": f"{row['cell']}:{row[column]}",
                    **({} if shape is None else {"bbox": shape.bbox}),
                    "geometry": None if shape is None else shape.geometry,
                    "properties": {**row, "centroid": None if shape is None else shape.centroid},
                }
            )
        )
    return out


_encode = msgspec.json.Encoder().encode
