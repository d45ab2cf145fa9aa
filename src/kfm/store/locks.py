"""A lock between processes of all our languages; the system releases it when its holder dies.

Not every runtime can call flock(2) or fcntl(2), but each of ours has SQLite, which takes the same advisory locks on the
same bytes of a file everywhere. So a lock is the write lock of an empty database. Nothing is written to it: the
transaction that holds it is rolled back, and its journal is in memory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from typing import TYPE_CHECKING

import apsw

from kfm.errors import StorageFailed

if TYPE_CHECKING:
    from kfm.model.ports import Tx

# Such locks belong to the process: closing the file through another handle releases them. So one thread at a time
# creates the file and opens it with SQLite, and no other code opens it.
_opening = threading.Lock()


class FileLock:
    """A lock with one holder at a time, in this process or another. OSError is raised if the file cannot be opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._db: apsw.Connection | None = None

    def take(self) -> bool:
        """Take the lock; return False if another holder has it."""
        try:
            if self._db is None:
                self._db = self._connect()
            self._db.execute("BEGIN IMMEDIATE")
        except (apsw.BusyError, apsw.LockedError):
            return False
        except apsw.NotADBError as problem:
            self.close()
            raise StorageFailed(
                f"{os.path.basename(self._path)} is not a lock file: it contains bytes",
                hint="remove it while nothing else is at work here",
            ) from problem
        except apsw.Error as problem:
            self.close()
            raise self._why(problem) from problem
        return True

    def is_held(self, tx: Tx) -> bool:  # noqa: ARG002 - the system keeps a file lock as long as its holder lives
        return self._db is not None

    def release(self) -> None:
        try:
            if self._db is not None:
                self._db.execute("ROLLBACK")
        except apsw.Error as problem:
            self.close()
            raise self._why(problem) from problem

    def close(self) -> None:
        """Release the lock and close its file."""
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(apsw.Error):
                db.close(True)

    def _connect(self) -> apsw.Connection:
        with _opening:
            if os.path.islink(self._path):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if not os.path.exists(self._path):  # not synced: a lock ends with its holder
                with contextlib.suppress(FileExistsError):
                    os.makedirs(os.path.dirname(self._path) or ".", 0o700)
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            db = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READWRITE)
            db.execute("PRAGMA journal_mode=MEMORY")
            return db

    def _why(self, problem: apsw.Error) -> OSError:
        """Return the likely reason why the lock file cannot be opened, which SQLite does not report. The file is not
        opened."""
        if isinstance(problem, (apsw.CantOpenError, apsw.ReadOnlyError)):
            if os.path.isdir(self._path):
                return OSError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not os.access(self._path, os.R_OK | os.W_OK):
                return OSError(errno.EACCES, os.strerror(errno.EACCES))
            try:
                os.close(os.open(os.path.dirname(self._path) or ".", os.O_RDONLY | os.O_CLOEXEC))
            except OSError as found:
                return found
        return OSError(errno.EIO, str(problem))
