"""The public records of a whole table: one cell for each place, and no group of quasi-identifiers below k.

`mask` decides for each record alone. Here the records are compared with each other and with everything that was shown
before, under the same custodian's key and under others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kfm.masking.cells import resolution_of
from kfm.masking.count_table import CountTable, count_column, count_table
from kfm.masking.first_cells import Memory, learned, to_withdraw
from kfm.masking.mask import Prepared, points_of
from kfm.masking.places import KnownPlaces, PlaceKeys, Point, first_by_place, learned_places, shared
from kfm.masking.public_record import PublicRecord
from kfm.masking.small_groups import Forms, coarsened, united

NOTHING_SHOWN = Memory({}, {}, {})


class PublicTable(NamedTuple):
    """The public records of a table, and what the state must remember of them."""

    records: list[PublicRecord]
    counts: CountTable | None  # published instead of the records, if the policy counts them
    as_masked: list[PublicRecord]  # before small groups were coarsened
    bound: Prepared
    learned: Memory
    seen: dict[str, str]  # the earlier values of what `learned` replaces
    moved: tuple[str, ...]  # ids that earlier versions show in finer cells
    elsewhere: tuple[str, ...]  # ids of places that other ids show in finer cells
    unplaced: bool  # records were shown before places were remembered, and this table holds none of them


def public_table(
    table: Mapping[str, Sequence[Any]],
    bound: Prepared,
    masked: Callable[[Prepared], list[PublicRecord]],
    known: Memory = NOTHING_SHOWN,
    keys: PlaceKeys | None = None,
    others: Sequence[KnownPlaces] = (),
) -> PublicTable:
    """Return the public records of a table. `masked` masks its rows one by one, `known` is what was shown before under
    the key of `keys`, and `others` are the places under other keys. Without `keys` no place is remembered."""
    rows = _Rows(table, bound)
    near = {}
    if keys is not None:
        unknown = {identity: its for identity, its in rows.points.items() if identity not in known.cells}
        near = first_by_place(unknown, [KnownPlaces(keys, known.places), *others])
    first = {**near, **known.cells}
    bound = bound.starting_from(first)
    records = masked(bound)
    shown = {one.id: one.cell for one in records if one.cell}
    together = shared(rows.points, shown, first)
    if together:
        near = {**together, **near}
        records = [_in_cell(one, together.get(one.id, "")) for one in records]
        shown = {one.id: one.cell for one in records if one.cell}
    moved = to_withdraw(known.cells, records)
    elsewhere = tuple(sorted(identity for identity, cell in near.items() if _is_coarser(shown.get(identity, ""), cell)))
    found = coarsened(records, bound, rows.forms(known.forms, keys))
    counts = count_table(found.records, bound.policy, known.forms, keys) if count_column(bound.policy) else None
    new = Memory(
        learned(known.cells, records) | {one: shown[one] for one in moved if one in shown},
        learned_places(rows.points, shown, keys, known.places, moved) if keys is not None else {},
        {
            name: dict(form)
            for one, form in found.forms.items()
            for name in rows.names(one, keys)
            if known.forms.get(name) != form
        }
        | {name: form for name, form in (counts.forms if counts else {}).items() if name not in known.forms},
    )
    before = known.stored()
    seen = {name: before[name] for name in new.stored() if name in before}
    unplaced = bool(known.cells and not known.places and shown and not known.cells.keys() & shown.keys())
    return PublicTable(found.records, counts, records, bound, new, seen, moved, elsewhere, unplaced)


def _in_cell(record: PublicRecord, cell: str) -> PublicRecord:
    """Return the record in the cell of its place, unless that is finer than the record may be shown in."""
    if not cell or not record.cell or _is_coarser(record.cell, cell):
        return record
    return msgspec.structs.replace(record, cell=cell)


def _is_coarser(cell: str, first: str) -> bool:
    return bool(cell) and resolution_of(int(cell, 16)) < resolution_of(int(first, 16))


class _Rows:
    """The points and names of the records of a table, by public id."""

    def __init__(self, table: Mapping[str, Sequence[Any]], bound: Prepared) -> None:
        ids = table.get(bound.policy.record_id, ())
        self._own: dict[str, object] = {}
        self.points: dict[str, list[Point]] = {}
        points = points_of(table, bound, len(ids))
        for row, (record_id, point) in enumerate(zip(ids, points, strict=False), 1):  # masking refuses other lengths
            identity = bound.public_id(record_id, row)
            self._own.setdefault(identity, record_id)
            if point is not None and point not in (its := self.points.setdefault(identity, [])):
                its.append(point)

    def names(self, identity: str, keys: PlaceKeys | None) -> list[str]:
        """Return the names under which the forms of a record are remembered: its public id, and itself at each of its
        places, which another namespace does not change."""
        if keys is None:
            return [identity]
        record_id = self._own[identity]
        return [identity, *(keys.of_record(record_id, point) for point in self.points.get(identity, ()))]

    def forms(self, known: Mapping[str, Forms], keys: PlaceKeys | None) -> dict[str, Forms]:
        """Return the forms that the records had in earlier versions."""
        found: dict[str, Forms] = {}
        for identity in self._own if known else ():
            for name in self.names(identity, keys):
                if name in known:
                    found[identity] = united(found.get(identity, {}), known[name])
        return found
