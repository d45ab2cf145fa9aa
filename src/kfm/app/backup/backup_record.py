"""The record of one backup, and the rows of the state as pieces by digest.

Pieces end where the keys say, not where the bytes do. So a row that was added or changed makes one or two new pieces,
and all others are the ones of the last backup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal
from zlib import crc32

import msgspec

from kfm.app.backup.backup_place import BackupPlace
from kfm.app.move.table_copy import Row, TableSum
from kfm.errors import BadInput, Corrupt, Refused
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Record

FORMAT: Literal[1] = 1
LEAST, MOST = 64 << 10, 2 << 20  # bytes of a piece
_ENDS = 64  # after LEAST bytes, one key in so many ends a piece
_TIME = re.compile(r"[0-9]{8}(?:T[0-9]{2}(?:[0-9]{2}(?:[0-9]{2})?)?)?")
_rows = msgspec.msgpack.Decoder(list[tuple[str, bytes]])


class BackupTable(Record, frozen=True):
    """One table of the state, with the digests of its pieces in the order of their keys."""

    table: str
    rows: int
    bytes: int
    digest: str  # over all keys and values
    pieces: tuple[str, ...] = ()

    def sum(self) -> TableSum:
        return TableSum(self.table, self.rows, self.bytes, self.digest[7:])


class BackupRecord(Record, frozen=True):
    """What a backup holds. Its name ends with the digest of this record."""

    backup: Literal[1]  # the format
    taken: str  # when the state was read
    installation: str  # the digest of the first entry of its ledger
    ledger: int  # entries of the ledger
    state_format: int
    objects: tuple[str, ...]  # digests of pieces; each lists digests of objects
    count: int  # objects
    objects_at: str  # the settings of the installation
    publish_at: str
    lacks: tuple[str, ...] = ()  # settings of keys and secrets, which no backup holds
    tables: tuple[BackupTable, ...] = ()

    def sums(self) -> list[TableSum]:
        return [each.sum() for each in self.tables]


def name_of(record: BackupRecord) -> str:
    """Return the name of a record: the time and the number of the last entry, so that names sort, and a digest, so that
    a damaged record is noticed."""
    stamp = "".join(filter(str.isalnum, record.taken))  # 20261118T235950774Z
    return f"{stamp}-{record.ledger:012}-{digest(canonical(record))[7:23]}"


def read_record(place: BackupPlace, name: str) -> BackupRecord:
    """Return a record. Raise Corrupt if it is not the one that was written, Refused for a newer format."""
    body = place.records.read(name)
    try:
        if msgspec.json.decode(body).get("backup") != FORMAT:
            raise Refused("this backup was made by a newer kfm", hint="install a newer kfm")
        record = msgspec.json.decode(body, type=BackupRecord)
    except (msgspec.MsgspecError, AttributeError):
        record = None
    if record is None or digest(body)[7:23] != name.rpartition("-")[2]:
        raise Corrupt(
            f"the record of backup {name} is damaged", hint=f"restore another one: `kfm backup {place.url} --list`"
        )
    return record


def chosen(place: BackupPlace, at: str) -> str:
    """Return the name of a backup: the newest, the newest of those that were taken by a time, or one by name."""
    names = place.records.names()
    if not names:
        raise BadInput(f"there is no backup at {place.url}", hint="check the address")
    if not at or at in names:
        return at or names[-1]
    time = at.replace("-", "").replace(":", "").partition(".")[0].removesuffix("Z")
    if not _TIME.fullmatch(time):
        raise BadInput("--at names neither a backup nor a time", hint=f"`kfm backup {place.url} --list` names them")
    fitting = [name for name in names if name[: len(time)] <= time]
    if not fitting:
        raise BadInput(f"the first backup is {names[0]}", hint="name a later time")
    return fitting[-1]


def pieces_of(rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield the rows of a table, cut into pieces."""
    batch: list[Row] = []
    size = 0
    for key, value in rows:
        batch.append((key, value))
        size += len(key) + len(value)
        if size >= MOST or (size >= LEAST and crc32(key.encode()) % _ENDS == 0):
            yield msgspec.msgpack.encode(batch)
            batch, size = [], 0
    if batch:
        yield msgspec.msgpack.encode(batch)


def objects_in(place: BackupPlace, record: BackupRecord) -> Iterator[str]:
    """Yield the digest of every object of a backup."""
    for piece in record.objects:
        yield from msgspec.json.decode(place.read(piece), type=list[str])


def digests_of(place: BackupPlace, record: BackupRecord) -> set[str]:
    """Return the digests of all bytes of a backup: the pieces of its tables, its lists of objects, and the objects."""
    pieces = (piece for table in record.tables for piece in table.pieces)
    return {*pieces, *record.objects, *objects_in(place, record)}


def rows_in(place: BackupPlace, table: BackupTable) -> Iterator[Row]:
    """Yield the rows of a table. Raise Corrupt if a piece is missing or has other bytes."""
    for piece in table.pieces:
        try:
            yield from _rows.decode(place.read(piece))
        except msgspec.MsgspecError as problem:
            raise Corrupt(f"piece {piece} of the backup cannot be read", hint="take another backup") from problem
