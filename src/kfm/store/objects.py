"""Immutable bytes by digest, in files.

Small objects are rows of the state, see stored_objects.py. Large ones are files under ``sha256/ab/cdef…``, written as
fsio.py describes. Objects are never changed, so an object that no committed run names is harmless; `kfm gc` removes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from kfm.errors import KfmError, StorageFailed
from kfm.fsio import REAL, Fs, failing_as_storage, storage_failed
from kfm.model.names import is_digest
from kfm.store.process_identity import holder_is_dead, this_process
from kfm.store.stored_objects import KEPT, StagedStream, StoredObjects, below, damaged, missing

if TYPE_CHECKING:
    from kfm.store.state import StoredState

WRITE_BACK = 16 << 20  # a large object is written back in parts of this size while it arrives


class FileObjects(StoredObjects):
    def __init__(self, root: str, state: StoredState, fs: Fs = REAL) -> None:
        super().__init__(state)
        self._root = root
        self._fs = fs
        self._made: set[str] = set()
        self._scratch = ""

    def stage(self) -> FileStaging:
        return FileStaging(self)

    def path(self, digest: str, folder: str = KEPT) -> str:
        return os.path.join(self._root, *below(digest, folder))

    def discard(self, digest: str) -> None:
        """Remove the file of an object, if it has one."""
        with contextlib.suppress(OSError):
            self._fs.unlink(self.path(digest))

    def _large_size(self, digest: str, folder: str = KEPT) -> int:
        with self._raw(digest, folder) as file:
            return file.seek(0, os.SEEK_END)

    def _has_large(self, digest: str, folder: str = KEPT) -> bool:
        return self._fs.exists(self.path(digest, folder))

    def _changed_ms(self, digest: str) -> int | None:
        return self._fs.changed_ms(self.path(digest))

    def _all_large(self, folder: str = KEPT) -> Iterator[str]:
        root = os.path.join(self._root, folder)
        for start in self._fs.list(root):
            for rest in self._fs.list(os.path.join(root, start)):
                if is_digest(name := f"sha256:{start}{rest}"):
                    yield name

    def _carry(self, digest: str, source: str, target: str) -> None:
        here, there = self.path(digest, source), self.path(digest, target)
        with failing_as_storage("move an object"):
            self._fs.make_dirs(os.path.dirname(there))
            if self._fs.exists(here):
                self._fs.replace(here, there)
                self._fs.sync_dir(os.path.dirname(there))
                self._fs.sync_dir(os.path.dirname(here))

    def _remove(self, digest: str, folder: str) -> None:
        path = self.path(digest, folder)
        with failing_as_storage("remove an object"):
            self._fs.unlink(path)
            if self._fs.is_dir(os.path.dirname(path)):
                self._fs.sync_dir(os.path.dirname(path))

    def _raw(self, digest: str, folder: str = KEPT) -> io.FileIO:
        try:
            fd = self._fs.open_read(self.path(digest, folder))
        except FileNotFoundError as problem:
            raise missing(digest) from problem
        except OSError as problem:
            raise storage_failed(problem, "read an object") from problem
        try:
            return self._file(fd)
        except IsADirectoryError as problem:
            self._fs.close(fd)
            raise damaged(digest, "there is a folder in its place") from problem

    def _file(self, fd: int) -> io.FileIO:
        return io.FileIO(fd, "rb")

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
        if not self._fs.link(temporary, target) and not self.is_whole(digest):
            self._fs.replace(temporary, target)
        self._fs.unlink(temporary)
        self._fs.sync_dir(folder)


class FileStaging(StagedStream):
    """A stream on its way into a file. Once it is large, two threads hash and write it while it arrives."""

    def __init__(self, objects: FileObjects) -> None:
        super().__init__(objects, objects._fs)
        self._objects: FileObjects = objects
        self._path = ""
        self._written = 0
        self._hinted = 0  # bytes that the system was told to write back

    def _create(self) -> int:
        scratch = self._objects.scratch()
        for n in range(1_000_000):
            self._path = f"{scratch}-{threading.get_ident()}-{n}"
            with contextlib.suppress(FileExistsError):
                return self._fs.create(self._path)
        return -1

    def _write(self, chunk: bytes) -> None:
        super()._write(chunk)
        self._written += len(chunk)
        if self._written - self._hinted >= WRITE_BACK:
            self._fs.start_writing_back(self._fd, self._hinted, self._written - self._hinted)
            self._hinted = self._written

    def commit(self) -> tuple[str, int]:
        if self._fd < 0:
            return self._commit_small()
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
        super().abort()
        if self._path:
            with contextlib.suppress(OSError):
                self._fs.unlink(self._path)


class DryObjects:
    """The object store of a dry run: it reads the real objects and keeps new ones in memory."""

    def __init__(self, real: StoredObjects | None) -> None:
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
            raise missing(digest)
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
        return digest in self._new or (self._real is not None and self._real.holds(digest))

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
