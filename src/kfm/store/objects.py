"""Immutable bytes by digest.

Small objects are rows of the state: they share its commit and need no sync of their own. Large ones are files under
``sha256/ab/cdef…``, written as fsio.py describes. Objects are never changed or deleted, so an object that no committed
run names is harmless.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
from collections.abc import Callable, Iterable
from typing import BinaryIO

from kfm.errors import BadInput, Corrupt, KfmError, StorageFailed
from kfm.fsio import REAL, Fs, storage_failed
from kfm.model.names import is_digest
from kfm.model.ports import INLINE_MAX, State
from kfm.store.process_identity import holder_is_dead, this_process

PIECE = 1 << 20  # bytes of a large object per hand-over to a thread, because waking a thread is expensive
WRITE_BACK = 16 << 20  # a large object is written back in parts of this size while it arrives


class FileObjects:
    def __init__(self, root: str, state: State, fs: Fs = REAL) -> None:
        self._root = root
        self._state = state
        self._fs = fs
        self._made: set[str] = set()
        self._scratch = ""

    def put(self, body: bytes) -> str:
        staging = self.stage()
        staging.write(body)
        return staging.commit()[0]

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        staging = self.stage()
        try:
            for chunk in chunks:
                staging.write(chunk)
        except BaseException:
            staging.abort()
            raise
        return staging.commit()

    def stage(self) -> FileStaging:
        return FileStaging(self)

    def read(self, digest: str) -> bytes:
        body = self._state.inline_object(digest)
        if body is None:
            with self._raw(digest) as file:
                body = file.read()
        return _checked(body, digest)

    def open(self, digest: str) -> BinaryIO:
        """Return a stream that raises Corrupt at its end if the bytes do not match the digest."""
        body = self._state.inline_object(digest)
        return self._verified(digest) if body is None else io.BytesIO(_checked(body, digest))

    def _verified(self, digest: str) -> io.BufferedReader:
        return io.BufferedReader(_Verified(self._raw(digest), digest), 1 << 20)

    def size(self, digest: str) -> int:
        body = self._state.inline_object(digest)
        if body is not None:
            return len(body)
        with self._raw(digest) as file:
            return file.seek(0, os.SEEK_END)

    def has(self, digest: str) -> bool:
        if not is_digest(digest):
            return False
        return self._state.inline_object(digest) is not None or self._fs.exists(self.path(digest))

    def is_damaged(self, digest: str, since_ms: int) -> bool:
        """Return whether an object is missing or has other bytes. A file that was not written since then is not read:
        every change of its bytes by a program changes its time. `verify` reads all."""
        body = self._state.inline_object(digest)
        if body is not None:
            return "sha256:" + hashlib.sha256(body).hexdigest() != digest
        changed_ms = self._fs.changed_ms(self.path(digest))
        return changed_ms is None or (changed_ms > since_ms and not self._is_whole(digest))

    def verify(self) -> int:
        """Read every object, referenced or not; return their count. Raise Corrupt at the first that does not match its
        name."""
        count = 0
        for name, body in self._state.inline_objects():
            if "sha256:" + hashlib.sha256(body).hexdigest() != name:
                raise _damaged(name)
            count += 1
        root = os.path.join(self._root, "sha256")
        for folder in self._fs.list(root):
            for rest in self._fs.list(os.path.join(root, folder)):
                name = f"sha256:{folder}{rest}"
                if is_digest(name):
                    with self._verified(name) as file:
                        while file.read(1 << 20):
                            pass
                    count += 1
        return count

    def path(self, digest: str) -> str:
        if not is_digest(digest):
            raise BadInput(f"{digest[:80]!r} is not a digest", hint="a digest looks like sha256:<64 hex digits>")
        text = digest[7:]
        return os.path.join(self._root, "sha256", text[:2], text[2:])

    def _raw(self, digest: str) -> io.FileIO:
        try:
            fd = self._fs.open_read(self.path(digest))
        except FileNotFoundError as problem:
            raise _missing(digest) from problem
        except OSError as problem:
            raise storage_failed(problem, "read an object") from problem
        try:
            return self._file(fd)
        except IsADirectoryError as problem:
            self._fs.close(fd)
            raise _no_file(digest) from problem

    def _file(self, fd: int) -> io.FileIO:
        return io.FileIO(fd, "rb")

    def discard(self, digest: str) -> None:
        """Remove the file of an object, if it has one."""
        with contextlib.suppress(OSError):
            self._fs.unlink(self.path(digest))

    def folder(self, path: str) -> str:
        if path not in self._made:
            self._fs.make_dirs(path)
            self._made.add(path)
        return path

    def scratch(self) -> str:
        """Return the path prefix of this process's temporary files. Files of dead processes are removed."""
        if not self._scratch:
            folder = self.folder(os.path.join(self._root, "tmp"))
            for name in self._fs.list(folder):
                if holder_is_dead(name.rsplit("-", 2)[0]):
                    self._fs.unlink(os.path.join(folder, name))
            self._scratch = os.path.join(folder, this_process())
        return self._scratch

    def adopt(self, temporary: str, digest: str) -> None:
        """Give a synced temporary file its final name durably. An existing object stays, unless its bytes are damaged:
        then this file replaces it."""
        target = self.path(digest)
        folder = self.folder(os.path.dirname(target))
        if not self._fs.link(temporary, target) and not self._is_whole(digest):
            self._fs.replace(temporary, target)
        self._fs.unlink(temporary)
        self._fs.sync_dir(folder)

    def _is_whole(self, digest: str) -> bool:
        try:
            with self._verified(digest) as file:
                while file.read(1 << 20):
                    pass
        except Corrupt:
            return False
        return True

    def inline(self, digest: str, body: bytes) -> None:
        # Not synced: the later commit that names it is durable and includes it.
        with self._state.transaction(durable=False) as tx:
            tx.objects([(digest, body)])


