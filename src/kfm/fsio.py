"""The only module that writes files which must not be lost. The store, the sinks and the app use it.

The order is fixed: write under a temporary name, sync the file, give it its final name without replacing anything, sync
the directory. A failed sync is never tried again: the kernel may have dropped the pages, and a second sync would then
report success. It raises StorageFailed, and KFM acknowledges nothing more.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
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
    """The file system calls that KFM makes, and no others. Tests pass in one that fails, tears writes or crashes."""

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, mode)

    def make_dirs(self, path: str, mode: int = 0o700) -> None:
        """Create a folder and its missing parents, and sync each one's parent directory.

        The deepest folder that already existed is synced too. A process may have been killed after it created that
        folder and before it synced it; a power cut would then remove the folder with all its files.
        """
        missing = []
        while not self.is_dir(path):
            missing.append(path)
            path = os.path.dirname(path) or "."
        with contextlib.suppress(PermissionError):  # this user may not open it, so KFM did not create it
            self.sync_dir(os.path.dirname(path) or ".")
        for folder in reversed(missing):
            self.mkdir(folder, mode)
            self.sync_dir(os.path.dirname(folder) or ".")

    def remove_tree(self, path: str) -> None:
        """Remove a folder with all its content; a symbolic link in it is removed and never followed."""
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
        """Ask the kernel to begin writing these bytes out, so that the later sync is shorter. It promises nothing."""
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
        """Sync everything that was written to the file system of this folder: faster than syncing many small files."""
        import ctypes

        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        except AttributeError:  # a system without syncfs
            os.sync()
        finally:
            os.close(fd)

    def link(self, source: str, target: str) -> bool:
        """Give the file a second name. Return False, and replace nothing, if that name is taken."""
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

    def changed_ms(self, path: str) -> int | None:
        """Return when the content of a file was last written; None if there is no file."""
        try:
            found = os.stat(path, follow_symlinks=False)
        except OSError:
            return None
        return found.st_mtime_ns // 1_000_000 if stat.S_ISREG(found.st_mode) else None

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []


def _sync_file_range(fd: int, offset: int, size: int) -> None:
    """Call sync_file_range on Linux, and do nothing on systems without it: it is only a hint."""
    global _hint
    if _hint is None:
        import ctypes

        try:
            _hint = ctypes.CDLL(None, use_errno=True).sync_file_range
            _hint.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        except (AttributeError, OSError):
            _hint = _no_hint
    _hint(fd, offset, size, 2)  # SYNC_FILE_RANGE_WRITE: start writing and do not wait


def _no_hint(*_arguments: int) -> None:
    pass


_hint: Any = None

REAL = Fs()


# -- The note: a file next to the state with the number of acknowledged transactions. It is written after each
# sync and is not synced itself, so its number is never too high. A state with fewer transactions lost some.

_MARK = 30  # the byte after the note


def write_note(fs: Fs, fd: int, acked: int) -> None:
    """Write the number `acked` into a note as 20 digits, followed by a space and a checksum of 8 hexadecimal digits."""
    body = b"%020d" % acked
    fs.write_at(fd, body + b" %08x\n" % crc32(body), 0)


def read_note(fs: Fs, fd: int) -> int:
    """Return the number that `write_note` wrote; 0 if the note is torn."""
    body = fs.read_at(fd, 32, 0)
    if body[20:29] == b" %08x" % crc32(body[:20]) and body[:20].isdigit():
        return int(body[:20])
    return 0


def write_mark(fs: Fs, fd: int, *, cutting: bool) -> None:
    """Write behind the note whether a process is cutting off a torn tail and has not synced the cut yet.

    The mark is not synced: it must survive a killed process, and after a power cut the file itself shows what remains.
    """
    fs.write_at(fd, b"!" if cutting else b" ", _MARK)


def read_mark(fs: Fs, fd: int) -> bool:
    return fs.read_at(fd, 1, _MARK) == b"!"


def note_at(fs: Fs, path: str) -> int:
    """Return the number that `write_note` wrote to this path; 0 if there is no note. The file is not opened for
    writing."""
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
    """Write a whole file under a temporary name, replacing what a killed process left there; return its digest.

    The caller then gives the file its final name and syncs the directory.
    """
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
    """Return the digest of a file, or an empty text if it cannot be read."""
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
