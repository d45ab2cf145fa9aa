"""The one place that writes files we must not lose: ground for the store, the publisher and the house.

The discipline, in order: write to a name nobody reads, sync the file, give it its name without
replacing anything, sync the directory. A failed sync is never retried: the kernel may have dropped
the pages and would call the second try a success. It becomes StorageFailed, and nothing more is
acknowledged.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any
from zlib import crc32

from kfm.errors import StorageFailed

_WHY = {
    errno.ENOSPC: ("the disk is full", "free some space, then `kfm resume`"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, then `kfm resume`"),
    errno.EMFILE: ("too many open files", "raise the limit (ulimit -n), then `kfm resume`"),
    errno.ENFILE: ("the system is out of file handles", "close something, then `kfm resume`"),
    errno.EROFS: ("the file system is read-only", "remount it writable, then `kfm resume`"),
    errno.EACCES: ("permission denied", "check the owner and mode of the folder"),
    errno.EPERM: ("not permitted", "check the owner and mode of the folder"),
    errno.EIO: ("the disk reported an I/O error", "check the disk before anything else, then `kfm resume`"),
}


def storage_failed(problem: OSError, doing: str) -> StorageFailed:
    why, hint = _WHY.get(problem.errno or 0, (problem.strerror or "unknown error", "see the system log"))
    return StorageFailed(f"cannot {doing}: {why}", hint=hint, errno=problem.errno)


@contextlib.contextmanager
def failing_as_storage(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise storage_failed(problem, doing) from problem


class Fs:
    """The file system calls we make, and no others. Tests hand in one that lies, tears and dies."""

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, mode)

    def make_dirs(self, path: str, mode: int = 0o700) -> None:
        """Create a folder and its parents, each made durable in its own parent.

        So is the deepest one that was there already: a process killed between making it and syncing
        it leaves a folder that a power cut would take, with everything that was put into it since.
        """
        missing = []
        while not self.is_dir(path):
            missing.append(path)
            path = os.path.dirname(path) or "."
        with contextlib.suppress(PermissionError):  # not ours: then it is not of our making either
            self.sync_dir(os.path.dirname(path) or ".")
        for folder in reversed(missing):
            self.mkdir(folder, mode)
            self.sync_dir(os.path.dirname(folder) or ".")

    def remove_tree(self, path: str) -> None:
        """A folder with all in it; a link in it is removed and never followed."""
        if not self.is_dir(path) or self.is_link(path):
            return
        for name in self.list(path):
            below = os.path.join(path, name)
            if self.is_dir(below) and not self.is_link(below):
                self.remove_tree(below)
            else:
                self.unlink(below)
        self.rmdir(path)

    def create(self, path: str, mode: int = 0o600) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)

    def open_append(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def open_write(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def open_read(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def write(self, fd: int, body: bytes | memoryview) -> None:
        view = memoryview(body)
        while view:
            view = view[os.write(fd, view) :]

    def write_at(self, fd: int, body: bytes, offset: int) -> None:
        os.pwrite(fd, body, offset)

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def start_writing_back(self, fd: int, offset: int, size: int) -> None:
        """A hint that promises nothing: begin to write these bytes out, so that the sync finds less to do."""
        _sync_file_range(fd, offset, size)

    def close(self, fd: int) -> None:
        os.close(fd)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: str) -> None:
        """All that was written to the file system of this folder, at once: for many small files."""
        import ctypes

        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        except AttributeError:  # a system without it
            os.sync()
        finally:
            os.close(fd)

    def link(self, source: str, target: str) -> bool:
        """Give the file a second name; False if that name is taken. Never replaces."""
        try:
            os.link(source, target)
        except FileExistsError:
            return False
        return True

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []


def _sync_file_range(fd: int, offset: int, size: int) -> None:
    """Linux only, and only a hint, so a system without it loses nothing."""
    global _hint
    if _hint is None:
        import ctypes

        try:
            _hint = ctypes.CDLL(None, use_errno=True).sync_file_range
            _hint.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        except (AttributeError, OSError):
            _hint = _no_hint
    _hint(fd, offset, size, 2)  # SYNC_FILE_RANGE_WRITE: begin, and do not wait


def _no_hint(*_arguments: int) -> None:
    pass


_hint: Any = None

REAL = Fs()


# -- a note of how far the acknowledgements have come, kept beside a state. It is written after each sync
# and not synced itself, so it can only say too little; a state that has less than it says has lost something.

_MARK = 30  # where the note ends


def write_note(fs: Fs, fd: int, acked: int) -> None:
    """20 digits, a space, 8 hex digits of their checksum."""
    body = b"%020d" % acked
    fs.write_at(fd, body + b" %08x\n" % crc32(body), 0)


def read_note(fs: Fs, fd: int) -> int:
    """What the note says; 0 if it is not whole: then it says nothing."""
    body = fs.read_at(fd, 32, 0)
    if body[20:29] == b" %08x" % crc32(body[:20]) and body[:20].isdigit():
        return int(body[:20])
    return 0


def write_mark(fs: Fs, fd: int, *, cutting: bool) -> None:
    """Behind the note: somebody cuts off a torn tail, and has not synced that yet. Unsynced itself: it outlives
    a process, and a power cut settles what the file is anyway."""
    fs.write_at(fd, b"!" if cutting else b" ", _MARK)


def read_mark(fs: Fs, fd: int) -> bool:
    return fs.read_at(fd, 1, _MARK) == b"!"


def note_at(fs: Fs, path: str) -> int:
    """The same by name, opening nothing for writing."""
    if not fs.exists(path):
        return 0
    fd = fs.open_read(path)
    try:
        return read_note(fs, fd)
    finally:
        fs.close(fd)


def read_whole(fs: Fs, path: str) -> bytes:
    fd = fs.open_read(path)
    try:
        return fs.read_at(fd, fs.size(fd), 0)
    finally:
        fs.close(fd)


def write_apart(fs: Fs, path: str, body: Iterable[bytes], *, mode: int = 0o600, synced: bool = True) -> str:
    """A whole file under a name nobody reads, over what the dead left there; its digest. The caller gives it the name
    it is known by, and makes that durable."""
    fs.unlink(path)
    total = sha256()
    fd = fs.create(path, mode)
    try:
        for chunk in body:
            total.update(chunk)
            fs.write(fd, chunk)
        if synced:
            fs.sync(fd)
    finally:
        fs.close(fd)
    return "sha256:" + total.hexdigest()


def digest_at(fs: Fs, path: str) -> str:
    """The digest of a file; empty if there is none that can be read."""
    total = sha256()
    try:
        fd = fs.open_read(path)
        try:
            at = 0
            while chunk := fs.read_at(fd, 1 << 20, at):
                total.update(chunk)
                at += len(chunk)
        finally:
            fs.close(fd)
    except OSError:
        return ""
    return "sha256:" + total.hexdigest()
