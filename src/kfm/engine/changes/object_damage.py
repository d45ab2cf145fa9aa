"""Finds stored bytes that are missing or damaged, as far as that is cheap before a run that may have nothing to do.

Small objects are read. A file is read only if it was written after the last good run: every program that changes its
bytes changes that time, too. Bytes that decayed on the disk are found by `kfm doctor --deep`, which reads everything.
"""

from __future__ import annotations

from itertools import islice

from kfm.clock import parse_instant
from kfm.engine.run_context import RunContext
from kfm.errors import Corrupt
from kfm.model import manifests
from kfm.model.ports import INLINE_MAX
from kfm.model.records import Checkpoint, DatasetVersion, ErrorNote

FEW = 100  # small objects of a version that are read
LOOKED_AT = 20  # ledger entries of the dataset that are searched for a good run


def is_whole(context: RunContext, digest: str, version: DatasetVersion | None) -> bool:
    """Return whether the objects of a version exist, have the right size and, as far as they are read, their bytes."""
    objects, since_ms = context.world.objects, last_good_ms(context)
    try:
        if version is not None and version.size <= INLINE_MAX:  # even the sum is small, so no object is a file
            few = islice(manifests.entries(objects, digest), FEW)
            return not any(objects.is_damaged(entry.digest, since_ms) for entry in few)
        return all(
            objects.size(entry.digest) == entry.size and not objects.is_damaged(entry.digest, since_ms)
            for entry in manifests.larger(objects, digest, INLINE_MAX)
        )
    except Corrupt:
        return False


def whole_checkpoint(context: RunContext, known: Checkpoint | None) -> Checkpoint | None:
    """Return the checkpoint of a public source if its stored bytes are whole; else None, so that they are fetched
    again."""
    if known is None or not known.content_hash:
        return known
    try:
        damaged = context.world.objects.is_damaged(known.content_hash, last_good_ms(context))
    except Corrupt:
        damaged = True
    if damaged:
        context.damaged.append(known.content_hash)
    return None if damaged else known


def last_good_ms(context: RunContext) -> int:
    """Return when a run of the dataset last ended well: it made the objects of its version, or found them whole. 0 if
    none did lately."""
    for entry in islice(context.world.state.ledger.entries_of(context.dataset), LOOKED_AT):
        if entry.op_type == context.updater.op and entry.outcome in ("done", "unchanged", "noop"):
            return parse_instant(entry.ts, "an entry")
    return 0


def damage_notes(context: RunContext, outcome: str) -> list[ErrorNote]:
    """Return the warning of a run that made damaged or missing bytes again; none for other runs."""
    if not context.damaged or outcome not in ("done", "unchanged"):
        return []
    message = "stored bytes were missing or damaged, and were made again; `kfm doctor --deep` reads all the others"
    return [ErrorNote(code="object.damaged", message=message)]