class Behind:
    """A thread that processes the pieces of a stream in order while the caller continues."""

    def __init__(self, work: Callable[[bytes], None]) -> None:
        import queue  # imported here because few streams are large

        self._work = work
        self._pieces: queue.Queue[bytes | None] = queue.Queue(maxsize=8)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, piece: bytes) -> None:
        self._pieces.put(piece)
        if self.failure is not None:
            raise self.failure

    def end(self) -> None:
        """Wait until the thread has processed all pieces."""
        if self._thread.is_alive():
            self._pieces.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (piece := self._pieces.get()) is not None:
            if self.failure is None:  # after a failure the remaining pieces are discarded
                try:
                    self._work(piece)
                except BaseException as problem:
                    self.failure = problem


class FileStaging:
    """A stream on its way into the store. Once it is large, two threads hash and write it while it arrives."""

    def __init__(self, objects: FileObjects) -> None:
        self._objects = objects
        self._fs = objects._fs
        self._gathered: list[bytes] = []
        self._room = INLINE_MAX  # bytes that may still be buffered
        self._size = 0
        self._fd = -1
        self._path = ""
        self._hash = hashlib.sha256()
        self._hashing: Behind | None = None
        self._writing: Behind | None = None
        self._written = 0
        self._hinted = 0  # bytes that the system was told to write back

    def write(self, chunk: bytes) -> None:
        self._size += len(chunk)
        self._room -= len(chunk)
        self._gathered.append(bytes(chunk))
        if self._room < 0:
            if self._fd < 0:
                self._create()
            self._hand_on()

    def _create(self) -> None:
        try:
            scratch = self._objects.scratch()
            for n in range(1_000_000):
                self._path = f"{scratch}-{threading.get_ident()}-{n}"
                with contextlib.suppress(FileExistsError):
                    self._fd = self._fs.create(self._path)
                    break
        except OSError as problem:
            raise self._failed(problem) from problem

    def _hand_on(self) -> None:
        chunk = b"".join(self._gathered)
        self._gathered, self._room = [], PIECE - 1
        if self._hashing is None and len(chunk) >= PIECE:
            self._hashing, self._writing = Behind(self._hash.update), Behind(self._write)
        try:
            if self._hashing is None or self._writing is None:
                self._hash.update(chunk)
                self._write(chunk)
            else:
                self._hashing.put(chunk)
                self._writing.put(chunk)
        except OSError as problem:
            raise self._failed(problem) from problem

    def _write(self, chunk: bytes) -> None:
        self._fs.write(self._fd, chunk)
        self._written += len(chunk)
        if self._written - self._hinted >= WRITE_BACK:
            self._fs.start_writing_back(self._fd, self._hinted, self._written - self._hinted)
            self._hinted = self._written

    def _join(self) -> None:
        """Wait until all pieces are written and hashed, or the first failure is known."""
        for behind in (self._writing, self._hashing):
            if behind is not None:
                behind.end()

    def commit(self) -> tuple[str, int]:
        if self._fd < 0:
            body = b"".join(self._gathered)
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            self._objects.inline(digest, body)
            return digest, len(body)
        if self._gathered:
            self._hand_on()
        try:
            if self._writing is not None:
                self._writing.end()
                if self._writing.failure is not None:
                    raise self._writing.failure
            self._fs.sync(self._fd)
            self._join()
            digest = "sha256:" + self._hash.hexdigest()
            if self._fs.size(self._fd) != self._size:
                raise StorageFailed("the staged file is shorter than what was written", hint="check the disk")
            fd, self._fd = self._fd, -2  # invalid even if closing fails: another file may have its number by then
            self._fs.close(fd)
            self._objects.adopt(self._path, digest)
        except OSError as problem:
            raise self._failed(problem) from problem
        except KfmError:
            self.abort()
            raise
        return digest, self._size

    def abort(self) -> None:
        self._join()
        fd, self._fd = self._fd, -2
        if fd >= 0:
            with contextlib.suppress(OSError):
                self._fs.close(fd)
        if self._path:
            with contextlib.suppress(OSError):
                self._fs.unlink(self._path)

    def _failed(self, problem: OSError) -> StorageFailed:
        failure = storage_failed(problem, "store an object")
        self.abort()
        return failure


