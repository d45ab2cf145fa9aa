"""`kfm backup`: copies the state as of one moment, and every object that is not there yet, while others work.

Objects never change, so only those that are new since the last backup are copied. The state is read as of one moment,
before the objects: every object that it names is there by then. A state of an older format is copied as it is, so the
program that wrote it can restore it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.backup.backup_place import BackupPlace
from kfm.app.backup.backup_record import FORMAT, BackupRecord, BackupTable, name_of, pieces_of, read_record
from kfm.app.move.state_move import check_ledger
from kfm.app.move.table_copy import COPIED, Row, RowSum, rows_of
from kfm.app.session.backends import open_objects_at, open_stored, open_tables
from kfm.clock import rfc3339
from kfm.config.setting_values import leaves
from kfm.errors import Corrupt, Refused, Unavailable
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.parsing.documents import dotted
from kfm.store.state import StoredState
from kfm.store.state_formats import upgraded

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.config import Resolved
    from kfm.model.ports import Tables

Progress = Callable[[str, int, int], None]
TURNS = 3
_LISTED = 10_000  # digests in one piece of the list of objects
_SECRETS = ("password", "token", "access_key", "secret_key", "session_token", "sign_with", "secrets", "key")


class Backup(NamedTuple):
    """What a backup holds, and how much of it is new."""

    name: str
    record: BackupRecord
    new: int  # pieces and objects that were not there
    size: int  # their bytes


def back_up(resolved: Resolved, place: BackupPlace, clock: Clock, progress: Progress) -> Backup:
    """Take a backup. Raise Corrupt for a damaged row or object; Refused if the place has those of another
    installation, or there is nothing yet; Unavailable if `kfm gc` removes objects again and again meanwhile."""
    for _ in range(TURNS):
        try:
            return _taken(resolved, place, clock, progress)
        except _Collected:
            continue
    raise Unavailable("objects were removed while the backup was taken", hint="wait for `kfm gc`, and take it again")


class _Collected(Exception):
    """`kfm gc` ran since the state was read, so an object that this state names may be gone."""


def _gc_of(tables: Tables) -> bytes | None:
    """Return what the state says of the last `kfm gc`."""
    return tables.get("refs", refs.maintenance("gc"))


def _check_not_collected(resolved: Resolved, before: bytes | None) -> None:
    tables = open_tables(resolved, "read")
    try:
        if _gc_of(tables) != before:
            raise _Collected
    finally:
        tables.close()


def _taken(resolved: Resolved, place: BackupPlace, clock: Clock, progress: Progress) -> Backup:
    tables, state_format = open_stored(resolved)
    try:
        collected = _gc_of(tables)
        taken = rfc3339(clock.now_ms())
        first = next(rows_of(tables, "ledger"), None)
        if first is None:
            raise Refused("there is nothing to back up: nothing was run yet", hint="run a dataset first")
        installation = digest(first[1])
        check_same(place, installation)
        check_ledger(resolved, upgraded(tables, state_format), clock, "of this state")
        if not place.records.is_begun():
            place.records.begin()
        copy = _Copy(place, progress)
        kept = tuple(copy.table(tables, table) for table in COPIED)
        last = next(tables.scan("ledger", reverse=True, limit=1))
        try:
            names = sorted(copy.objects(resolved, tables, clock))
        finally:
            _check_not_collected(resolved, collected)
    finally:
        tables.close()
    listed = [canonical(names[at : at + _LISTED]) for at in range(0, len(names), _LISTED)]
    record = BackupRecord(
        backup=FORMAT,
        taken=taken,
        installation=installation,
        ledger=int(last[0]),
        state_format=state_format,
        objects=tuple(copy.put(body) for body in listed),
        count=len(names),
        objects_at=resolved.config.objects,
        publish_at=resolved.config.publish,
        lacks=lacking(resolved),
        tables=kept,
    )
    name = name_of(record)
    place.records.write(name, canonical(record))
    return Backup(name, record, copy.new, copy.size)


def check_same(place: BackupPlace, installation: str) -> None:
    """Raise Refused if the newest backup there is of another installation, or if something else is there."""
    place.check_foreign()
    names = place.records.names()
    if names and read_record(place, names[-1]).installation != installation:
        raise Refused(f"{place.url} holds backups of another installation", hint="name a place of its own")


def lacking(resolved: Resolved) -> tuple[str, ...]:
    """Return the settings that refer to keys and secrets: no backup holds these."""
    found = leaves(msgspec.to_builtins(resolved.config), ())
    named = {dotted(path) for path, value in found if value and any(part in _SECRETS for part in path[-2:])}
    told = {path for path in named if resolved.origins.get(path) != "default"}
    return tuple(sorted(told | {f"custodians.{name}" for name in resolved.config.custodians}))


class _Copy:
    """Writes what is not there yet."""

    def __init__(self, place: BackupPlace, progress: Progress) -> None:
        self._place, self._progress = place, progress
        self._known = place.known()
        self.new = self.size = 0

    def put(self, body: bytes) -> str:
        name = digest(body)
        if name not in self._known:
            if self._place.put([body]) != name:
                raise Corrupt("the place of the backup stored other bytes", hint="check the disk or the server there")
            self._count(name, len(body))
        return name

    def _count(self, name: str, size: int) -> None:
        self._known.add(name)
        self.new += 1
        self.size += size

    def table(self, tables: Tables, table: str) -> BackupTable:
        total = RowSum(table)

        def counted() -> Iterator[Row]:
            for key, value in rows_of(tables, table):
                total.add(key, value)
                yield key, value

        self._progress("state", COPIED.index(table), len(COPIED))
        pieces = tuple(map(self.put, pieces_of(counted())))
        found = total.found()
        return BackupTable(
            table=table, rows=found.rows, bytes=found.size, digest=f"sha256:{found.digest}", pieces=pieces
        )

    def objects(self, resolved: Resolved, tables: Tables, clock: Clock) -> Iterator[str]:
        """Copy the objects that are no rows of the state; yield the digest of each."""
        source = open_objects_at(resolved, resolved.config.objects, StoredState(tables, clock.now_ms))
        names = list(source.large())
        for count, name in enumerate(names):
            if name not in self._known:
                self._progress("objects", count, len(names))
                size = 0

                def pieces(name: str = name) -> Iterator[bytes]:
                    nonlocal size
                    with source.open(name) as file:
                        while piece := file.read(1 << 20):
                            size += len(piece)
                            yield piece

                if self._place.put(pieces()) != name:
                    raise Corrupt(f"object {name} has other bytes at {self._place.url}", hint="check what is there")
                self._count(name, size)
            yield name
