"""Freeze and thaw: set or clear the freeze flag of a dataset, a schedule, a backfill, a run, or of everything.

At level red a flag stops all work. At amber it stops risky work alone: backfills, hotfixes and automatic promotions.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import check_id, dataset_id
from kfm.model.operation_target import DATASETS, Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import MoveUpdater

LEVELS = ("red", "amber")


class Freeze(MoveUpdater):
    """Sets a freeze flag: it stops all effects of a dataset or of everything, the ticks of a schedule, a backfill, or
    one run for good. At level amber it stops risky work on a dataset or on everything."""

    id = "kfm-freeze"
    op = "freeze"
    job_type = "operation.freeze"
    heeds_freeze = False
    needs_labels = False
    target = "frozen"

    def aims(self, trigger: Trigger, sources: Sources) -> Iterable[Aim]:
        return [self.aim(each, sources) for each in _each(trigger)]

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        level = trigger.params.get("level") or "red"
        if level not in LEVELS:
            raise Refused("a freeze is red or amber", hint="use --level red or --level amber")
        return Aim(sources.ref(flag_of(trigger, level)), self.target)


class Thaw(Freeze):
    """Clears the flags of a scope: that of the level, or without a level every flag that is set."""

    id = "kfm-thaw"
    op = "thaw"
    job_type = "operation.thaw"
    needs_labels = True
    target = "open"

    def aims(self, trigger: Trigger, sources: Sources) -> Iterable[Aim]:
        return [aim for each in _each(trigger) for aim in self._aims_of_one(each, sources)]

    def _aims_of_one(self, trigger: Trigger, sources: Sources) -> list[Aim]:
        if trigger.params.get("level"):
            return [self.aim(trigger, sources)]
        red = sources.ref(flag_of(trigger, "red"))
        if not _has_levels(trigger):
            return [Aim(red, self.target)]
        amber = sources.ref(flag_of(trigger, "amber"))
        found = [Aim(each, self.target) for each in (red, amber) if refs.is_frozen(each.content_hash)]
        return found or [Aim(red, self.target)]

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        return super().aim(trigger, sources) if trigger.params.get("level") else self._aims_of_one(trigger, sources)[0]


def _each(trigger: Trigger) -> list[Trigger]:
    """Return a trigger for each dataset of the scope: the trigger itself, unless it names several."""
    if not (names := trigger.params.get(DATASETS, "").split("\n")) or names == [""]:
        return [trigger]
    return [msgspec.structs.replace(trigger, params={**trigger.params, "scope": dataset_id(name)}) for name in names]


def _has_levels(trigger: Trigger) -> bool:
    return "/" not in (trigger.params.get("scope") or trigger.dataset)


def flag_of(trigger: Trigger, level: str) -> str:
    """Return the name of the flag that a freeze or thaw is about. Refused if a part of the work has no amber."""
    name = trigger.params.get("scope") or trigger.dataset
    kind, slash, rest = name.partition("/")
    if slash and kind in ("schedule", "run", "backfill"):
        if level == "amber":
            raise Refused(f"a {kind} has no amber", hint="freeze it, or put its dataset at amber")
        return refs.switch(kind, check_id(rest, kind))
    make = refs.switch if level == "red" else refs.amber
    return make("global") if name == "global" else make("dataset", dataset_id(name))
