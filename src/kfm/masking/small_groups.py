"""Small groups: where fewer than k records of a cell share their quasi-identifiers, these become coarser.

A reader who knows a few facts about a site could find its record by them. So the quasi-identifiers of a small group are
replaced step by step, from the last one that the masking policy names to the first: by their coarser form, then by
"withheld". The cell stays. A record never becomes finer again: a value that is shown in one version and was coarser in
an earlier one tells how many records joined its group. No value is computed from anything but the published one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kfm.masking.mask import Prepared
from kfm.masking.public_record import WITHHELD, PublicRecord
from kfm.model.masks import MaskingPolicy
from kfm.model.records import Record

RULE = "mask.small-group"
Forms = Mapping[str, str]  # column of the source: the form it has now, such as 1000, century or withheld
_Ladder = tuple[Forms, ...]  # the forms at each level: none at level 0, all withheld at the last
_Group = tuple[str, ...]  # the cell and the published quasi-identifiers


class Coarsened(NamedTuple):
    """The records as they may be published, and the forms of those that are coarser than their columns say."""

    records: list[PublicRecord]
    forms: dict[str, Forms]  # by public id


class GroupSizes(Record, frozen=True):
    """How many records can be recognised by their cell and quasi-identifiers."""

    unique: int  # alone in their group
    below_k: int  # in a group of fewer than k records
    cell_only: int  # besides: with fewer than k in their cell, and nothing but the cell is shown


class Difference(Record, frozen=True):
    """How many records came, went and changed between two versions, and how many of those can be told apart."""

    added: int
    removed: int
    changed: int
    added_below_k: int
    removed_below_k: int


def coarsened(records: Sequence[PublicRecord], bound: Prepared, known: Mapping[str, Forms]) -> Coarsened:
    """Return the records with coarser quasi-identifiers where fewer than k share them; `known` are the forms of earlier
    versions. The result is the same in any order of the records, and the same again if its forms are known."""
    policy = bound.policy
    ladder = _ladder(policy)
    shown = _Shown(policy)
    rows: dict[str, list[PublicRecord]] = {}
    for one in records:
        rows.setdefault(one.id, []).append(one)
    cells: dict[str, dict[str, list[PublicRecord]]] = {}
    for identity, its in rows.items():
        cells.setdefault(max(one.cell for one in its), {})[identity] = its
    forms: dict[str, Forms] = {}
    for found in cells.values():
        levels = {identity: _level_of(known.get(identity, {}), ladder) for identity in found}
        if policy.recognised_by:
            _raise_small(levels, found, ladder, shown, policy.k)
        for identity, level in levels.items():
            if level or known.get(identity):
                forms[identity] = _kept(known.get(identity, {}), ladder[level], policy)
    return Coarsened([shown.in_form(one, forms.get(one.id, {})) for one in records], forms)


def group_sizes(records: Iterable[PublicRecord], policy: MaskingPolicy) -> GroupSizes:
    """Return how many records are unique, and in groups below k, by cell and quasi-identifiers as published; by all
    published columns if the policy names no quasi-identifier. Several rows of one record count once in a group."""
    groups: dict[_Group, set[str]] = {}
    for one in records:
        groups.setdefault(_group(one, policy), set()).add(one.id)
    small = {group: ids for group, ids in groups.items() if len(ids) < policy.k}
    bare = [ids for group, ids in small.items() if {*group[1:]} <= {WITHHELD}]
    telling = [ids for group, ids in small.items() if not {*group[1:]} <= {WITHHELD}]
    nobody: set[str] = set()
    return GroupSizes(
        unique=len(nobody.union(*(ids for ids in telling if len(ids) == 1))),
        below_k=len(nobody.union(*telling)),
        cell_only=len(nobody.union(*bare)),
    )


def difference(
    before: Mapping[str, Sequence[_Group]], records: Sequence[PublicRecord], policy: MaskingPolicy
) -> Difference:
    """Return what a reader learns who compares these records with those of an earlier version; `before` are its groups
    by public id. Records that come or go with fewer than k - 1 others of their group can be told apart."""
    after: dict[str, list[_Group]] = {}
    for one in records:
        after.setdefault(one.id, []).append(_group(one, policy))
    added = {identity: its for identity, its in after.items() if identity not in before}
    removed = {identity: its for identity, its in before.items() if identity not in after}
    changed = {identity for identity, its in after.items() if sorted(before.get(identity, its)) != sorted(its)}
    return Difference(
        added=len(added),
        removed=len(removed),
        changed=len(changed),
        added_below_k=_below(added, policy.k),
        removed_below_k=_below(removed, policy.k),
    )


def group_columns(policy: MaskingPolicy) -> list[str]:
    """Return the public names of the quasi-identifiers; of all published columns if none is named."""
    return [policy.columns[column].name or column for column in policy.recognised_by or policy.columns]


def _group(record: PublicRecord, policy: MaskingPolicy) -> _Group:
    return record.cell, *(record.attributes[name] for name in group_columns(policy))


def _below(groups: Mapping[str, Sequence[_Group]], k: int) -> int:
    """Return how many of these records are in a group of fewer than k of them."""
    sizes: dict[_Group, set[str]] = {}
    for identity, its in groups.items():
        for group in its:
            sizes.setdefault(group, set()).add(identity)
    nobody: set[str] = set()
    return len(nobody.union(*(ids for ids in sizes.values() if len(ids) < k)))


# ---------------------------------------------------------------------------------------------- levels


def _ladder(policy: MaskingPolicy) -> _Ladder:
    """Return the forms of each level: first the coarser forms, then withheld, each from the last column to the
    first."""
    levels: list[dict[str, str]] = [{}]
    for column, form in _coarser_forms(policy).items():
        levels.append({**levels[-1], column: form})
    for column in reversed(policy.recognised_by):
        levels.append({**levels[-1], column: WITHHELD})
    return tuple(levels)


def _coarser_forms(policy: MaskingPolicy) -> dict[str, str]:
    """Return the coarser forms that the policy gives, of the last quasi-identifier first."""
    given = {column: policy.columns[column].below_k for column in reversed(policy.recognised_by)}
    return {
        column: form if isinstance(form, str) else f"{form:.12g}"
        for column, form in given.items()
        if form is not msgspec.UNSET
    }


def forms_shown(policy: MaskingPolicy, values: Sequence[str]) -> dict[str, str]:
    """Return the forms of a record that was coarsened, from its published quasi-identifiers. In doubt, the coarser
    one."""
    coarser = _coarser_forms(policy)
    return {
        column: WITHHELD if value == WITHHELD else coarser[column]
        for column, value in zip(policy.recognised_by, values, strict=False)
        if value == WITHHELD or column in coarser
    }


def _level_of(forms: Forms, ladder: _Ladder) -> int:
    """Return the first level that shows no more than these forms. A form that the policy does not have any more counts
    as withheld, because two different forms of one value could be intersected."""
    own = {column: form for column, form in forms.items() if column in ladder[-1]}

    def fits(level: Forms) -> bool:
        return all(level.get(column) in (form, WITHHELD) for column, form in own.items())

    return next(number for number, level in enumerate(ladder) if fits(level))


def united(one: Forms, other: Forms) -> dict[str, str]:
    """Return forms that show no more than either: withheld where the two differ."""
    differ = {column: WITHHELD for column, form in other.items() if one.get(column, form) != form}
    return {**one, **other, **differ}


def _kept(known: Forms, level: Forms, policy: MaskingPolicy) -> Forms:
    """Return the forms of a record: those of its level, and withheld for a column that was coarser before and is not a
    quasi-identifier now."""
    gone = {column: WITHHELD for column in known if column not in policy.recognised_by}
    return dict(sorted({**gone, **level}.items()))


def _raise_small(
    levels: dict[str, int], found: Mapping[str, list[PublicRecord]], ladder: _Ladder, shown: _Shown, k: int
) -> None:
    """Raise the levels of one cell's records until no group has fewer than k, the group of withheld ones included. A
    cell of fewer than k records ends with all of them withheld."""
    top = len(ladder) - 1
    if len(levels) < k:
        levels.update(dict.fromkeys(levels, top))
        return

    def groups(level: int) -> dict[_Group, set[str]]:
        out: dict[_Group, set[str]] = {}
        for identity, its in levels.items():
            if its == level:
                for one in found[identity]:
                    out.setdefault(shown.values(one, ladder[level]), set()).add(identity)
        return out

    while True:
        for level in range(top):
            while small := set().union(*(ids for ids in groups(level).values() if len(ids) < k)):
                levels.update(dict.fromkeys(small, level + 1))
        withheld = sum(level == top for level in levels.values())
        if withheld == 0 or withheld >= k or withheld == len(levels):
            return
        rest = [ids for level in range(top) for _, ids in sorted(groups(level).items())]
        levels.update(dict.fromkeys(_joining(rest, k - withheld, k), top))


def _joining(groups: list[set[str]], missing: int, k: int) -> list[str]:
    """Return the records that are withheld together with too few others: some of a group that stays large enough, or
    else the smallest group."""
    by_size = sorted(groups, key=len)
    large = [ids for ids in by_size if len(ids) >= k + missing]
    return sorted(large[0])[:missing] if large else sorted(by_size[0])


class _Shown:
    """The quasi-identifiers of records in any form; a value is computed once."""

    def __init__(self, policy: MaskingPolicy) -> None:
        self._names = {column: rule.name or column for column, rule in policy.columns.items()}
        self._kinds = {column: rule.kind for column, rule in policy.columns.items()}
        self._columns = policy.recognised_by
        self._known: dict[tuple[str, str], str] = {}

    def values(self, record: PublicRecord, forms: Forms) -> _Group:
        its = record.attributes
        return (
            record.cell,  # a record may also have rows without a location
            *(self._value(column, its[self._names[column]], forms.get(column, "")) for column in self._columns),
        )

    def in_form(self, record: PublicRecord, forms: Forms) -> PublicRecord:
        changed = dict(self._changed(record, forms))
        if not changed:
            return record
        rules = tuple(sorted({*record.rules, RULE}))
        return msgspec.structs.replace(record, attributes={**record.attributes, **changed}, rules=rules)

    def _changed(self, record: PublicRecord, forms: Forms) -> Iterator[tuple[str, str]]:
        for column, form in forms.items():
            name = self._names.get(column)
            if name is not None:
                yield name, self._value(column, record.attributes[name], form)

    def _value(self, column: str, value: str, form: str) -> str:
        if form in ("", WITHHELD):
            return form or value
        if value in ("", WITHHELD):
            return value
        key = (value, form)
        found = self._known.get(key)
        if found is None:
            coarser = _coarser_date if self._kinds[column] == "date" else _coarser_number
            found = self._known[key] = coarser(value, form)
        return found


def _coarser_number(value: str, step: str) -> str:
    return f"{round(float(value) / float(step)) * float(step):.12g}"


def _coarser_date(value: str, to: str) -> str:
    """Return a published date, such as 1968-Q3, 1968 or 1960s, with less precision."""
    return {"year": value[:4], "decade": f"{value[:3]}0s", "century": f"{value[:2]}00s"}[to]
