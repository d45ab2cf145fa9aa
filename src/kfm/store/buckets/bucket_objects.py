"""Immutable bytes by digest, in an S3 bucket.

Small objects are rows of the state, see stored_objects.py. Large ones are `sha256/ab/cdef…` below the prefix of the
bucket. Their bytes are gathered in a nameless file first, because the name is the digest of all of them. Then they are
written under that name in one step, so nothing unfinished is ever visible, and two writers write the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kfm.bucket import AT_ONCE, PART, Bucket, Found, ObjectStream, md5_of, sum_in
from kfm.errors import KfmError, StorageFailed
from kfm.fsio import REAL, Fs
from kfm.model.keys import digest as digest_of
from kfm.model.names import is_digest
from kfm.store.process_identity import this_process
from kfm.store.stored_objects import KEPT, Behind, StagedStream, StoredObjects, below, damaged, missing

if TYPE_CHECKING:
    from kfm.store.state import StoredState


class BucketObjects(StoredObjects):
    """`scratch` is a local folder for the nameless files of objects that are on their way into the bucket."""

    def __init__(self, bucket: Bucket, state: StoredState, scratch: str, fs: Fs = REAL) -> None:
        super().__init__(state)
        self._bucket = bucket
        self._scratch = scratch
        self._fs = fs

    def stage(self) -> BucketStaging:
        return BucketStaging(self, self._fs)

    def nameless(self) -> int:
        """Return a new file that has no name any more, so that nothing is left of it when it is closed."""
        if not self._fs.is_dir(self._scratch):
            self._fs.make_dirs(self._scratch)
        start = os.path.join(self._scratch, f"{this_process()}-{threading.get_ident()}")
        for n in range(1_000_000):
            with contextlib.suppress(FileExistsError):
                fd = self._fs.create(f"{start}-{n}")
                self._fs.unlink(f"{start}-{n}")
                return fd
        raise FileExistsError(start)

    def keep(self, digest: str, body: bytes) -> None:
        """Write an object of one request under its digest, and make sure that the bucket has all of it. An existing
        object stays, unless its bytes are others."""
        name, total = "/".join(below(digest)), md5_of(body)
        etag = self._bucket.create(name, body)
        if etag and sum_in(etag) == total:
            return  # the server computed the sum of what it stored
        if etag == "" and not self._is_there(name, len(body), lambda: total):
            self._bucket.write(name, body)  # what is there has other bytes; these have the right digest
        self._check(name, len(body))

    def keep_file(self, digest: str, fd: int, size: int) -> None:
        """Write the content of a file under its digest, as `keep` does."""
        name = "/".join(below(digest))
        if not self._is_there(name, size, lambda: self._sum_of_parts(fd, size)):
            with os.fdopen(os.dup(fd), "rb", buffering=0) as file:
                self._bucket.upload(name, file)
            self._check(name, size)

    def _check(self, name: str, size: int) -> None:
        found = self._bucket.find(name)
        if found is None or found.size != size:
            raise StorageFailed(
                f"the bucket {self._bucket.name} did not keep an object of {size} bytes",
                hint="check the server, and that nothing removes objects below this prefix; then `kfm resume`",
            )

    def _is_there(self, name: str, size: int, etag: Callable[[], str]) -> bool:
        """Return whether the bucket has these bytes already, as far as size and checksum say. A server whose etags are
        no checksums gets the object again."""
        found = self._bucket.find(name)
        return found is not None and found.size == size and sum_in(found.etag) == etag()

    def _sum_of_parts(self, fd: int, size: int) -> str:
        """Return the etag that a store gives to an upload in parts: the sum of the sums of the parts."""
        sums = [hashlib.md5(self._fs.read_at(fd, PART, at), usedforsecurity=False) for at in range(0, size, PART)]
        return f"{md5_of(b''.join(each.digest() for each in sums))}-{len(sums)}"

    def discard(self, digest: str) -> None:
        with contextlib.suppress(KfmError):
            self._bucket.remove("/".join(below(digest)))

    def _found(self, digest: str, folder: str = KEPT) -> Found | None:
        return self._bucket.find("/".join(below(digest, folder)))

    def _large_size(self, digest: str, folder: str = KEPT) -> int:
        if (found := self._found(digest, folder)) is None:
            raise self._missing(digest)
        return found.size

    def _has_large(self, digest: str, folder: str = KEPT) -> bool:
        return self._found(digest, folder) is not None

    def _changed_ms(self, digest: str) -> int | None:
        return None if (found := self._found(digest)) is None else found.changed_ms

    def _all_large(self, folder: str = KEPT) -> Iterator[str]:
        return (name for name, _ in self._listed(folder))

    def in_folders(self) -> Iterator[tuple[str, int]]:
        """Yield the digest and the size of every large object, from the list alone."""
        return self._listed(KEPT)

    def _listed(self, folder: str) -> Iterator[tuple[str, int]]:
        for each in self._bucket.below(folder):
            if is_digest(name := "sha256:" + "".join(each.path.split("/")[-2:])):
                yield name, each.size

    def _carry(self, digest: str, source: str, target: str) -> None:
        here, there = "/".join(below(digest, source)), "/".join(below(digest, target))
        found = self._bucket.find(here)
        if found is None:
            return
        self._bucket.copy(here, there)
        kept = self._bucket.find(there)
        if kept is None or kept.size != found.size:
            raise StorageFailed(
                f"the bucket {self._bucket.name} did not copy an object of {found.size} bytes",
                hint="check the server; nothing was removed",
            )
        self._bucket.remove(here)

    def _remove(self, digest: str, folder: str) -> None:
        self._bucket.remove("/".join(below(digest, folder)))

    def _raw(self, digest: str, folder: str = KEPT) -> ObjectStream:
        return ObjectStream(self._bucket, "/".join(below(digest, folder)), self._missing(digest))

    def _verified(self, digest: str, folder: str = KEPT) -> io.BufferedReader:
        return io.BufferedReader(_VerifiedStream(self._bucket, digest, self._missing(digest), folder), 1 << 20)

    def _missing(self, digest: str) -> KfmError:
        return missing(digest, f"restore the objects of the bucket {self._bucket.name} from a copy")


class BucketStaging(StagedStream):
    """A stream on its way into the bucket. Once it is too large for one request, two threads hash it and write it to a
    nameless file."""

    def __init__(self, objects: BucketObjects, fs: Fs) -> None:
        super().__init__(objects, fs)
        self._bucket_objects = objects
        self._inline = self._room
        self._room = AT_ONCE

    def leave_state(self) -> None:
        self._inline = -1

    def _create(self) -> int:
        return self._bucket_objects.nameless()

    def commit(self) -> tuple[str, int]:
        if self._size <= self._inline:
            return self._commit_small()
        if self._fd == -1:
            body = b"".join(self._gathered)
            digest = digest_of(body)
            self._bucket_objects.keep(digest, body)
            return digest, len(body)
        try:
            if self._gathered:
                self._hand_on()
            self._join()
            if self._writing is not None and self._writing.failure is not None:
                raise self._writing.failure
            digest = "sha256:" + self._hash.hexdigest()
            if self._fs.size(self._fd) != self._size:
                raise StorageFailed("the staged file is shorter than what was written", hint="check the disk")
            self._bucket_objects.keep_file(digest, self._fd, self._size)
        except OSError as problem:
            raise self._failed(problem) from problem
        finally:
            self.abort()  # the nameless file is gone
        return digest, self._size


class _VerifiedStream(ObjectStream):
    """Reads a large object, and hashes it meanwhile, in a thread if it has several parts. Raises Corrupt at the end of
    other bytes."""

    def __init__(self, bucket: Bucket, digest: str, missing: KfmError, folder: str) -> None:
        super().__init__(bucket, "/".join(below(digest, folder)), missing)
        self._expected = digest
        self._hash = hashlib.sha256()
        self._hashing = Behind(self._hash.update, 2) if len(self._part) < self._size else None
        self._take(self._part)

    def _take(self, part: memoryview) -> None:
        if self._hashing is None:
            self._hash.update(part)
        else:
            self._hashing.put(part)

    def _next(self) -> memoryview:
        part = super()._next()
        if part:
            self._take(part)
            return part
        if self._hashing is not None:
            self._hashing.end()
        if "sha256:" + self._hash.hexdigest() != self._expected:
            raise damaged(self._expected)
        return part

    def close(self) -> None:
        if self._hashing is not None:
            self._hashing.end()
        super().close()
