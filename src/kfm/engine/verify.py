"""Reads and checks every object, version and ledger entry, for `kfm doctor --deep`."""

from __future__ import annotations

from kfm.errors import Corrupt, Denied
from kfm.model import manifests, refs
from kfm.model.keys import GENESIS, digest
from kfm.model.names import is_digest
from kfm.model.ports import Objects, State
from kfm.model.preview_records import is_made
from kfm.model.records import Record


class Report(Record, frozen=True):
    entries: int
    objects: int
    closed: int = 0  # encrypted versions whose key is missing, so that their entries were not checked


def verify(state: State, objects: Objects, readable: Objects | None = None) -> Report:
    """Read and check every object, version and ledger entry, and return the counts. Raise Corrupt at the first damage.
    `readable` decrypts objects whose key is available."""
    entries = _ledger(state)
    seen: set[str] = set()
    closed: set[str] = set()

    def version(manifest: str) -> None:
        try:
            _version(readable or objects, objects, manifest, seen)
        except Denied:
            closed.add(manifest)

    for name, target in state.refs.all():
        if is_digest(target):
            _object(objects, target, seen)
            if name.startswith(refs.VERSIONS) or is_made(name):
                version(target)
    for entry in state.refs.histories():  # also versions without a ref, because a rollback can reach them
        if is_digest(entry.after):
            _object(objects, entry.after, seen)
            if entry.ref.startswith(refs.VERSIONS):
                version(entry.after)
    return Report(entries=entries, objects=len(seen), closed=len(closed))


def _ledger(state: State) -> int:
    """Return the number of ledger entries. Corrupt if one is missing or altered. Entries that other workers add
    meanwhile are read, too."""
    previous, count = GENESIS, 0
    first = True
    while True:
        before = count
        for entry, link in state.ledger.links(after=count):
            count += 1
            if entry.index != count or entry.prev != previous:
                raise Corrupt(
                    f"ledger entry {count} is missing or altered", hint="restore the state from a copy", record=count
                )
            receipt = state.ledger.receipt_body(entry.run_id)
            if receipt is None or digest(receipt) != entry.receipt_digest:
                raise Corrupt(
                    f"the receipt of ledger entry {count} is missing or altered", hint="restore the state from a copy"
                )
            previous = link
        if state.ledger.head() == (previous if count else ""):
            return count
        if not first and count == before:
            raise Corrupt(f"the ledger ends before its head, after entry {count}", hint="restore the state from a copy")
        first = False


def _object(objects: Objects, name: str, seen: set[str]) -> None:
    if name in seen:
        return
    with objects.open(name) as file:
        while file.read(1 << 20):
            pass
    seen.add(name)


def _version(readable: Objects, objects: Objects, manifest: str, seen: set[str]) -> None:
    for part in manifests.parts(readable, manifest):
        _object(objects, part, seen)
    for entry in manifests.entries(readable, manifest):
        _object(objects, entry.digest, seen)
