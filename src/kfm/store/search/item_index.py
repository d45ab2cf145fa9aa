"""An index of STAC items in a SQLite file of its own: by place (R*Tree), by time, and by id.

It is only an index: a file that is damaged, or of another format, is deleted and made anew. It finds; what may be shown
is decided elsewhere, and a search names the datasets it may see, each with the mark of its content. Each dataset is a
part of its own in every table: all reads begin with the number of a part, so rows of other datasets influence neither
what is found nor how long that takes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import apsw
import msgspec

from kfm.errors import BadInput, Busy, StorageFailed, Unavailable
from kfm.fsio import REAL, failing_as_storage
from kfm.model.search.item_query import IndexedItem, ItemPage, ItemQuery
from kfm.parsing.instants import DAY_MS, OPEN_END, OPEN_START
from kfm.parsing.planar_geometry import Box, NoShape, halves, is_box, shape_of
from kfm.store.locks import FileLock
from kfm.store.search.filter_sql import BOX_SHAPE, NO_SHAPE, NO_TIME, OTHER_SHAPE
from kfm.store.search.item_reader import DamagedIndex, IndexReader
from kfm.store.search.item_schema import APART, APPLICATION_ID, FORMAT, SCHEMA, Part, row_check

_BATCH = 500  # items that are written together
_CACHE = 32_768  # KiB of pages in memory, for each connection
_MOST_WAITS = 2_000  # of 5 ms, for another process that opens the file
_BUSY_MS = 10_000
_MOST_POINTS = 1_000_000  # of the geometry of one item; one with more is found by its box


class _Body(msgspec.Struct):
    geometry: object = None


_decode_body = msgspec.json.Decoder(_Body).decode


class ItemIndex:
    """The index in one file. Threads of one process read next to one writer; several processes may hold it open."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()  # guards the free readers
        self._writing = threading.Lock()
        self._free: list[IndexReader] = []
        self._file: tuple[int, int] | None = None  # which file the free readers read
        self._give(self._reader())

    def versions(self) -> dict[str, str]:
        """Return what the index holds: the mark of each dataset."""
        with self._reading() as reader:
            rows = reader.db.execute("SELECT dataset, mark FROM parts ORDER BY dataset")
            return {str(dataset): str(mark) for dataset, mark in rows}

    def search(self, query: ItemQuery) -> ItemPage:
        """Return a page of items. Raise BadInput if the search would take too long, Unavailable if the file was
        damaged: it is empty then, and its owner fills it again."""
        with self._reading() as reader:
            return reader.search(query)

    def item(self, dataset: str, mark: str, name: str) -> bytes | None:
        """Return the body of one item; None if the dataset has no such item, or another mark."""
        with self._reading() as reader:
            for part in reader.parts({dataset: mark}):
                row = reader.db.execute("SELECT n FROM items WHERE part = ? AND id = ?", (part.n, name)).fetchone()
                return None if row is None else reader.body(row[0], dataset, name)
        return None

    def replace(self, dataset: str, mark: str, items: Iterable[IndexedItem]) -> None:
        """Replace all items of a dataset in one transaction; readers see the old ones until it is done. Raise BadInput
        if two items have one id."""
        with self._changing() as db:
            _remove(db, dataset)
            _add(db, dataset, mark, items)

    def remove(self, dataset: str) -> None:
        with self._changing() as db:
            _remove(db, dataset)

    def close(self) -> None:
        with self._lock:
            free, self._free = self._free, []
        for reader in free:
            reader.db.close()

    @contextmanager
    def _reading(self) -> Iterator[IndexReader]:
        reader = self._take()
        try:
            with self._mended(reader.db):
                reader.db.execute("BEGIN")
                try:
                    yield reader
                finally:
                    with suppress(apsw.Error):
                        reader.db.execute("ROLLBACK")
        except BaseException:
            reader.db.close(True)
            raise
        self._give(reader)

    @contextmanager
    def _changing(self) -> Iterator[apsw.Connection]:
        with self._writing:
            db = self._take().db
            try:
                with self._mended(db):
                    db.execute("BEGIN IMMEDIATE")
                    try:
                        yield db
                    except BaseException:
                        with suppress(apsw.Error):
                            db.execute("ROLLBACK")
                        raise
                    db.execute("COMMIT")
                    with suppress(apsw.BusyError, apsw.LockedError):  # a reader may still need the log
                        db.set_busy_timeout(50)
                        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                db.close(True)

    @contextmanager
    def _mended(self, db: apsw.Connection) -> Iterator[None]:
        """Turn errors of the database into those of KFM. A damaged file is made anew."""
        try:
            with _failing_as_ours():
                yield
        except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, DamagedIndex) as problem:
            damaged = self._file
            db.close(True)
            self._rebuild(damaged)
            raise Unavailable(
                "the index of items was damaged and is empty now", hint="try again when it is filled"
            ) from problem

    def _take(self) -> IndexReader:
        with self._lock:
            if self._free and self._at() == self._file:
                return self._free.pop()
            stale, self._free = self._free, []
        for reader in stale:
            reader.db.close(True)
        return self._reader()

    def _give(self, reader: IndexReader) -> None:
        with self._lock:
            if self._at() == self._file:
                self._free.append(reader)
                return
        reader.db.close(True)

    def _at(self) -> tuple[int, int] | None:
        """Return which file is at the path: another process may have made it anew."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _reader(self) -> IndexReader:
        with self._opening(), _failing_as_ours():
            try:
                db = self._opened()
            except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, _OtherFormat):
                self._delete()
                db = self._opened()
            self._file = self._at()
        return IndexReader(db)

    def _rebuild(self, damaged: tuple[int, int] | None) -> None:
        with self._opening(), _failing_as_ours():
            if damaged is not None and self._at() == damaged:
                self._delete()
                self._opened().close(True)

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Let one process at a time open the file: it may have to delete it."""
        with failing_as_storage("open the index of items"):
            REAL.make_dirs(os.path.dirname(self._path) or ".")
            lock = FileLock(self._path + ".lock")
            try:
                for _ in range(_MOST_WAITS):
                    if lock.take():
                        break
                    time.sleep(0.005)
                else:
                    raise Busy("another process is opening the index of items", hint="try again later")
                yield
            finally:
                lock.close()

    def _delete(self) -> None:
        for ending in ("-wal", "-shm", "-journal", ""):
            REAL.unlink(self._path + ending)

    def _opened(self) -> apsw.Connection:
        db = apsw.Connection(self._path, statementcachesize=100)
        try:
            # The last connection to a file that was deleted must not delete the log of the file that took its place.
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            db.set_busy_timeout(_BUSY_MS)
            run = db.execute
            run("PRAGMA trusted_schema=OFF")
            if not run("SELECT count(*) FROM sqlite_schema").fetchone()[0]:  # type: ignore[index]
                os.chmod(self._path, 0o600)
                run("PRAGMA journal_mode=WAL").fetchall()
                run("BEGIN IMMEDIATE")
                run(SCHEMA)
                run("COMMIT")
            marks = tuple(run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))  # type: ignore[index]
            names = {name for (name,) in run("SELECT name FROM sqlite_schema")}
            if marks != (APPLICATION_ID, FORMAT) or not {"parts", "items", "bodies", "tree", "by_time"} <= names:
                raise _OtherFormat
            run("PRAGMA journal_mode=WAL").fetchall()
            run("PRAGMA synchronous=NORMAL")
            run(f"PRAGMA cache_size=-{_CACHE}")
        except BaseException:
            db.close(True)
            raise
        return db


