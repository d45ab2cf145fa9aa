"""Reads the facts for a run's public record: the receipt, the versions and how they differ. `masking` makes the
record."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.delivery.public_layout import Layout
from kfm.engine.protected.encrypted_objects import sealed_with
from kfm.engine.protected.source_classification import address
from kfm.errors import Corrupt
from kfm.masking.lineage_redaction import RunFacts, ZoneChange, may_be_named
from kfm.masking.lineage_redaction import public_run as told
from kfm.model import manifests, refs
from kfm.model.lineage_edges import ZONES
from kfm.model.manifests import Change, Key
from kfm.model.names import is_digest
from kfm.model.ports import Objects, State
from kfm.model.preview_records import is_made
from kfm.model.public_run import MEMBERS, PublicRun
from kfm.model.records import DatasetVersion, LedgerEntry, ManifestEntry, Receipt, RefMove

SAME_MOMENT = 1000  # runs that may have ended in the same moment


def public_run(state: State, objects: Objects, entry: LedgerEntry, *, parts: bool = True) -> PublicRun:
    """Return the public record of the run of a ledger entry. Only the parts of a manifest that the run changed are
    read, and without `parts` none. Raise Corrupt if a record that it names is missing."""
    receipt = state.ledger.receipt(entry.run_id)
    if receipt is None:
        raise Corrupt(f"run {entry.run_id} has no receipt", hint="see `kfm doctor --deep`")
    known = _known(state, objects, receipt)
    made = next((item.checksum for item in receipt.outputs if item.kind == "dataset"), "")
    moved = next((move.after for move in receipt.moves if move.ref.startswith(refs.VERSIONS)), "")

    layout = Layout(state, objects, receipt.dataset)

    def path_of(each: ManifestEntry) -> str:
        return layout.path(made or moved, each).removeprefix(f"datasets/{receipt.dataset}/")

    changes = _changes(objects, receipt, made, known) if made and parts else iter(())
    restored = _restored(state, objects, entry, known) if parts and not made else iter(())
    members = _members(objects, made or moved, known) if parts else iter(())
    return told(entry, receipt, known, changes, path_of, restored, members)


def _members(objects: Objects, version: str, known: RunFacts) -> Iterator[ManifestEntry]:
    """Yield the entries of the version that the run made or moved a ref to; nothing if there are more than MEMBERS."""
    record = known.version
    if version and record is not None and record.digest == version and record.entries <= MEMBERS:
        yield from manifests.entries(objects, version)


def _known(state: State, objects: Objects, receipt: Receipt) -> RunFacts:
    run = state.runs.get(receipt.run_id)
    version, before = _versions(state, receipt)
    if run is None and version is None and not receipt.job_type.startswith("operation."):
        version = _there(state, receipt.dataset)
    maker = None
    if run is None and version is not None:
        maker = state.runs.get(version.validated_by or version.run_id)
    sealed = {
        item.checksum for item in receipt.inputs if is_digest(item.checksum) and sealed_with(objects, item.checksum)
    }
    closed: set[str] = set()
    if not state.protected.is_empty():
        for item in receipt.inputs:
            standing = state.protected.standing(f"source/{address(item.id, '')}")
            if standing is not None and standing.level != "public":
                closed.add(item.id)
    return RunFacts(run, maker, version, before, frozenset(sealed), frozenset(closed))


def _versions(state: State, receipt: Receipt) -> tuple[DatasetVersion | None, DatasetVersion | None]:
    made = next((item.checksum for item in receipt.outputs if item.kind == "dataset"), "")
    move = next((move for move in receipt.moves if move.ref.startswith(refs.VERSIONS)), None)
    after, before = (made or (move.after if move else "")), (move.before if move else made)
    if move is not None and not after:  # the record of a withdrawal is about the version it removes
        after = before
    find = state.ledger.version
    dataset = receipt.dataset
    version = find(dataset, after) if after else None
    if version is not None and _is_preview(receipt):
        before = version.supersedes
    return version, find(dataset, before) if before else None


def _is_preview(receipt: Receipt) -> bool:
    """Return whether a run started from the processed version and stored its result under another ref."""
    return any(is_made(move.ref) for move in receipt.moves)


def _there(state: State, dataset: str) -> DatasetVersion | None:
    at = state.refs.at(refs.processed(dataset))
    return state.ledger.version(dataset, at) if at else None


def _changes(objects: Objects, receipt: Receipt, made: str, known: RunFacts) -> Iterator[Change]:
    """Yield the changes since the version before, as far as they may be named. The parts of an encrypted version cannot
    be read."""
    move = next((move for move in receipt.moves if move.ref.startswith(refs.PROCESSED)), None)
    before = move.before if move is not None else made
    if known.version is not None and _is_preview(receipt):
        before = known.version.supersedes
    if before and before != made and not may_be_named(known.before):
        before = ""
    return manifests.changes(objects, before, made)


def _restored(state: State, objects: Objects, entry: LedgerEntry, known: RunFacts) -> Iterator[ZoneChange]:
    """Yield the entries of each zone that changed because an operation moved the zone's ref, each with the version in
    which it got its content."""
    if not may_be_named(known.version):
        return
    moves = [(zone, move) for zone in ZONES for move in entry.moves if refs.parse(move.ref).zone == zone]
    for zone, move in moves:
        if move.before == move.after:
            continue
        dataset = refs.parse(move.ref).dataset
        before, after = (each if may_be_named(state.ledger.version(dataset, each)) else "" for each in _ends(move))
        changes = list(manifests.changes(objects, before, after))
        homes = _homes(state, objects, dataset, after, {change.key for change in changes if change.new is not None})
        for change in changes:
            yield dataset, zone, change, homes.get(change.key, "")


def _ends(move: RefMove) -> tuple[str, str]:
    return move.before, move.after


def _homes(state: State, objects: Objects, dataset: str, version: str, keys: set[Key]) -> dict[Key, str]:
    """Return the version in which each key got its present content, searched backwards from a version that has them
    all."""
    found: dict[Key, str] = {}
    while len(found) < len(keys):
        record = state.ledger.version(dataset, version)
        before = record.supersedes if record is not None else ""
        if not before or not may_be_named(state.ledger.version(dataset, before)):
            return {**dict.fromkeys(keys, version), **found}
        for change in manifests.changes(objects, before, version):
            if change.key in keys:
                found.setdefault(change.key, version)
        version = before
    return found


def entry_of(state: State, run_id: str) -> LedgerEntry:
    """Return the ledger entry of a run."""
    receipt = state.ledger.receipt(run_id)
    if receipt is None:
        raise Corrupt(f"run {run_id} has no receipt", hint="see `kfm doctor --deep`")
    found = _by_time(state, run_id, receipt.finished_at)
    if found is None:  # the clock was set back
        found = next((each for each in state.ledger.entries_of(receipt.dataset) if each.run_id == run_id), None)
    if found is None:
        raise Corrupt(f"the ledger has no entry for run {run_id}", hint="see `kfm audit verify`")
    return found


def _by_time(state: State, run_id: str, at: str) -> LedgerEntry | None:
    """Return the ledger entry of a run, searched by the time `at`. The ledger is in the order of time, so earlier
    entries need not be read."""
    ledger = state.ledger
    low, high = 1, next((entry.index for entry in ledger.entries(reverse=True, limit=1)), 0)
    last = high
    while low < high:
        middle = (low + high) // 2
        entry = ledger.entry(middle)
        if entry is not None and entry.ts < at:
            low = middle + 1
        else:
            high = middle
    for index in range(low, min(last, low + SAME_MOMENT) + 1):
        entry = ledger.entry(index)
        if entry is None or entry.ts > at:
            return None
        if entry.run_id == run_id:
            return entry
    return None
