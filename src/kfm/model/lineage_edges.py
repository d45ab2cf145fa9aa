"""Which facts of a run are edges of the lineage graph: one rule for writing the graph and for checking it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from kfm.model import refs
from kfm.model.operation_target import REF
from kfm.model.records import Item, Receipt, RefMove

DATASET = "kfm://dataset/"
Zone = Literal["processed", "published"]
ZONES: tuple[Zone, ...] = ("published", "processed")
Edge = tuple[str, str]  # the address and the digest of what was read


class Use(NamedTuple):
    """An edge of the lineage graph: a run read this address."""

    address: str
    digest: str
    number: int  # of the run in the ledger
    run_id: str


def used(inputs: Iterable[Item], moves: Sequence[RefMove], *, made: bool) -> list[Edge]:
    """Return what a committed run read, once each and in order; `made` says whether it made a version.

    An operation does not use the version its ref pointed to before: the new version is not made of it. A run that moved
    neither a ref of versions nor one of hotfixes has no edges.
    """
    if not made and not any(move.ref.startswith(refs.SHOWN) for move in moves):
        return []
    own = set() if made else {REF + move.ref for move in moves}
    return list(dict.fromkeys((item.id, item.checksum) for item in inputs if item.id not in own))


def used_by(receipt: Receipt) -> list[Edge]:
    """Return the inputs that the run of this receipt used, as `used` does; empty unless the run committed."""
    if receipt.status != "SUCCESS":
        return []
    return used(receipt.inputs, receipt.moves, made=bool(made_by(receipt)))


def made_by(receipt: Receipt) -> str:
    """Return the digest of the version that the run made, even if it existed already; empty if it made none."""
    return next((item.checksum for item in receipt.outputs if item.kind == "dataset"), "")


def version_named(address: str, digest: str) -> tuple[str, str] | None:
    """Return the dataset and digest of a version that was read; None if it was something else."""
    zone, _, dataset = address.removeprefix(REF).partition("/")
    if address.startswith(DATASET):
        return address.removeprefix(DATASET), digest
    return (dataset, digest) if address.startswith(REF) and zone in ZONES else None
