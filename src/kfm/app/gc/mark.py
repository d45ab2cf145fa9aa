"""What the state reaches: every object that a row of it names, and every object that such an object names.

It is read from one snapshot, and kept on the disk, because there may be millions of objects. Nothing is told apart by
its kind: a digest anywhere in a row keeps the object, be it in a ref, a ledger entry or a note of a sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kfm.app.move.table_copy import COPIED, rows_of
from kfm.app.session.backends import open_objects_at
from kfm.app.session.object_names import NameReader, names_in, packed, unpacked
from kfm.app.session.protection_files import custodians_of
from kfm.crypto.encryption import MAGIC
from kfm.engine.protected.encrypted_objects import DecryptingObjects, plain
from kfm.engine.protected.unjudged_objects import derived
from kfm.errors import Corrupt, Denied
from kfm.store.retention.object_marks import ASIDE, LARGE, SMALL, ObjectMarks
from kfm.store.retention.receipt_rows import whole_row
from kfm.store.state import StoredState

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.crypto.custodian_key import CustodianKey
    from kfm.engine.protected.protection import Protection
    from kfm.model.ports import Tables
    from kfm.store.retention.object_marks import Listed
    from kfm.store.stored_objects import StoredObjects

Progress = Callable[[str, int, int], None]


def mark(resolved: Resolved, tables: Tables, now_ms: Callable[[], int], progress: Progress) -> ObjectMarks:
    """Return all objects, and which of them these tables reach. Corrupt if one of them is damaged, and Denied if the
    key of an encrypted one is missing: then nobody can tell what it names."""
    state = StoredState(tables, now_ms)
    objects = open_objects_at(resolved, resolved.config.objects, state)
    marks = ObjectMarks()
    try:
        marks.add(_listed(state, objects))
        _Walk(resolved, tables, objects, marks, progress).run()
    except BaseException:
        marks.close()
        raise
    return marks


def _listed(state: StoredState, objects: StoredObjects) -> Iterator[Listed]:
    for name, size in objects.in_folders():
        yield packed(name), LARGE, size, 0
    for name, body in state.inline_objects():
        yield packed(name), SMALL, len(body), 0
    for name, aside in state.aside_objects():
        yield packed(name), ASIDE, aside.size, aside.since_ms


class _Walk:
    """Reads the rows of the state, and then every object that was reached, until there is none that was not read."""

    def __init__(
        self, resolved: Resolved, tables: Tables, objects: StoredObjects, marks: ObjectMarks, progress: Progress
    ) -> None:
        self._tables, self._marks, self._progress = tables, marks, progress
        self._objects = objects
        self._keys = partial(_key_of, custodians_of(resolved))
        self._readable = DecryptingObjects(objects, self._keys)

    def run(self) -> None:
        self._marks.reach(self._named_by_rows())
        read = 0
        while batch := self._marks.next_to_read():
            self._progress("mark", read, read + len(batch))
            read += len(batch)
            self._marks.reach(name for each, places in batch for name in self._named_by(unpacked(each), places))

    def _named_by_rows(self) -> Iterator[bytes]:
        for number, table in enumerate(COPIED):
            self._progress("rows", number, len(COPIED))
            if table == "objects":
                continue
            for key, value in rows_of(self._tables, table):
                yield from names_in(key.encode())
                yield from names_in(self._shown(table, value))

    def _shown(self, table: str, value: bytes) -> bytes:
        if not value.startswith(MAGIC):
            return whole_row(self._tables, table, value)
        try:
            return plain(value, self._keys)
        except Denied as problem:
            raise _missing_key(problem) from problem

    def _named_by(self, digest: str, places: int) -> set[bytes]:
        try:
            reader = NameReader(self._readable.open(digest), all_of_it=not places & LARGE)
            for _ in reader:
                """Its names are gathered."""
        except Denied as problem:
            raise _missing_key(problem) from problem
        except Corrupt:
            if self._objects.holds(digest):
                raise
            return set()  # removed meanwhile, as bytes are after the verdict of the leak check
        return reader.names


def _key_of(custodians: Protection, key_id: str) -> CustodianKey | None:
    """Return the custodian's key of this id, or the one that is derived from it for bytes that wait for a verdict."""
    found = custodians.with_id(key_id)
    if found is not None:
        return found
    return next((one for key in custodians.at_hand() if (one := derived(key)).key_id == key_id), None)


def _missing_key(problem: Denied) -> Denied:
    return Denied(
        "a custodian's key is missing, so nobody can tell which objects the encrypted records name",
        hint="type the command where the key is at hand; nothing was removed",
        rule=problem.fields.get("rule", "key.missing"),
    )
