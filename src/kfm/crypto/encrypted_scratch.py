"""Encrypted scratch files: a file without a name, encrypted under a key that is never stored.

A restricted run uses one for data that does not fit into memory. The cipher is AES-XTS, as for disks: each piece is
read and written by itself. It protects against a person who reads the disk, not against one who writes to it; the file
disappears with the process.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

from kfm.crypto.signatures import missing

PIECE = 1 << 14
_BUFFER = 1 << 17


def encrypted_file(file: BinaryIO) -> BinaryIO:
    """Return an object that reads and writes clear bytes and encrypts them into `file`, which is unbuffered and
    empty."""
    return io.BufferedRandom(_EncryptedFile(file), _BUFFER)


class _EncryptedFile(io.RawIOBase):
    def __init__(self, file: BinaryIO) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        except ImportError as problem:
            file.close()
            raise missing(problem) from problem
        self._file = file
        self._size = 0
        self._at = 0
        key = algorithms.AES(os.urandom(64))
        self._cipher: Callable[[int], Any] = lambda number: Cipher(key, modes.XTS(struct.pack("<QQ", number, 0)))

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        number, within = divmod(self._at, PIECE)
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), PIECE - within, self._size - self._at))
        if count:
            view[:count] = self._piece(number)[within : within + count]
            self._at += count
        return count

    def write(self, data: Any) -> int:
        """Write as much of the data as fits into one piece, and return how much. The buffered writer around this file
        calls again for the rest."""
        number, within = divmod(self._at, PIECE)
        said = memoryview(data).cast("B")[: PIECE - within]
        piece = bytearray(self._piece(number))
        piece[within : within + len(said)] = said
        self._file.seek(number * PIECE)
        self._put(self._cipher(number).encryptor().update(bytes(piece)))
        self._at += len(said)
        self._size = max(self._size, self._at)
        return len(said)

    def _piece(self, number: int) -> bytes:
        """Return a whole piece in clear; zeros if nothing was written there."""
        if number * PIECE >= self._size:
            return bytes(PIECE)
        self._file.seek(number * PIECE)
        body = bytearray()
        while len(body) < PIECE and (more := self._file.read(PIECE - len(body))):
            body += more
        if len(body) < PIECE:  # a gap that a seek skipped
            return bytes(PIECE)
        return bytes(self._cipher(number).decryptor().update(bytes(body)))

    def _put(self, body: bytes) -> None:
        view = memoryview(body)
        while view:
            view = view[self._file.write(view) :]

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
