"""Tables stored as a journal of lines: one framed, checksummed, hash-chained line is one transaction.

    <length of body> <sha256 of body> <body>\\n        body: [digest before, bytes synced before, writes]

A line with a fourth part names the format of the journal from there on: the first line of a new journal, and the
line that upgraded an older one (formats 1 to 3, which are alike here, have no such part). A program that does not
know the format stops at that line; the older programs stopped at any fourth part.

A write is ``[table, key, value]``, value null for a deletion. The tables are built from the lines when the file is
opened. Every line records how much of the journal was synced when it was written, and ``<path>.ack`` next to the
journal records the same after the last sync (it is not synced itself, so its number is never too high). This
distinguishes a torn tail, which was never acknowledged and is cut off and reported, from a damaged record, which
raises Corrupt.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress

import msgspec

from kfm.errors import Busy, Corrupt, KfmError, StorageFailed
from kfm.fsio import REAL, Fs, note_at, read_mark, read_note, storage_failed, write_mark, write_note
from kfm.model.ports import Lock
from kfm.store.locks import FileLock
from kfm.store.memory import MemoryTables
from kfm.store.state_formats import FORMAT, too_new, upgrade

GENESIS = hashlib.sha256(b"kfm jsonl journal 1").hexdigest()
Content = tuple[str, int, list[list[str | None]], int]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[str, int, list[list[str | None]]]).decode
_decode_format = msgspec.json.Decoder(Content).decode
_UNSAID = 3  # the format of a journal that names none
_SECTOR = 512  # bytes that a disk writes completely or not at all


class JsonlTables:
    """Tables over a journal of lines. A lock lets one thread at a time use them; processes take turns by the lock file
    ``<path>.lock``."""

    def __init__(
        self,
        path: str,
        fs: Fs = REAL,
        *,
        create: bool = True,
        upgrades: bool = True,
        lock: Callable[[str], Lock] = FileLock,
    ) -> None:
        self._fs = fs
        self._path = path
        self._lock = threading.RLock()
        self._rows = MemoryTables()
        self._head = GENESIS
        self._end = 0
        self._count = 0
        self._format = 0  # 0: no line yet
        self._written = 0  # count of these written by this process
        self._acked = 0
        self._open = False
        self._pending: list[list[str | None]] = []
        self._durable = True
        self._failed: StorageFailed | None = None
        self.repaired_bytes = 0  # length of a torn tail that was cut off on opening
        self._ack = -1
        self._fd = -1
        self._turn = lock(path + ".lock")
        try:
            if create:
                self._open_to_write(os.path.dirname(path) or ".")
            else:
                self._fd = fs.open_read(path)
                self._acked = note_at(fs, path + ".ack")
                self._catch_up(repair=False)
                if upgrades and self._is_older():  # in memory only: a reader writes nothing
                    upgrade(self._rows, self._format)
        except OSError as problem:
            self.close()
            raise storage_failed(problem, "open the journal") from problem
        except KfmError:
            self.close()
            raise

    def _open_to_write(self, folder: str) -> None:
        fs = self._fs
        if not fs.exists(self._path):
            fs.make_dirs(folder)
        self._fd = fs.open_append(self._path)
        self._ack = fs.open_write(self._path + ".ack")
        self._take_turn()
        if not fs.size(self._fd):  # new, or left by a process that died before it synced the name
            fs.make_dirs(folder)
            fs.sync_dir(folder)
        self._acked = read_note(fs, self._ack)
        self._catch_up(repair=True)
        if self._acked < self._end:  # complete lines that were never acknowledged: keep them
            self._sync()
        self._turn.release()
        if self._is_older():
            self.begin()
            self.commit()

    @property
    def format(self) -> int:
        """The format of the rows; 0 if there is none."""
        return self._format

    def _is_older(self) -> bool:
        return 0 < self._format < FORMAT

    # -- reading

    def get(self, table: str, key: str) -> bytes | None:
        with self._lock:
            self._look_again()
            return self._rows.get(table, key)

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        with self._lock:
            self._look_again()
            return self._rows.scan(table, prefix, after=after, reverse=reverse, limit=limit)

    def reading(self) -> AbstractContextManager[object]:
        return self._lock

    def verify(self) -> int:
        """Return the number of rows. Every line was checked when it was read."""
        with self._lock:
            self._look_again()
            return self._rows.verify()

    def _look_again(self) -> None:
        """Apply, before a read, the lines that other processes wrote, up to a line that may be incomplete."""
        if self._failed:
            raise self._failed
        if self._open or self._ack < 0:  # our own transaction, or a read-only view of one moment
            return
        try:
            size = self._fs.size(self._fd)
            if size > self._end:
                self._fold(size)
        except OSError as problem:
            raise self._fail(problem, "read the journal") from problem

    def _catch_up(self, *, repair: bool) -> None:
        """Apply, under the write lock, the lines written since the last read. Bytes after the last valid line are a
        torn tail or damage: with `repair`, cut off a torn tail; raise Corrupt for damage."""
        size = self._fs.size(self._fd)
        if self._end <= size < self._acked:
            self._fold(size)  # to count the complete records
            raise Corrupt(
                f"the journal is {self._acked - size} bytes shorter than what was acknowledged: "
                f"record {self._count + 1} is damaged or missing",
                hint=f"restore it from a copy made with {os.path.basename(self._path)}.ack; nothing was changed",
                record=self._count + 1,
            )
        if size < self._end:
            raise Corrupt(
                f"the journal shrank while in use, after record {self._count}",
                hint="restore it from a copy; nothing was changed",
                record=self._count,
            )
        rest = self._fold(size)
        if rest:
            self._judge_tail(rest, repair)
        elif repair and read_mark(self._fs, self._ack):  # a process was killed between cutting the tail and the sync
            self._end_cutting()

    def _fold(self, size: int) -> bytes:
        """Apply the valid lines of the journal up to byte `size`; return the bytes after the last valid line."""
        while self._end < size:
            consumed = self._fold_block(self._fs.read_at(self._fd, min(size - self._end, 1 << 22), self._end))
            if not consumed:
                rest = self._fs.read_at(self._fd, size - self._end, self._end)
                consumed = self._fold_block(rest)
                if not consumed:
                    return rest
            self._end += consumed
        return b""

    def _fold_block(self, block: bytes) -> int:
        """Apply the valid lines at the start of `block`; return their length in bytes."""
        start = 0
        while True:
            stop = block.find(b"\n", start)
            if stop < 0:
                return start
            line = _unframe(block[start:stop])
            if line is None or line[1][0] != self._head:
                return start
            if line[1][3] > FORMAT:
                raise too_new("the journal", line[1][3])
            self._format = line[1][3] or self._format or _UNSAID
            for row in line[1][2]:
                table, key = row[0] or "", row[1] or ""
                if len(row) == 4:
                    self._rows.put(table, key, base64.b85decode(row[3] or ""))
                elif row[2] is None:
                    self._rows.delete(table, key)
                else:
                    self._rows.put(table, key, row[2].encode())
            self._head = line[0]
            self._count += 1
            start = stop + 1

    def _judge_tail(self, rest: bytes, repair: bool) -> None:
        if self._end < self._acked or not _is_torn(rest, self._end):
            raise Corrupt(
                f"record {self._count + 1} of the journal is damaged (byte {self._end})",
                hint="restore it from a copy; nothing was changed and nothing after it was read",
                record=self._count + 1,
            )
        if repair:  # it was never acknowledged
            write_mark(self._fs, self._ack, cutting=True)
            self._fs.truncate(self._fd, self._end)
            self._end_cutting()
            self.repaired_bytes += len(rest)

    def _end_cutting(self) -> None:
        """Sync the journal after a torn tail was cut off. Otherwise a power cut could restore the cut bytes, with later
        lines behind them."""
        self._fs.sync(self._fd)
        write_mark(self._fs, self._ack, cutting=False)

    # -- writing

    def begin(self, durable: bool = True) -> None:
        self._lock.acquire()
        try:
            if self._failed:
                raise self._failed
            if self._open:
                raise RuntimeError("a transaction is open already")
            self._take_turn()
            try:
                self._acked = max(self._acked, read_note(self._fs, self._ack))
                self._catch_up(repair=True)
            except KfmError:
                self._turn.release()
                raise
        except OSError as problem:
            self._lock.release()
            raise self._fail(problem, "read the journal") from problem
        except BaseException:
            self._lock.release()
            raise
        self._pending = []
        self._durable = durable
        self._open = True
        self._rows.begin()
        if self._is_older():
            upgrade(self, self._format)

    def _take_turn(self) -> None:
        if self._turn.take():
            return
        import time

        for _ in range(500):
            time.sleep(0.01)
            if self._turn.take():
                return
        raise Busy("another process is writing to the journal", hint="try again when it is done")

    def put(self, table: str, key: str, value: bytes) -> None:
        self._rows.put(table, key, value)
        try:
            self._pending.append([table, key, value.decode()])
        except UnicodeDecodeError:
            self._pending.append([table, key, None, base64.b85encode(value).decode()])

    def add(self, table: str, key: str, value: bytes) -> bool:
        if self._rows.get(table, key) is not None:
            return False
        self.put(table, key, value)
        return True

    def put_many(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None:
        for key, value in rows:
            self.put(table, key, value)

    def delete(self, table: str, key: str) -> None:
        self._rows.delete(table, key)
        self._pending.append([table, key, None])

    def commit(self) -> None:
        try:
            if self._pending or self._is_older():
                said = () if self._format == FORMAT else (FORMAT,)
                body = _encode((self._head, self._acked, self._pending, *said))
                head = hashlib.sha256(body).hexdigest()
                line = b"%d %s %s\n" % (len(body), head.encode(), body)
                self._fs.write(self._fd, line)
                self._head = head
                self._format = FORMAT
                self._end += len(line)
                self._count += 1
                self._written += 1
            if self._durable and self._acked < self._end:
                self._sync()
            self._turn.release()
        except OSError as problem:
            raise self._fail(problem, "write to the journal") from problem
        except BaseException:
            # Interrupted while writing: only the file knows whether the line is complete.
            self._fail(OSError(errno.EINTR, "interrupted"), "write to the journal")
            raise
        finally:
            self._pending = []
            self._open = False
            self._rows.commit()
            self._lock.release()

    def _sync(self) -> None:
        self._fs.sync(self._fd)
        self._acked = self._end
        write_note(self._fs, self._ack, self._end)

    def _fail(self, problem: OSError, doing: str) -> StorageFailed:
        # What reached the disk is unknown, so this object refuses every later call.
        self._failed = storage_failed(problem, doing)
        if problem.errno != errno.EBADF:
            with suppress(StorageFailed):
                self.close()
        return self._failed

    def rollback(self) -> None:
        self._pending = []
        self._open = False
        self._rows.rollback()
        try:
            if not self._failed and self._fd >= 0:
                self._turn.release()
        finally:
            self._lock.release()

    def foreign(self) -> int:
        return self._count - self._written

    def close(self) -> None:
        fds, self._fd, self._ack = (self._fd, self._ack), -1, -1
        failed: OSError | None = None
        for fd in fds:
            try:
                if fd >= 0:
                    self._fs.close(fd)
            except OSError as problem:
                failed = problem
        self._turn.close()
        if failed is not None:
            raise storage_failed(failed, "close the journal") from failed


def _unframe(line: bytes) -> tuple[str, Content] | None:
    """Return the digest and content of a journal line; None if any bit of it is wrong."""
    parts = line.split(b" ", 2)
    if len(parts) != 3 or parts[0] != b"%d" % len(parts[2]):
        return None
    digest = hashlib.sha256(parts[2]).hexdigest()
    if digest.encode() != parts[1]:
        return None
    try:
        return digest, (*_decode(parts[2]), 0)
    except msgspec.MsgspecError:
        with suppress(msgspec.MsgspecError):
            return digest, _decode_format(parts[2])
        return None


def _is_torn(rest: bytes, start: int) -> bool:
    """Return whether a power cut could have left these bytes, at byte `start`, of lines that were not synced.

    It could not if a later line says that this one was synced. Otherwise bytes must be missing: the end of the last
    line, or a hole of zeros (no line contains one) that ends at a sector, at the end of the file or at a line.
    """
    later = (_unframe(line) for line in rest.split(b"\n"))
    if any(line is not None and line[1][1] > start for line in later):
        return False
    hole = rest.find(b"\0")
    if hole >= 0:
        following = rest[hole:].lstrip(b"\0")
        end = start + len(rest) - len(following)
        return not following or end % _SECTOR == 0 or _begins_a_line(following)
    if b"\n" in rest:
        return False
    length, _, tail = rest.partition(b" ")
    return not (length.isdigit() and len(tail) > 65 + int(length))  # complete, with another byte as newline


def _begins_a_line(text: bytes) -> bool:
    length, _, digest = text[:100].partition(b"\0")[0].partition(b" ")
    return length.isdigit() and not digest[:64].strip(b"0123456789abcdef")
