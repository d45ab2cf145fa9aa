"""The object store's port over a dict, which also knows what was left half-done."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from typing import BinaryIO

from kfm.model.ports import Objects


class MemoryObjects(Objects):
    """keep=False: bodies are hashed and dropped, for tests that stream a lot."""

    def __init__(self, *, keep: bool = True) -> None:
        self.stored: dict[str, bytes] = {}
        self.open_stagings = 0
        self.chunk_sizes: list[int] = []
        self.keep = keep

    def put(self, body: bytes) -> str:
        return self.put_stream([body])[0]

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        staging = self.stage()
        for chunk in chunks:
            staging.write(chunk)
        return staging.commit()

    def stage(self) -> MemoryStaging:
        return MemoryStaging(self)

    def read(self, digest: str) -> bytes:
        return self.stored[digest]

    def open(self, digest: str) -> BinaryIO:
        return io.BytesIO(self.stored[digest])

    def size(self, digest: str) -> int:
        return len(self.stored[digest])

    def has(self, digest: str) -> bool:
        return digest in self.stored

    def is_damaged(self, digest: str, since_ms: int) -> bool:
        return digest not in self.stored


class MemoryStaging:
    def __init__(self, objects: MemoryObjects) -> None:
        self._objects = objects
        self._chunks: list[bytes] = []
        self._hash = hashlib.sha256()
        self._size = 0
        self._open = True
        objects.open_stagings += 1

    def write(self, chunk: bytes) -> None:
        assert self._open and isinstance(chunk, bytes)
        self._objects.chunk_sizes.append(len(chunk))
        self._hash.update(chunk)
        self._size += len(chunk)
        if self._objects.keep:
            self._chunks.append(chunk)

    def commit(self) -> tuple[str, int]:
        self._close()
        digest = "sha256:" + self._hash.hexdigest()
        self._objects.stored[digest] = b"".join(self._chunks)
        return digest, self._size

    def abort(self) -> None:
        self._close()

    def _close(self) -> None:
        assert self._open
        self._open = False
        self._objects.open_stagings -= 1


def digest_of(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()
