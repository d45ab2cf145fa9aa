"""Tables as a journal of lines: one framed, checksummed, hash-chained line is one transaction.

    <length of body> <sha256 of body> <body>\\n        body: [digest before, bytes synced before, writes]

A write is ``[table, key, value]``, value null for a deletion. The tables themselves are folded from
the lines when the file is opened. Every line says how much of the journal was synced when it was
written, and beside the journal ``<path>.ack`` says the same after the last sync (unsynced itself, so
it can only say too little). That tells a torn tail, never acknowledged, which is cut off and
reported, from a damaged record, which is refused.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from kfm.errors import Busy, Corrupt, KfmError, StorageFailed
from kfm.store.durable import REAL, Fs, storage_failed
from kfm.store.memory import MemoryTables

GENESIS = hashlib.sha256(b"kfm jsonl journal 1").hexdigest()
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[str, int, list[list[str | None]]]).decode


class JsonlTables:
    def __init__(self, path: str, fs: Fs = REAL, *, create: bool = True) -> None:
        self._fs = fs
        self._path = path
        self._rows = MemoryTables()
        self._head = GENESIS
        self._end = 0
        self._count = 0
        self._acked = 0
        self._pending: list[list[str | None]] = []
        self._durable = True
        self._dirty = False  # lines written but not yet synced
        self._failed: StorageFailed | None = None
        self.repaired_bytes = 0  # length of a torn tail that was cut off on opening
        self._ack = -1
        self._fd = -1
        try:
            if create:
                fs.make_dirs(os.path.dirname(path) or ".")
            fresh = not fs.exists(path)
            self._fd = fs.open_append(path) if create else fs.open_read(path)
            if create:
                self._ack = fs.open_write(path + ".ack")
                if fresh:
                    fs.sync_dir(os.path.dirname(path) or ".")
                if not fs.lock(self._fd):
                    raise Busy("another process is opening the journal", hint="try again in a moment")
            self._acked = self._read_ack()
            self._catch_up(repair=create)
            if create:
                fs.unlock(self._fd)
        except OSError as problem:
            self.close()
            raise storage_failed(problem, "open the journal") from problem
        except KfmError:
            self.close()
            raise

    # -- reading

    def get(self, table: str, key: str) -> bytes | None:
        return self._rows.get(table, key)

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        return self._rows.scan(table, prefix, after=after, reverse=reverse, limit=limit)

    def _read_ack(self) -> int:
        if self._ack < 0:
            if not self._fs.exists(self._path + ".ack"):
                return 0
            fd = self._fs.open_read(self._path + ".ack")
            try:
                note = self._fs.read_at(fd, 32, 0)
            finally:
                self._fs.close(fd)
        else:
            note = self._fs.read_at(self._ack, 32, 0)
        # 20 digits, a space, 8 hex digits of their checksum: anything else is no note at all.
        if len(note) >= 29 and note[20:21] == b" " and note[21:29] == b"%08x" % zlib.crc32(note[:20]):
            return int(note[:20])
        return 0

    def _catch_up(self, *, repair: bool) -> None:
        """Fold the lines written since we last looked."""
        size = self._fs.size(self._fd)
        if size < self._acked:
            raise Corrupt(
                f"the journal is {self._acked - size} bytes shorter than what was acknowledged: "
                f"record {self._count + 1} or a later one is missing",
                hint="restore it from a copy; nothing was changed",
                record=self._count + 1,
            )
        if size < self._end:
            raise Corrupt(
                f"the journal shrank while in use, after record {self._count}",
                hint="restore it from a copy; nothing was changed",
                record=self._count,
            )
        while self._end < size:
            consumed = self._fold_block(self._fs.read_at(self._fd, min(size - self._end, 1 << 22), self._end))
            if consumed:
                self._end += consumed
                continue
            rest = self._fs.read_at(self._fd, size - self._end, self._end)
            consumed = self._fold_block(rest)
            if consumed:
                self._end += consumed
                continue
            self._judge_tail(rest, size, repair)
            return

    def _fold_block(self, block: bytes) -> int:
        """Fold the whole good lines at the start of `block`; returns how many bytes they take."""
        start = 0
        while True:
            stop = block.find(b"\n", start)
            if stop < 0:
                return start
            line = _unframe(block[start:stop])
            if line is None or line[1][0] != self._head:
                return start
            for row in line[1][2]:
                table, key = row[0], row[1]
                assert table is not None and key is not None
                if len(row) == 4:
                    self._rows.put(table, key, base64.b85decode(row[3] or ""))
                elif row[2] is None:
                    self._rows.delete(table, key)
                else:
                    self._rows.put(table, key, row[2].encode())
            self._head = line[0]
            self._count += 1
            start = stop + 1

    def _judge_tail(self, rest: bytes, size: int, repair: bool) -> None:
        later = (_unframe(line) for line in rest.split(b"\n"))
        if self._end < self._acked or any(line is not None and line[1][1] > self._end for line in later):
            raise Corrupt(
                f"record {self._count + 1} of the journal is damaged (byte {self._end})",
                hint="restore it from a copy; nothing was changed and nothing after it was read",
                record=self._count + 1,
            )
        if repair:  # never acknowledged, so nobody was told it exists
            self._fs.truncate(self._fd, self._end)
            self._fs.sync(self._fd)
            self.repaired_bytes += size - self._end

    # -- writing

    def begin(self, durable: bool = True) -> None:
        if self._failed:
            raise self._failed
        try:
            if not self._fs.lock(self._fd):
                self._wait_for_lock()
            self._acked = max(self._acked, self._read_ack())
            self._catch_up(repair=True)
        except OSError as problem:
            raise self._fail(problem, "read the journal") from problem
        self._pending = []
        self._durable = durable
        self._rows.begin()

    def _wait_for_lock(self) -> None:
        import time

        for _ in range(500):
            time.sleep(0.01)
            if self._fs.lock(self._fd):
                return
        raise Busy("another process is writing to the journal", hint="try again when it is done")

    def put(self, table: str, key: str, value: bytes) -> None:
        try:
            self._pending.append([table, key, value.decode()])
        except UnicodeDecodeError:
            self._pending.append([table, key, None, base64.b85encode(value).decode()])
        self._rows.put(table, key, value)

    def put_many(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None:
        for key, value in rows:
            self.put(table, key, value)

    def delete(self, table: str, key: str) -> None:
        self._pending.append([table, key, None])
        self._rows.delete(table, key)

    def commit(self) -> None:
        try:
            if self._pending:
                body = _encode((self._head, self._acked, self._pending))
                head = hashlib.sha256(body).hexdigest()
                line = b"%d %s %s\n" % (len(body), head.encode(), body)
                self._fs.write(self._fd, line)
                self._head = head
                self._end += len(line)
                self._count += 1
                self._dirty = True
            if self._durable and self._dirty:
                self._fs.sync(self._fd)
                self._dirty = False
                self._acked = self._end
                note = b"%020d" % self._end
                self._fs.write_at(self._ack, note + b" %08x\n" % zlib.crc32(note), 0)
            self._fs.unlock(self._fd)
        except OSError as problem:
            raise self._fail(problem, "write to the journal") from problem
        finally:
            self._pending = []
        self._rows.commit()

    def _fail(self, problem: OSError, doing: str) -> StorageFailed:
        # What reached the disk is unknown now: this object answers nothing any more.
        self._failed = storage_failed(problem, doing)
        if problem.errno != errno.EBADF:
            self.close()
        return self._failed

    def rollback(self) -> None:
        self._pending = []
        self._rows.rollback()
        if not self._failed and self._fd >= 0:
            self._fs.unlock(self._fd)

    def close(self) -> None:
        for fd in (self._fd, self._ack):
            if fd >= 0:
                self._fs.close(fd)
        self._fd = self._ack = -1


def _unframe(line: bytes) -> tuple[str, tuple[str, int, list[list[str | None]]]] | None:
    """The digest and content of a whole line; None if a bit of it is wrong."""
    parts = line.split(b" ", 2)
    if len(parts) != 3 or parts[0] != b"%d" % len(parts[2]):
        return None
    digest = hashlib.sha256(parts[2]).hexdigest()
    if digest.encode() != parts[1]:
        return None
    return digest, _decode(parts[2])
