"""Immutable bytes by digest: what a store of files and a store in a bucket have in common.

Small objects are rows of the state: they share its commit and need no sync of their own. A subclass keeps the large
ones under ``sha256/ab/cdef…``.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from kfm.errors import BadInput, Corrupt, StorageFailed
from kfm.fsio import Fs, storage_failed
from kfm.model.names import is_digest
from kfm.model.ports import INLINE_MAX
from kfm.store.retention.aside_rows import FOLDER as ASIDE
from kfm.store.retention.aside_rows import MOVING, REMOVING, Aside

if TYPE_CHECKING:
    from kfm.store.state import StoredState

KEPT = "sha256"  # the folder of large objects
PIECE = 1 << 20  # bytes of a large object per hand-over to a thread, because waking a thread is expensive


class StoredObjects(ABC):
    """The base class of object stores: it keeps small objects in the state, and checks every byte that is read."""

    def __init__(self, state: StoredState) -> None:
        self._state = state

    @abstractmethod
    def stage(self) -> StagedStream: ...

    @abstractmethod
    def discard(self, digest: str) -> None:
        """Remove a large object, if it is there."""

    @abstractmethod
    def _raw(self, digest: str, folder: str = KEPT) -> io.RawIOBase:
        """Return a stream of a large object, unchecked. Raise Corrupt if it is missing."""

    @abstractmethod
    def _large_size(self, digest: str, folder: str = KEPT) -> int: ...

    @abstractmethod
    def _has_large(self, digest: str, folder: str = KEPT) -> bool: ...

    @abstractmethod
    def _changed_ms(self, digest: str) -> int | None:
        """Return when a large object was last written; None if it is missing."""

    @abstractmethod
    def _all_large(self, folder: str = KEPT) -> Iterator[str]: ...

    @abstractmethod
    def _carry(self, digest: str, source: str, target: str) -> None:
        """Move a large object durably from one folder to another. One that is not there, or is in both, is no error."""

    @abstractmethod
    def _remove(self, digest: str, folder: str) -> None:
        """Remove a large object durably, if it is there."""

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

    def large(self) -> Iterator[str]:
        """Yield the digest of every object that is no row of the state, referenced or not."""
        yield from self._all_large()
        for name in self._all_large(ASIDE):
            if not self._has_large(name):
                yield name

    def in_folders(self) -> Iterator[tuple[str, int]]:
        """Yield the digest and the size of every large object that was not set aside."""
        for name in self._all_large():
            with contextlib.suppress(Corrupt):  # removed meanwhile
                yield name, self._large_size(name)

    def put_large(self, chunks: Iterable[bytes]) -> str:
        """Store a stream durably outside the state, however small it is, and return its digest."""
        staging = self.stage()
        staging.leave_state()
        try:
            for chunk in chunks:
                staging.write(chunk)
        except BaseException:
            staging.abort()
            raise
        return staging.commit()[0]

    def read(self, digest: str) -> bytes:
        body = self._state.inline_object(digest)
        if body is None:
            try:
                with self._raw(digest) as file:
                    body = file.read()
            except Corrupt as problem:
                with self._from_aside(digest, problem) as kept:
                    return kept.read()
        return checked(body, digest)

    def open(self, digest: str) -> BinaryIO:
        """Return a stream that raises Corrupt at its end if the bytes do not match the digest."""
        body = self._state.inline_object(digest)
        if body is not None:
            return io.BytesIO(checked(body, digest))
        try:
            return self._verified(digest)
        except Corrupt as problem:
            return self._from_aside(digest, problem)

    def _verified(self, digest: str, folder: str = KEPT) -> io.BufferedReader:
        return io.BufferedReader(Verified(self._raw(digest, folder), digest), 1 << 20)

    def _from_aside(self, digest: str, problem: Corrupt) -> BinaryIO:
        """Return a stream of an object that was set aside, or came back meanwhile. Raise the problem if it was not."""
        aside = self._state.aside_object(digest)
        body = self._state.inline_object(digest) if aside is None else aside.body
        if body is not None:
            return io.BytesIO(checked(body, digest))
        if aside is not None:
            for folder in (ASIDE, KEPT):
                with contextlib.suppress(Corrupt):
                    return self._verified(digest, folder)
        raise problem

    def size(self, digest: str) -> int:
        body = self._state.inline_object(digest)
        if body is not None:
            return len(body)
        try:
            return self._large_size(digest)
        except Corrupt:
            aside = self._state.aside_object(digest)
            if aside is None:
                raise
            return aside.size

    def has(self, digest: str) -> bool:
        """Return whether an object is there. One that was set aside comes back: the caller may rely on it from now."""
        if not is_digest(digest):
            return False
        return self._state.inline_object(digest) is not None or self._has_large(digest) or self.bring_back(digest)

    def holds(self, digest: str) -> bool:
        """Return whether an object is there, set aside or not. Nothing is changed."""
        if not is_digest(digest):
            return False
        if self._state.inline_object(digest) is not None or self._has_large(digest):
            return True
        aside = self._state.aside_object(digest)
        return aside is not None and aside.since_ms != REMOVING

    def is_damaged(self, digest: str, since_ms: int) -> bool:
        """Return whether an object is missing or has other bytes. One that was not written since then is not
        read: every change of its bytes by a program changes its time. `verify` reads all."""
        body = self._state.inline_object(digest)
        if body is not None:
            return "sha256:" + hashlib.sha256(body).hexdigest() != digest
        changed_ms = self._changed_ms(digest)
        if changed_ms is None:
            return not (self.holds(digest) and self._reads_whole(digest))
        return changed_ms > since_ms and not self.is_whole(digest)

    def verify(self) -> int:
        """Read every object, referenced or not; return their count. Raise Corrupt at the first that does not match its
        name."""
        count = 0
        for name, body in self._state.inline_objects():
            checked(body, name)
            count += 1
        for name in self._all_large():
            with self._verified(name) as file:
                while file.read(PIECE):
                    pass
            count += 1
        return count

    def is_whole(self, digest: str) -> bool:
        """Return whether a large object that was not set aside has its bytes."""
        return _reads_whole(lambda: self._verified(digest))

    def _reads_whole(self, digest: str) -> bool:
        return _reads_whole(lambda: self.open(digest))

    # -- what `kfm gc` does

    def set_aside(self, names: Iterable[str]) -> int:
        """Set these objects aside, and return how many there were. Writers do not find them any more, readers do."""
        names, large = list(names), []
        with self._state.transaction() as tx:
            now = self._state.now_ms()
            for name in names:
                body = self._state.inline_object(name)
                if body is not None:
                    tx.drop_object(name)
                    tx.set_aside(name, Aside(now, len(body), body))
            for name in names:
                if self._state.aside_object(name) is None and self._has_large(name):
                    large.append((name, self._large_size(name)))
                    tx.set_aside(name, Aside(MOVING, large[-1][1]))
        for name, _ in large:
            self._carry(name, KEPT, ASIDE)
        if large:  # only now: until its file has moved, a writer may still find it
            with self._state.transaction() as tx:
                now = self._state.now_ms()
                for name, size in large:
                    tx.set_aside(name, Aside(now, size))
        return len(names)

    def bring_back(self, digest: str, *, removing: bool = False) -> bool:
        """Take an object back that was set aside; return whether it is there now. With `removing` also one whose
        removal was not completed: only `kfm gc` may, because it is alone."""
        if self._state.aside_object(digest) is None:
            return False
        with self._state.transaction(durable=False) as tx:
            aside = self._state.aside_object(digest)
            if aside is None or (aside.since_ms == REMOVING and not removing):
                return self._state.inline_object(digest) is not None or self._has_large(digest)
            if aside.body is not None:
                tx.drop_aside(digest)
                tx.objects([(digest, checked(aside.body, digest))])
                return True
            tx.set_aside(digest, Aside(MOVING, aside.size))
        self._carry(digest, ASIDE, KEPT)
        with self._state.transaction(durable=False) as tx:
            if self._state.aside_object(digest) == Aside(MOVING, aside.size):
                tx.drop_aside(digest)
        return self._has_large(digest)

    def finish_moving(self, name: str) -> None:
        """Complete what a killed process left: an object on its way is set aside, one to be removed is removed."""
        aside = self._state.aside_object(name)
        if aside is None or aside.since_ms >= 0:
            return
        if aside.since_ms == REMOVING:
            self._remove(name, ASIDE)
        else:
            self._carry(name, KEPT, ASIDE)
        with self._state.transaction() as tx:
            if aside.since_ms == REMOVING:
                tx.drop_aside(name)
            else:
                tx.set_aside(name, Aside(self._state.now_ms(), aside.size))

    def remove_aside(self, names: Iterable[str], before_ms: int) -> tuple[int, int]:
        """Remove those of these objects for good that were set aside before this time. Return how many, and their
        bytes."""
        count, total, large = 0, 0, []
        with self._state.transaction() as tx:
            for name in names:
                aside = self._state.aside_object(name)
                if aside is None or not 0 <= aside.since_ms < before_ms:
                    continue
                count, total = count + 1, total + aside.size
                if aside.body is not None:
                    tx.drop_aside(name)
                else:
                    large.append(name)
                    tx.set_aside(name, Aside(REMOVING, aside.size))
        for name in large:
            self._remove(name, ASIDE)
        if large:
            with self._state.transaction() as tx:
                for name in large:
                    tx.drop_aside(name)
        return count, total

    def inline(self, digest: str, body: bytes) -> None:
        with contextlib.suppress(Corrupt):  # a damaged row is written again
            if self._state.inline_object(digest) == body:  # as for a source that has not changed
                return
        # Not synced: the later commit that names it is durable and includes it.
        with self._state.transaction(durable=False) as tx:
            tx.objects([(digest, body)])


def _reads_whole(opened: Callable[[], BinaryIO]) -> bool:
    try:
        with opened() as file:
            while file.read(1 << 20):
                pass
    except Corrupt:
        return False
    return True


class Behind:
    """A thread that processes the pieces of a stream in order while the caller continues."""

    def __init__(self, work: Callable[[Any], None], ahead: int = 8) -> None:
        import queue  # imported here because few streams are large

        self._work = work
        self._pieces: queue.Queue[Any] = queue.Queue(maxsize=ahead)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, piece: bytes | memoryview) -> None:
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


class StagedStream(ABC):
    """A stream on its way into the store. Once it is large, two threads hash and write it while it arrives."""

    def __init__(self, objects: StoredObjects, fs: Fs) -> None:
        self._objects = objects
        self._fs = fs
        self._gathered: list[bytes] = []
        self._room = INLINE_MAX  # bytes that may still be buffered
        self._size = 0
        self._fd = -1
        self._hash = hashlib.sha256()
        self._hashing: Behind | None = None
        self._writing: Behind | None = None

    @abstractmethod
    def _create(self) -> int:
        """Return a new temporary file."""

    @abstractmethod
    def commit(self) -> tuple[str, int]: ...

    def leave_state(self) -> None:
        """Keep even a small object outside the state. To be called before the first write."""
        self._room = -1

    def write(self, chunk: bytes) -> None:
        self._size += len(chunk)
        self._room -= len(chunk)
        self._gathered.append(bytes(chunk))
        if self._room < 0:
            if self._fd < 0:
                try:
                    self._fd = self._create()
                except OSError as problem:
                    raise self._failed(problem) from problem
            self._hand_on()

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

    def _join(self) -> None:
        """Wait until all pieces are written and hashed, or the first failure is known."""
        for behind in (self._writing, self._hashing):
            if behind is not None:
                behind.end()

    def _commit_small(self) -> tuple[str, int]:
        body = b"".join(self._gathered)
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        self._objects.inline(digest, body)
        return digest, len(body)

    def abort(self) -> None:
        self._join()
        fd, self._fd = self._fd, -2
        if fd >= 0:
            with contextlib.suppress(OSError):
                self._fs.close(fd)

    def _failed(self, problem: OSError) -> StorageFailed:
        failure = storage_failed(problem, "store an object")
        self.abort()
        return failure


class Verified(io.RawIOBase):
    def __init__(self, file: io.RawIOBase, digest: str) -> None:
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
            raise damaged(self._digest)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def below(digest: str, folder: str = KEPT) -> tuple[str, str, str]:
    """Return the parts of the path of a large object. Raise BadInput if this is no digest."""
    if not is_digest(digest):
        raise BadInput(f"{digest[:80]!r} is not a digest", hint="a digest looks like sha256:<64 hex digits>")
    return folder, digest[7:9], digest[9:]


def checked(body: bytes, digest: str) -> bytes:
    """Return the bytes. Raise Corrupt if they do not match the digest."""
    if "sha256:" + hashlib.sha256(body).hexdigest() != digest:
        raise damaged(digest)
    return body


def missing(digest: str, hint: str = "restore the objects folder from a copy") -> Corrupt:
    return Corrupt(f"object {digest} is missing", hint=hint)


def damaged(digest: str, why: str = "its bytes have another digest") -> Corrupt:
    return Corrupt(f"object {digest} is damaged: {why}", hint="restore it from a copy")