class _Verified(io.RawIOBase):
    def __init__(self, file: io.FileIO, digest: str) -> None:
        self._file = file
        self._digest = digest
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            count = self._file.readinto(buffer) or 0
        except OSError as problem:
            raise storage_failed(problem, "read an object") from problem
        if count:
            self._hash.update(buffer[:count])
        elif "sha256:" + self._hash.hexdigest() != self._digest:
            raise _damaged(self._digest)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class DryObjects:
    """The object store of a dry run: it reads the real objects and keeps new ones in memory."""

    def __init__(self, real: FileObjects | None) -> None:
        self._real = real
        self._new: dict[str, bytes] = {}

    def put(self, body: bytes) -> str:
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        self._new[digest] = body
        return digest

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        body = b"".join(chunks)
        return self.put(body), len(body)

    def stage(self) -> DryStaging:
        return DryStaging(self)

    def read(self, digest: str) -> bytes:
        if digest in self._new:
            return self._new[digest]
        if self._real is None:
            raise _missing(digest)
        return self._real.read(digest)

    def open(self, digest: str) -> BinaryIO:
        if digest in self._new or self._real is None:
            return io.BytesIO(self.read(digest))
        return self._real.open(digest)

    def size(self, digest: str) -> int:
        if digest in self._new or self._real is None:
            return len(self.read(digest))
        return self._real.size(digest)

    def has(self, digest: str) -> bool:
        return digest in self._new or (self._real is not None and self._real.has(digest))

    def is_damaged(self, digest: str, since_ms: int) -> bool:
        return digest not in self._new and (self._real is None or self._real.is_damaged(digest, since_ms))


class DryStaging:
    """A staged object of a dry run, in memory only. A source larger than memory cannot be dry-run; `network.max_bytes`
    limits it."""

    def __init__(self, objects: DryObjects) -> None:
        self._objects = objects
        self._chunks: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self._chunks.append(bytes(chunk))

    def commit(self) -> tuple[str, int]:
        body = b"".join(self._chunks)
        return self._objects.put(body), len(body)

    def abort(self) -> None:
        self._chunks = []


def _checked(body: bytes, digest: str) -> bytes:
    if "sha256:" + hashlib.sha256(body).hexdigest() != digest:
        raise _damaged(digest)
    return body


def _missing(digest: str) -> Corrupt:
    return Corrupt(f"object {digest} is missing", hint="restore the objects folder from a copy")


def _damaged(digest: str) -> Corrupt:
    return Corrupt(f"object {digest} is damaged: its bytes have another digest", hint="restore it from a copy")


def _no_file(digest: str) -> Corrupt:
    return Corrupt(f"object {digest} is damaged: there is a folder in its place", hint="restore it from a copy")
