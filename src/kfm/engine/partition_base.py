"""The state of a partition inside a dataset version that runs of other partitions also change."""

from __future__ import annotations

from itertools import zip_longest

from kfm.errors import Corrupt
from kfm.model import refs
from kfm.model.manifests import entries_of
from kfm.model.ports import INLINE_MAX, Objects, State
from kfm.model.records import DatasetVersion, Run, SourceRef

MOVES = 20  # the most moves of a raw ref that are searched
UNHELD, CLOSED = "unheld/", "closed/"


def maker(state: State, objects: Objects, dataset: str, partition: str, source: int = 0) -> Run | None:
    """Return the run that made the current content of the partition, found through the history of its raw ref. If that
    result was rolled back, it is the earlier run whose keys are in the version."""
    current = state.refs.at(refs.processed(dataset))
    latest: Run | None = None
    for move in state.refs.history(refs.raw(f"{dataset}/{partition}", source), reverse=True, limit=MOVES):
        run = last_of_claim(state, move.run_id)
        if run is None:
            continue
        latest = latest or run
        if current and run.version_digest and is_same(objects, current, run.version_digest, partition):
            return run
    return latest


def last_of_claim(state: State, run_id: str) -> Run | None:
    """Return the latest run that did the same work as this run; the run itself if no later one did."""
    run = state.runs.get(run_id)
    again = state.runs.claimed(run.claim_key) if run is not None else None
    return again if again is not None and again.status == "COMMITTED" else run


def is_same(objects: Objects, one: str, other: str, partition: str) -> bool:
    """Return whether both versions have the same keys in the partition, and all their objects exist."""
    now, then = (entries_of(objects, version, partition) for version in (one, other))
    try:
        return all(
            entry == before and (entry.size <= INLINE_MAX or objects.size(entry.digest) == entry.size)
            for entry, before in zip_longest(now, then)
        )
    except Corrupt:
        return False


def holds_still(state: State, objects: Objects, run: Run) -> bool:
    """Return whether the result of this run is unchanged in the current version, which other partitions may have moved.
    False if the run checked contracts and the version is marked as unchecked."""
    current, partition = state.refs.at(refs.processed(run.dataset)), run.trigger.partition
    if not current or not is_same(objects, current, run.version_digest, partition):
        return False
    version = state.ledger.version(run.dataset, current)
    marked = version.validation if version is not None else {}
    return not marked.get(UNHELD + partition) or without_contract(run.inputs) > 0


def without_contract(inputs: list[SourceRef]) -> int:
    """Return how many sources have no contract; a run without sources counts as one."""
    return sum(1 for source in inputs if not source.contract_hash) if inputs else 1


def marks(before: DatasetVersion | None, run: Run, inputs: list[SourceRef]) -> dict[str, int]:
    """Return the marks of a version that a run of a partition makes: the partitions with a source that has no contract,
    and those made while the dataset was not public. Running one partition clears only its own mark; a mark of the whole
    dataset stays until the whole is run."""
    partition = run.trigger.partition
    found: dict[str, int] = {}
    if before is not None:
        own = (UNHELD + partition, CLOSED + partition)
        said = before.validation
        found = {name: n for name, n in said.items() if name.startswith((UNHELD, CLOSED)) and name not in own}
        whole = said.get("sources", 0) - said.get("contracts", 0) if said.get("sources") else 1
        if whole and not any(name.startswith(UNHELD) for name in said):
            found[UNHELD] = whole
        mark = closed_mark(before.metadata.get("sensitivity"))
        if mark and not any(name.startswith(CLOSED) for name in said):
            found[CLOSED] = mark
    if without_contract(inputs):
        found[UNHELD + partition] = without_contract(inputs)
    if mark := closed_mark(run.metadata.get("sensitivity")):
        found[CLOSED + partition] = mark
    return found


def closed_mark(sensitivity: object) -> int:
    """Return the mark of a partition for a sensitivity: 0 for public, 2 for generalised, and 1 for anything
    stricter."""
    if sensitivity in (None, "public"):
        return 0
    return 2 if sensitivity == "generalised" else 1
