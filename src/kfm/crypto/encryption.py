"""Deterministic encryption: only the custodian's key decrypts, and equal bytes give equal encrypted bytes.

    header   32 bytes: `KFMSEAL`, 1, the power of two of a chunk, seven zeros, the id of the key
    chunk    16 bytes of tag, then as many bytes as the clear chunk; only the last may be shorter

Each chunk is AES-SIV (RFC 5297) under a key of 2 x 128 bits derived from the custodian's. Its associated data are the
header, its number, whether it is the last, and the tag of the chunk before it. So a chunk that is left out, added,
moved, taken from another file, or cut off at a boundary does not decrypt: only a complete file decrypts completely.

Encryption is deterministic on purpose: an unchanged source has an unchanged digest, and a reader without the key cannot
find the bytes from the SHA-256 of the encrypted bytes. Two facts are therefore visible: the length of a file, and that
two files are equal or begin with the same chunks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kfm.crypto.custodian_key import CustodianKey
from kfm.errors import Corrupt, Denied

MAGIC = b"KFMSEAL\x01"
HEADER = 32
TAG = 16
CHUNK_BITS = 16  # 64 KiB: fast, and small enough that equal beginnings of files reveal little
CHUNK = 1 << CHUNK_BITS
MEDIA_TYPE = "application/vnd.kfm.sealed"
_PURPOSE = "seal/aes-siv-256"
_BROKEN = "the bytes were changed, cut or rearranged; restore them from a copy"

Keys = Callable[[str], CustodianKey | None]


def _cipher(key: CustodianKey) -> Any:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    except ImportError as problem:
        from kfm.crypto.signatures import missing  # not at the top: reading a header needs no signatures

        raise missing(problem) from problem
    try:
        return AESSIV(key.derived(_PURPOSE, 32).reveal())
    except UnsupportedAlgorithm as problem:
        raise Denied("the installed OpenSSL has no AES-SIV", hint="install the wheel of cryptography") from problem


def _bound(header: bytes, number: int, last: bool, before: bytes) -> list[bytes]:
    return [header + struct.pack(">QB", number, last) + before]


def _cut(waiting: bytearray, block: memoryview, size: int) -> Iterator[bytearray | memoryview]:
    """Yield pieces of this size as long as more bytes follow; the rest, at most one whole piece, stays in `waiting`.

    Pieces are views of the block: a copy of each would cost a third of the time of the cipher.
    """
    at = 0
    if waiting:
        at = min(size - len(waiting), len(block))
        waiting += block[:at]
        if at == len(block):
            return
        yield waiting
        waiting.clear()
    while len(block) - at > size:
        yield block[at : at + size]
        at += size
    waiting += block[at:]


class Encryptor:
    """Takes blocks of any size and yields encrypted bytes as they become available."""

    def __init__(self, key: CustodianKey) -> None:
        self._cipher = _cipher(key)
        self._header = MAGIC + bytes([CHUNK_BITS]) + bytes(7) + bytes.fromhex(key.key_id)
        self._waiting = bytearray()
        self._number = 0
        self._tag = bytes(TAG)
        self._begun = self._ended = False

    def update(self, block: bytes) -> Iterator[bytes]:
        """Yield the bytes that can be encrypted by now. The caller must exhaust the iterator before it passes the next
        block."""
        assert not self._ended, "it was finished"
        if not self._begun:
            self._begun = True
            yield self._header
        for piece in _cut(self._waiting, memoryview(block), CHUNK):
            yield self._chunk(piece, last=False)

    def finish(self) -> bytes:
        head = b"".join(self.update(b""))
        self._ended = True
        return head + self._chunk(self._waiting, last=True)

    def _chunk(self, plain: bytearray | memoryview, *, last: bool) -> bytes:
        made: bytes = self._cipher.encrypt(plain, _bound(self._header, self._number, last, self._tag))
        self._number += 1
        self._tag = made[:TAG]
        return made


class Decryptor:
    """Decrypts blocks. It yields only verified bytes; the file is complete if `finish` returns."""

    def __init__(self, keys: Keys) -> None:
        """`keys` returns the key of an id, or None if it is not available."""
        self._keys = keys
        self._cipher: Any = None
        self._header = b""
        self._waiting = bytearray()
        self._number = 0
        self._tag = bytes(TAG)

    def update(self, block: bytes) -> Iterator[bytes]:
        """Yield the bytes that can be decrypted by now. The caller must exhaust the iterator before it passes the next
        block."""
        rest = memoryview(block)
        if self._cipher is None:
            missing_yet = HEADER - len(self._header)
            self._header += rest[:missing_yet]
            rest = rest[missing_yet:]
            if len(self._header) < HEADER:
                return
            self._begin()
        for piece in _cut(self._waiting, rest, CHUNK + TAG):
            yield self._chunk(piece, last=False)

    def finish(self) -> bytes:
        if self._cipher is None:
            raise Corrupt("encrypted bytes end within their header", hint=_BROKEN)
        return self._chunk(self._waiting, last=True)

    def _begin(self) -> None:
        name = encryption_key_id(self._header)
        if not name:
            raise Corrupt("bytes that should be encrypted are not", hint=_BROKEN)
        key = self._keys(name)
        if key is None or key.key_id != name:
            raise Denied(
                f"bytes are encrypted with key {name}, which is not available", hint="ask their custodian for the key"
            )
        self._cipher = _cipher(key)

    def _chunk(self, encrypted: bytearray | memoryview, *, last: bool) -> bytes:
        from cryptography.exceptions import InvalidTag

        if len(encrypted) < TAG:
            raise Corrupt(f"encrypted chunk {self._number} is cut off", hint=_BROKEN)
        try:
            plain: bytes = self._cipher.decrypt(encrypted, _bound(self._header, self._number, last, self._tag))
        except InvalidTag:
            raise Corrupt(f"encrypted chunk {self._number} does not decrypt", hint=_BROKEN) from None
        self._number += 1
        self._tag = bytes(encrypted[:TAG])
        return plain


def encrypted(blocks: Iterable[bytes], key: CustodianKey) -> Iterator[bytes]:
    sealer = Encryptor(key)
    for block in blocks:
        yield from sealer.update(block)
    yield sealer.finish()


def decrypted(blocks: Iterable[bytes], keys: Keys) -> Iterator[bytes]:
    """Yield decrypted blocks, each verified. A caller that stops early does not learn whether the file is complete."""
    opener = Decryptor(keys)
    for block in blocks:
        yield from opener.update(block)
    if made := opener.finish():
        yield made


def encryption_key_id(head: bytes) -> str:
    """Return the id of the key that encrypted bytes with this beginning; empty if they are not encrypted."""
    if len(head) < HEADER or head[:8] != MAGIC or head[8] != CHUNK_BITS or any(head[9:16]):
        return ""
    return head[16:HEADER].hex()


def encrypted_size(size: int) -> int:
    return HEADER + size + TAG * max(1, -(-size // CHUNK))
