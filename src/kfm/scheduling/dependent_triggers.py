"""Trigger datasets that are built from others: once per set of upstream versions, when nothing upstream is running.

The set that was triggered is the mark of a tick. So each set triggers one run, however many processes look and however
often they are killed, and versions that arrive while upstream runs continue are taken together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kfm.clock import parse_instant
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import digest, scopes
from kfm.model.operation_target import REF
from kfm.model.ports import State
from kfm.model.schedules import Schedule, Tick
from kfm.scheduling.backfill_cursor import is_of_backfill

PATIENCE_MS = 3_600_000  # work that waits longer than this upstream no longer delays a dataset


def versions_now(state: State, refs: Iterable[str]) -> dict[str, str]:
    """Return the versions at the given refs; {} if a ref has no version, because then nothing can be built."""
    found = {ref: state.refs.at(ref) for ref in refs}
    return found if all(found.values()) else {}


def mark_of(state: State, versions: Mapping[str, str]) -> str:
    """Return the mark of a set of versions: its digest and the newest index of the ledger."""
    newest = next((entry.index for entry in state.ledger.entries(reverse=True, limit=1)), 0)
    return f"{digest(canonical(versions))}@{newest}"


def is_triggered(last: Tick | None, versions: Mapping[str, str]) -> bool:
    return last is not None and last.mark.partition("@")[0] == digest(canonical(versions))


def only_backfills_moved(state: State, last: Tick | None, refs: Iterable[str]) -> bool:
    """Say whether only backfills moved these refs since the last tick. A backfill triggers its own
    downstream datasets.
    """
    read = last.mark.partition("@")[2] if last is not None else ""
    return read.isdigit() and not any(_moved(state, ref, int(read)) for ref in refs)


def _moved(state: State, ref: str, read: int) -> bool:
    for entry in state.ledger.entries_of(refs.parse(ref).dataset):
        if entry.index <= read:
            return False
        moved = any(move.ref == ref and move.after != move.before for move in entry.moves)
        if moved and not is_of_backfill(state, entry):
            return True
    return False


def made_of(state: State, dataset: str) -> dict[str, str]:
    """Return the upstream versions of the current version by ref; {} if it was built by partitions."""
    current = state.refs.at(refs.processed(dataset))
    version = state.ledger.version(dataset, current) if current else None
    run = state.runs.get(version.validated_by or version.run_id) if version is not None else None
    if run is None or run.trigger.partition:
        return {}
    return {ref.uri.removeprefix(REF): ref.content_hash for ref in run.inputs if ref.uri.startswith(REF)}


def is_made_of(state: State, dataset: str, versions: Mapping[str, str]) -> bool:
    known = made_of(state, dataset)
    return all(known.get(ref) == version for ref, version in versions.items())


class DependencyGraph:
    """Which dataset is built from which, and their schedules."""

    def __init__(self, schedules: Sequence[Schedule], upstream: Mapping[str, set[str]]) -> None:
        self._upstream = upstream
        self._schedules = {each.dataset: each for each in schedules if each.reads}
        self._above: dict[str, list[str]] = {}

    def above(self, dataset: str) -> list[str]:
        """Return all upstream datasets, direct and indirect."""
        if dataset not in self._above:
            found: dict[str, None] = {}
            waiting = [dataset]
            while waiting:
                for one in sorted(self._upstream.get(waiting.pop(), ())):
                    if one not in found and one != dataset:
                        found[one] = None
                        waiting.append(one)
            self._above[dataset] = list(found)
        return self._above[dataset]

    def is_due(self, state: State, schedule: Schedule) -> bool:
        """Say whether there is a set of upstream versions that was not triggered yet."""
        versions = versions_now(state, schedule.reads)
        return bool(versions) and not is_triggered(state.ticks.last(schedule.id), versions)

    def is_under_way(self, state: State, dataset: str, now_ms: int) -> bool:
        """Say whether work is pending upstream, so that the set of versions would change again soon. Frozen and paused
        datasets, and work that waits for too long, do not count.
        """
        if refs.is_frozen(state.refs.at(refs.switch("global"))):
            return False
        return any(self._comes(state, name, now_ms) for name in self.above(dataset))

    def _comes(self, state: State, name: str, now_ms: int) -> bool:
        if refs.is_frozen(state.refs.at(refs.switch("dataset", name))):
            return False
        for trigger in state.inbox.waiting(name):
            since = parse_instant(trigger.received_at, "a trigger") if trigger.received_at else 0
            if trigger.kind != "operation" and now_ms - since < PATIENCE_MS:
                return True
        for run in state.runs.unfinished(name):
            for scope in scopes(run.updater_id, name, run.trigger.partition):
                lease = state.leases.of(scope)
                if lease is not None and lease.expires_ms > state.now_ms():
                    return True
        own = self._schedules.get(name)
        return own is not None and not is_paused(state, own) and self.is_due(state, own)


def is_paused(state: State, schedule: Schedule) -> bool:
    """Say whether a schedule is paused by its declaration or by its freeze flag. A flag with any value but `open`
    pauses it.
    """
    return schedule.paused or refs.is_frozen(state.refs.at(refs.switch("schedule", schedule.id)))
