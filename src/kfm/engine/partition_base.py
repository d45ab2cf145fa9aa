"""What a run of a partition must know of the version that other partitions go on changing."""

from __future__ import annotations

from itertools import zip_longest

from kfm.errors import Corrupt
from kfm.model import refs
from kfm.model.manifests import entries_of
from kfm.model.ports import INLINE_MAX, Objects, State
from kfm.model.records import DatasetVersion, Run, SourceRef

MOVES = 20  # of a raw ref that are looked through
UNHELD, CLOSED = "unheld/", "closed/"


def maker(state: State, objects: Objects, dataset: str, partition: str, source: int = 0) -> Run | None:
    """The run that made what the partition is now, as whoever brought the bytes of its source knows; if what that run
    made was taken back, the one before whose keys stand."""
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
    """The run, or the one that did the same work again."""
    run = state.runs.get(run_id)
    again = state.runs.claimed(run.claim_key) if run is not None else None
    return again if again is not None and again.status == "COMMITTED" else run


def is_same(objects: Objects, one: str, other: str, partition: str) -> bool:
    """Are the keys of the partition the same in both versions, and none of their objects gone?"""
    now, then = (entries_of(objects, version, partition) for version in (one, other))
    try:
        return all(
            entry == before and (entry.size <= INLINE_MAX or objects.size(entry.digest) == entry.size)
            for entry, before in zip_longest(now, then)
        )
    except Corrupt:
        return False


def holds_still(state: State, objects: Objects, run: Run) -> bool:
    """Other partitions may have moved the ref since: is what this run made in the version as it was? Not so if it
    was held against contracts and is marked as if it were not."""
    current, partition = state.refs.at(refs.processed(run.dataset)), run.trigger.partition
    if not current or not is_same(objects, current, run.version_digest, partition):
        return False
    version = state.ledger.version(run.dataset, current)
    marked = version.validation if version is not None else {}
    return not marked.get(UNHELD + partition) or unheld(run.inputs) > 0


def unheld(inputs: list[SourceRef]) -> int:
    """How many sources were held against no contract; having none counts as one."""
    return sum(1 for source in inputs if not source.contract_hash) if inputs else 1


def marks(before: DatasetVersion | None, run: Run, inputs: list[SourceRef]) -> dict[str, int]:
    """Of a version that a run of a partition makes: of which partitions something was held against no contract, or was
    made while the dataset was not public. Who has seen to one of them has not seen to the others. What the whole
    dataset was marked with stays until the whole is run."""
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
    if unheld(inputs):
        found[UNHELD + partition] = unheld(inputs)
    if mark := closed_mark(run.metadata.get("sensitivity")):
        found[CLOSED + partition] = mark
    return found


def closed_mark(sensitivity: object) -> int:
    """0: open; 2: no more closed than generalised; 1: more than that."""
    if sensitivity in (None, "public"):
        return 0
    return 2 if sensitivity == "generalised" else 1
