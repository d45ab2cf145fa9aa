"""Objects whose bytes are sealed before they reach the store, and opened on their way out.

Written once, around whichever store there is: what is handed such objects need not know of keys. The digest of a
sealed object is that of its sealed bytes, everywhere. Sealing is deterministic: the same bytes are the same object.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from kfm.crypto.custodian_key import CustodianKey
from kfm.crypto.encryption import HEADER, Decryptor, Encryptor, Keys, decrypted, encrypted, encryption_key_id
from kfm.model.ports import Objects, Staging
from kfm.model.secret import Secret

BLOCK = 1 << 20


class Seal:
    """Seals small bodies with one key, and opens what any key at hand has sealed."""

    def __init__(self, key: CustodianKey, keys: Keys) -> None:
        self.key = key
        self.keys = keys

    def sealed(self, body: bytes) -> bytes:
        return b"".join(encrypted([body], self.key))

    def opened(self, body: bytes) -> bytes:
        """As it is, if it is not sealed."""
        return plain(body, self.keys)

    def salt(self, about: str) -> str:
        """Makes a digest of what can be guessed one that cannot be checked without the key."""
        return self.key.keyed("salt", about.encode()).hex()


def plain(body: bytes, keys: Keys) -> bytes:
    return b"".join(decrypted([body], keys)) if encryption_key_id(body[:HEADER]) else body


def sealed_with(objects: Objects, digest: str) -> str:
    """The id of the key that an object is sealed with; empty if it is not, or is not there."""
    if not objects.has(digest):
        return ""
    with objects.open(digest) as file:
        return encryption_key_id(file.read(HEADER))


class OpeningObjects:
    """Reads what is sealed as if it were not, as far as the keys are at hand; Denied where one is not. Stores as the
    objects beneath do."""

    def __init__(self, objects: Objects, keys: Keys) -> None:
        self._objects = objects
        self._keys = keys

    def put(self, body: bytes) -> str:
        return self._objects.put(body)

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        return self._objects.put_stream(chunks)

    def stage(self) -> Staging:
        return self._objects.stage()

    def read(self, digest: str) -> bytes:
        return plain(self._objects.read(digest), self._keys)

    def open(self, digest: str) -> BinaryIO:
        file = self._objects.open(digest)
        head = file.read(HEADER)
        if not encryption_key_id(head):
            if not file.seekable():
                return io.BufferedReader(_Pieces(_all(head, file), file), BLOCK)
            file.seek(0)
            return file
        return io.BufferedReader(_Pieces(_opened(head, file, self._keys), file), BLOCK)

    def size(self, digest: str) -> int:
        return self._objects.size(digest)

    def has(self, digest: str) -> bool:
        return self._objects.has(digest)


class SealedObjects(OpeningObjects):
    """Nothing reaches the store but under the key."""

    def __init__(self, objects: Objects, seal: Seal, told: Callable[[str, str], None] | None = None) -> None:
        """`told` hears the digest of what was stored, and that of the bytes before they were sealed: for comparing
        with labels, never to be kept."""
        super().__init__(objects, seal.keys)
        self._seal = seal
        self._told = told

    def put(self, body: bytes) -> str:
        return self._objects.put(self._seal.sealed(body))

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        return self._objects.put_stream(encrypted(chunks, self._seal.key))

    def stage(self) -> Staging:
        return SealedStaging(self._objects.stage(), self._seal.key, self._told)


class SealedStaging:
    def __init__(self, inner: Staging, key: CustodianKey, told: Callable[[str, str], None] | None) -> None:
        self._inner = inner
        self._sealer = Encryptor(key)
        self._told = told
        self._hash = hashlib.sha256()

    def write(self, chunk: bytes) -> None:
        if self._told is not None:
            self._hash.update(chunk)
        for piece in self._sealer.update(bytes(chunk)):
            self._inner.write(piece)

    def commit(self) -> tuple[str, int]:
        self._inner.write(self._sealer.finish())
        digest, size = self._inner.commit()
        if self._told is not None:
            self._told(digest, "sha256:" + self._hash.hexdigest())
        return digest, size

    def abort(self) -> None:
        self._inner.abort()


Where = Callable[[str, Callable[[], Iterator[bytes]]], Objects]


class ScreenedObjects(OpeningObjects):
    """For bytes of which it is not known yet whether they may be stored in clear: they wait under a key that nobody
    keeps, until `where` says by their digest, or by what they are, into which objects they go."""

    def __init__(self, objects: Objects, keys: Keys, where: Where, *, dry: bool) -> None:
        super().__init__(objects, keys)
        self._where = where
        self._dry = dry

    def stage(self) -> Staging:
        import tempfile

        return ScreenedStaging(self._where, io.BytesIO() if self._dry else tempfile.TemporaryFile())


class ScreenedStaging:
    def __init__(self, where: Where, waiting: BinaryIO) -> None:
        self._where = where
        self._waiting = waiting
        self._key = CustodianKey(Secret(os.urandom(64)))
        self._sealer = Encryptor(self._key)
        self._hash = hashlib.sha256()

    def write(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self._waiting.writelines(self._sealer.update(bytes(chunk)))

    def commit(self) -> tuple[str, int]:
        self._waiting.write(self._sealer.finish())
        try:
            objects = self._where("sha256:" + self._hash.hexdigest(), self._pieces)
            staging = objects.stage()
            try:
                for piece in self._pieces():
                    staging.write(piece)
            except BaseException:
                staging.abort()
                raise
            return staging.commit()
        finally:
            self._waiting.close()

    def _pieces(self) -> Iterator[bytes]:
        self._waiting.seek(0)
        return decrypted(_blocks(self._waiting), lambda _key_id: self._key)

    def abort(self) -> None:
        self._waiting.close()


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block


def _all(head: bytes, file: BinaryIO) -> Iterator[bytes]:
    if head:
        yield head
    yield from _blocks(file)


def _opened(head: bytes, file: BinaryIO, keys: Keys) -> Iterator[bytes]:
    opener = Decryptor(keys)
    yield from opener.update(head)
    for block in _blocks(file):
        yield from opener.update(block)
    if last := opener.finish():
        yield last


class _Pieces(io.RawIOBase):
    """A stream of pieces, each of which may be longer than what is asked for."""

    def __init__(self, pieces: Iterator[bytes], file: BinaryIO) -> None:
        self._pieces = pieces
        self._file = file
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        count = min(len(buffer), len(self._piece))
        buffer[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
