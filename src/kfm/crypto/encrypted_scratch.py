"""Scratch that nobody can read: a file without a name whose bytes are enciphered under a key that is never kept.

For what a restricted run lays aside because it does not fit into memory. AES-XTS, as disks are enciphered: a piece is
read and written by itself, wherever it lies. It keeps bytes from being read by whoever gets the disk, not from being
changed by whoever writes to it: the file is gone with the process that made it.
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


def sealed_scratch(file: BinaryIO) -> BinaryIO:
    """The same file, as it is to be used: written and read anywhere, sealed below. `file` is unbuffered and empty."""
    return io.BufferedRandom(_Sealed(file), _BUFFER)


class _Sealed(io.RawIOBase):
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
        """As much as fits into one piece; who writes through a buffer is asked again for the rest."""
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
        """A whole piece in clear; zeros where nothing was written."""
        if number * PIECE >= self._size:
            return bytes(PIECE)
        self._file.seek(number * PIECE)
        body = bytearray()
        while len(body) < PIECE and (more := self._file.read(PIECE - len(body))):
            body += more
        if len(body) < PIECE:  # a gap that was sought over
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
