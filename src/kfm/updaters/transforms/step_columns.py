"""The columns after each step. They are known beforehand, so a wrong name is reported before any work."""

from __future__ import annotations

from collections.abc import Iterable

from kfm.model.transform_config import StepConfig, sort_keys
from kfm.updaters.transforms.transform_errors import Place


def asked(step: StepConfig) -> list[str]:
    """Return the columns that a step reads. Keys of a mapping are sorted, because some languages give them no order."""
    if step.filter is not None:
        return [step.filter.column]
    if step.deduplicate is not None:
        return list(step.deduplicate.by)
    if step.join is not None:
        return sorted(step.join.on)
    return [*step.select, *sorted(step.rename), *sorted(step.cast), *(key.column for key in sort_keys(step))]


def after(names: list[str], step: StepConfig) -> list[str]:
    """Return the column names that a table has after a step, in order."""
    if step.select:
        return list(step.select)
    if step.rename:
        return [step.rename.get(name, name) for name in names]
    if step.join is not None:
        return [*names, *step.join.add]
    return names


def check(names: Iterable[str], step: StepConfig, place: Place, *, pointers: bool) -> None:
    """Raise BadInput if a step needs a missing column or gives a name that is taken."""
    there = set(names)
    for column in asked(step):
        if column not in there and not (pointers and step.select and column.startswith("/")):
            raise place.no_column(column)
    new: list[str] = []
    if step.rename:
        new = [step.rename[name] for name in sorted(step.rename) if step.rename[name] not in step.rename]
    elif step.join is not None:
        new = list(step.join.add)
    for name in new:
        if name in there:
            raise place.taken(name)


def follow(names: Iterable[str], steps: Iterable[tuple[StepConfig, Place]], *, pointers: bool) -> list[str]:
    """Check each step, and return the column names after the last one."""
    found = list(names)
    for step, place in steps:
        check(found, step, place, pointers=pointers)
        found = after(found, step)
    return found
