"""`kfm move --to` objects: copies every object that the state names to another place, by digest.

Objects never change, so nearly all of them are copied while others work. Only for the last ones, and for the row that
says where the objects are from then on, all other writers of the state stop. An object that is there already is read
and compared, so a move that was interrupted goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

import msgspec

from kfm.app.move.move_claim import Claim, brake, new_move, now_of
from kfm.app.move.state_move import Terms
from kfm.app.move.table_copy import COPIED, rows_of
from kfm.app.session.backends import open_objects_at, open_tables_at
from kfm.app.session.object_names import NameReader, names_in, packed, unpacked
from kfm.app.session.state_place import at_home, problem_of_place, read_place
from kfm.crypto.encryption import MAGIC
from kfm.errors import Corrupt, KfmError
from kfm.store.state import StoredState

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.model.ports import Tables

THREADS = 8
WAIT_S = 60.0  # for workers that began after the objects were copied, at least
_STEP = 10_000  # rows between two renewals of the claim


class ObjectFiles(Protocol):
    """An object store as a move sees it: the objects that are not rows of the state."""

    def large(self) -> Iterator[str]: ...

    def open(self, digest: str) -> BinaryIO: ...

    def is_damaged(self, digest: str, since_ms: int) -> bool: ...

    def put_large(self, chunks: Iterable[bytes]) -> str: ...


class ObjectMove(NamedTuple):
    """What a move of the objects did, or would do."""

    objects: int  # objects at the new place, or to be moved
    size: int  # their bytes
    copied: int  # how many of them were not there yet
    left: int  # objects that the state does not name; they stay behind
    done: bool  # False if the objects were moved there before, or nothing was written


class _Copied(NamedTuple):
    digest: bytes
    size: int
    was_there: bool
    names: set[bytes]  # the digests in its bytes
    is_opaque: bool  # whether it is encrypted, so that it may name others


def move_objects(resolved: Resolved, to: str, terms: Terms, *, everything: bool = False) -> ObjectMove:
    """Copy the objects to another place and let the state say that they are there. Raise Corrupt for a damaged object;
    then the old place stays in force."""
    tables = open_tables_at(resolved, resolved.config.state, "write")
    try:
        place = read_place(tables)
        if (problem := problem_of_place(place, now_of(tables, terms.clock))) is not None:
            raise problem
        if place.objects and resolved.location(place.objects) == resolved.location(to):
            return ObjectMove(0, 0, 0, 0, done=False)
        copy = _Copy(resolved, tables, to, terms, everything=everything, dry=False)
        copy.run(None)
        wait_s = max(terms.wait_s, WAIT_S)
        leaving = brake(tables, terms.clock, what="objects", to=to, move=new_move(), wait_s=wait_s, waits=terms.waits)
        try:
            copy.run(leaving)
            leaving.change(msgspec.structs.replace(at_home(leaving.place), objects=to))
        except BaseException:
            with suppress(KfmError):
                leaving.change(at_home(leaving.place))
            raise
        return copy.result(done=True)
    finally:
        with suppress(KfmError):
            tables.close()


def preview_objects(resolved: Resolved, to: str, terms: Terms, *, everything: bool = False) -> ObjectMove:
    """Return what would be moved. Every object is read; nothing is written."""
    tables = open_tables_at(resolved, resolved.config.state, "dry")
    try:
        copy = _Copy(resolved, tables, to, terms, everything=everything, dry=True)
        copy.run(None)
        return copy.result(done=False)
    finally:
        tables.close()


class _Copy:
    """The objects that were copied so far. `run` copies what it finds in the state, and what that names in turn."""

    def __init__(
        self, resolved: Resolved, tables: Tables, to: str, terms: Terms, *, everything: bool, dry: bool
    ) -> None:
        state = StoredState(tables, terms.clock.now_ms)
        self._tables = tables
        self._terms = terms
        self._source: ObjectFiles = open_objects_at(
            resolved, read_place(tables).objects or resolved.config.objects, state
        )
        self._target: ObjectFiles = open_objects_at(resolved, to, state)
        self._everything = everything
        self._dry = dry
        self._known: set[bytes] = set()  # every object at the old place
        self._asked: set[bytes] = set()
        self._found: list[tuple[int, bool]] = []  # the size of each object, and whether it was there

    def result(self, *, done: bool) -> ObjectMove:
        return ObjectMove(
            objects=len(self._found),
            size=sum(size for size, _ in self._found),
            copied=sum(not was_there for _, was_there in self._found),
            left=len(self._known - self._asked),
            done=done,
        )

    def run(self, claim: Claim | None) -> None:
        """Copy everything that is not copied yet, with several threads."""
        self._known = {packed(name) for name in self._source.large()}
        wanted = self._known if self._everything else self._named(claim)
        with ThreadPoolExecutor(THREADS) as threads:
            running: set[Future[_Copied]] = set()
            try:
                self._start(threads, running, wanted)
                while running:
                    ended, running = wait(running, timeout=1, return_when=FIRST_COMPLETED)
                    for each in ended:
                        self._start(threads, running, self._taken(each.result()))
                    if claim is not None:
                        claim.beat()
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise

    def _start(self, threads: ThreadPoolExecutor, running: set[Future[_Copied]], wanted: Iterable[bytes]) -> None:
        for digest in sorted(self._known.intersection(wanted) - self._asked):
            self._asked.add(digest)
            running.add(threads.submit(self._copied, digest))

    def _taken(self, copied: _Copied) -> set[bytes]:
        """Count a copied object; return what must be copied because of it."""
        self._found.append((copied.size, copied.was_there))
        self._terms.progress("read" if self._dry else "copy", len(self._found), len(self._asked))
        if copied.is_opaque:  # nobody can tell what it names
            self._everything = True
            return self._known
        return copied.names

    def _named(self, claim: Claim | None) -> set[bytes]:
        """Return every digest in the rows of the state."""
        named: set[bytes] = set()
        count = 0
        for table in COPIED:
            for key, value in rows_of(self._tables, table):
                named.update(names_in(value))
                named.update(names_in(key.encode()))
                if table == "objects" and value.startswith(MAGIC):
                    self._everything = True
                count += 1
                if claim is not None and count % _STEP == 0:
                    claim.beat()
        return self._known if self._everything else named

    def _copied(self, name: bytes) -> _Copied:
        """Copy one object, unless it is at the new place, undamaged. Raise Corrupt if it is damaged at the old one."""
        digest = unpacked(name)
        reader = NameReader(self._source.open(digest))
        was_there = not self._target.is_damaged(digest, 0)
        if self._dry or was_there:
            for _ in reader:
                """Its bytes are compared with its digest, and may name other objects."""
        elif self._target.put_large(reader) != digest or self._target.is_damaged(digest, 0):
            raise Corrupt(
                f"object {digest} has other bytes at the new place",
                hint="the objects stay where they are; look at the disk or the server there, then move again",
            )
        return _Copied(name, reader.size, was_there, reader.names, reader.is_opaque)
