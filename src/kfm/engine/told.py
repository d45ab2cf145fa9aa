"""Reads what a run's public record is made of: the receipt, the versions and how they differ. `masking` makes it."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.contract import manifests
from kfm.contract.manifests import Change
from kfm.contract.names import is_digest
from kfm.contract.ports import Objects, State
from kfm.contract.public_run import PublicRun
from kfm.contract.records import DatasetVersion, LedgerEntry, ManifestEntry, Receipt
from kfm.engine.sealing import sealed_with
from kfm.engine.wayin import address
from kfm.errors import Corrupt
from kfm.masking.telling import Known, may_be_named
from kfm.masking.telling import public_run as told
from kfm.projections.artifacts import published_path


def public_runs(state: State, objects: Objects, *, after: int = 0) -> Iterator[PublicRun]:
    """Every run that ended after this entry of the ledger, in the order of it."""
    return (public_run(state, objects, entry) for entry in state.ledger.entries(after=after))


def public_run(state: State, objects: Objects, entry: LedgerEntry, *, parts: bool = True) -> PublicRun:
    """The run of an entry of the ledger. Reads of a manifest only what the run changed, and without `parts` none of it;
    Corrupt where something that is named is not there."""
    receipt = state.ledger.receipt(entry.run_id)
    if receipt is None:
        raise Corrupt(f"run {entry.run_id} has no receipt", hint="see `kfm doctor --deep`")
    known = _known(state, objects, receipt)
    made = next((item.checksum for item in receipt.outputs if item.kind == "dataset"), "")

    def path_of(each: ManifestEntry) -> str:
        return published_path(receipt.dataset, made, each).removeprefix(f"datasets/{receipt.dataset}/")

    changes = _changes(objects, receipt, made, known) if made and parts else iter(())
    return told(entry, receipt, known, changes, path_of)


def _known(state: State, objects: Objects, receipt: Receipt) -> Known:
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
    return Known(run, maker, version, before, frozenset(sealed), frozenset(closed))


def _versions(state: State, receipt: Receipt) -> tuple[DatasetVersion | None, DatasetVersion | None]:
    made = next((item.checksum for item in receipt.outputs if item.kind == "dataset"), "")
    move = next((move for move in receipt.moves if move.ref.startswith(("processed/", "published/"))), None)
    after, before = (made or (move.after if move else "")), (move.before if move else made)
    if move is not None and not after:  # a withdrawal speaks of what it takes away
        after = before
    find = state.ledger.version
    dataset = receipt.dataset
    return find(dataset, after) if after else None, find(dataset, before) if before else None


def _there(state: State, dataset: str) -> DatasetVersion | None:
    at = state.refs.at(f"processed/{dataset}")
    return state.ledger.version(dataset, at) if at else None


def _changes(objects: Objects, receipt: Receipt, made: str, known: Known) -> Iterator[Change]:
    """From what was there before, as far as that may be named; of a version under a key nobody can read the parts."""
    move = next((move for move in receipt.moves if move.ref.startswith("processed/")), None)
    before = move.before if move is not None else made
    if before and before != made and not may_be_named(known.before):
        before = ""
    return manifests.changes(objects, before, made)