@contextmanager
def _failing_as_ours() -> Iterator[None]:
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as problem:
        raise Busy("another process is writing the index of items", hint="try again later") from problem
    except (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as problem:
        raise StorageFailed(
            "the disk refused to read or write the index of items", hint="free space, or check its folder"
        ) from problem


class _OtherFormat(Exception):
    """The file is a database, but not this index in this format."""


def _remove(db: apsw.Connection, dataset: str) -> None:
    found = db.execute("SELECT n FROM parts WHERE dataset = ?", (dataset,)).fetchone()
    if found is None:
        return
    (part,) = found
    low = part * APART
    db.execute("DELETE FROM tree WHERE low >= ? AND low <= ?", (low, low))
    db.execute("DELETE FROM bodies WHERE n IN (SELECT n FROM items WHERE part = ?)", (part,))
    db.execute("DELETE FROM items WHERE part = ?", (part,))
    db.execute("DELETE FROM parts WHERE n = ?", (part,))


def _add(db: apsw.Connection, dataset: str, mark: str, items: Iterable[IndexedItem]) -> None:
    part = _next(db, "parts")
    first_n = n = _next(db, "items")
    first, last, longest = OPEN_END, OPEN_START, 0
    for batch in _batches(items):
        rows, bodies, boxes = [], [], []
        for item in batch:
            start, end = _times(item)
            if start != NO_TIME:
                first, last, longest = min(first, start), max(last, end), max(longest, end - start)
            box, shape = item.bbox, _kind(item)
            west, south, east, north = box or (None, None, None, None)
            properties = msgspec.json.encode(item.properties).decode()
            rows.append((n, part, item.id, start, end, west, south, east, north, shape, properties))
            bodies.append((n, row_check(dataset, n, item.id, item.body), item.body))
            if box is not None:
                boxes += list(_branches(n, part, box, start, end))
            n += 1
        try:
            db.executemany("INSERT INTO items VALUES(?,?,?,?,?,?,?,?,?,?,jsonb(?))", rows)
        except apsw.ConstraintError:
            raise BadInput("two items of a dataset have one id", hint="give each item an id of its own") from None
        db.executemany("INSERT INTO bodies VALUES(?,?,?)", bodies)
        db.executemany("INSERT INTO tree VALUES(?,?,?,?,?,?,?,?,?)", boxes)
    made = Part(part, dataset, mark, n - first_n, first, last, longest)
    db.execute("INSERT INTO parts VALUES(?,?,?,?,?,?,?,?)", (*made, made.check()))


def _next(db: apsw.Connection, table: str) -> int:
    (found,) = db.execute(f"SELECT coalesce(max(n), 0) + 1 FROM {table}").fetchone() or (1,)  # noqa: S608
    return int(found)


def _batches(items: Iterable[IndexedItem]) -> Iterator[list[IndexedItem]]:
    held = []
    for item in items:
        held.append(item)
        if len(held) == _BATCH:
            yield held
            held = []
    if held:
        yield held


def _times(item: IndexedItem) -> tuple[int, int]:
    if item.start_ms is None and item.end_ms is None:
        return NO_TIME, NO_TIME
    return (
        OPEN_START if item.start_ms is None else item.start_ms,
        OPEN_END if item.end_ms is None else item.end_ms,
    )


def _kind(item: IndexedItem) -> int:
    if item.bbox is None:
        return NO_SHAPE
    try:
        geometry = _decode_body(item.body).geometry
        if geometry is None or is_box(shape_of(geometry, _MOST_POINTS, on_earth=False), item.bbox):
            return BOX_SHAPE
    except (NoShape, msgspec.DecodeError):
        return BOX_SHAPE
    return OTHER_SHAPE


def _branches(n: int, part: int, box: Box, start: int, end: int) -> Iterator[tuple[float, ...]]:
    """Yield one row of the R*Tree, or two if the box crosses the antimeridian."""
    first, last = (OPEN_START, OPEN_END) if start == NO_TIME else (start, end)
    low = part * APART
    for half, (west, south, east, north) in enumerate(halves(box)):
        yield n * 2 + half, west, east, south, north, first / DAY_MS, last / DAY_MS, low, low + 1
