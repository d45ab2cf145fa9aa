"""What of a run are edges of the graph: one rule for whoever writes it or holds it against the receipts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kfm.model.operation_target import REF
from kfm.model.records import Item, Receipt, RefMove

DATASET = "kfm://dataset/"
ZONES = ("published", "processed")
Edge = tuple[str, str]  # the address and the digest of what was read


class Use(NamedTuple):
    """Somebody read this."""

    address: str
    digest: str
    number: int  # of the run, in the ledger
    run_id: str


def used(inputs: Iterable[Item], moves: Sequence[RefMove], *, made: bool) -> list[Edge]:
    """What a run that committed read, once each and in its order; `made`: it made a version.

    Where the ref of an operation was before is not used by it: what stands there now is not made of that. Nor does
    anything come of what moved neither a processed nor a published ref.
    """
    if not made and not any(move.ref.startswith(("processed/", "published/")) for move in moves):
        return []
    own = set() if made else {REF + move.ref for move in moves}
    return list(dict.fromkeys((item.id, item.checksum) for item in inputs if item.id not in own))


def used_by(receipt: Receipt) -> list[Edge]:
    """The same, out of the receipt; nothing unless it committed."""
    if receipt.status != "SUCCESS":
        return []
    return used(receipt.inputs, receipt.moves, made=bool(made_by(receipt)))


def made_by(receipt: Receipt) -> str:
    """The digest of the version that it made, also where that was there already; empty: none."""
    return next((item.checksum for item in receipt.outputs if item.kind == "dataset"), "")


def version_named(address: str, digest: str) -> tuple[str, str] | None:
    """The dataset and the digest of a version that was read; None: it was something else."""
    zone, _, dataset = address.removeprefix(REF).partition("/")
    if address.startswith(DATASET):
        return address.removeprefix(DATASET), digest
    return (dataset, digest) if address.startswith(REF) and zone in ZONES else None
