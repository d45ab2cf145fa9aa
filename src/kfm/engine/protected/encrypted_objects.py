"""Object stores that encrypt what is written and decrypt what is read.

They wrap any store, so the code that uses them need not know about keys. The digest of an encrypted object is always
that of its encrypted bytes. Encryption is deterministic: the same bytes are the same object.
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


class Encryption:
    """Encrypts small bodies with one key, and decrypts bodies of every available key."""

    def __init__(self, key: CustodianKey, keys: Keys) -> None:
        self.key = key
        self.keys = keys

    def encrypted(self, body: bytes) -> bytes:
        return b"".join(encrypted([body], self.key))

    def decrypted(self, body: bytes) -> bytes:
        """Return the body in clear; one that is not encrypted is unchanged."""
        return plain(body, self.keys)

    def salt(self, about: str) -> str:
        """Return a salt, so that a reader without the key cannot check guesses against a digest."""
        return self.key.keyed("salt", about.encode()).hex()


def plain(body: bytes, keys: Keys) -> bytes:
    return b"".join(decrypted([body], keys)) if encryption_key_id(body[:HEADER]) else body


def sealed_with(objects: Objects, digest: str) -> str:
    """Return the id of the key that an object is encrypted with; empty if it is in clear or does not exist."""
    if not objects.has(digest):
        return ""
    with objects.open(digest) as file:
        return encryption_key_id(file.read(HEADER))


class DecryptingObjects:
    """An object store that decrypts objects when they are read. Denied if the key is missing. Writes go unchanged to
    the store that it wraps."""

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

    def is_damaged(self, digest: str, since_ms: int) -> bool:
        return self._objects.is_damaged(digest, since_ms)


class EncryptedObjects(DecryptingObjects):
    """An object store that encrypts everything that is written, and decrypts what is read."""

    def __init__(
        self, objects: Objects, encryption: Encryption, told: Callable[[str, str], None] | None = None
    ) -> None:
        """`told` is called with the digest of the stored object and that of its bytes in clear. The latter is only for
        comparing with labels, and must not be stored."""
        super().__init__(objects, encryption.keys)
        self._encryption = encryption
        self._told = told

    def put(self, body: bytes) -> str:
        return self._objects.put(self._encryption.encrypted(body))

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        return self._objects.put_stream(encrypted(chunks, self._encryption.key))

    def stage(self) -> Staging:
        return EncryptedStaging(self._objects.stage(), self._encryption.key, self._told)


class EncryptedStaging:
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


class ScreenedObjects(DecryptingObjects):
    """An object store for bytes that perhaps may not be stored unencrypted. They wait in a temporary file, encrypted
    with a key that is kept nowhere, until `where` returns the store for them, by their digest or content."""

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
    """A file over an iterator of pieces, each of which may be longer than one read."""

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
