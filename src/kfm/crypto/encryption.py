"""Sealing: bytes that only the custodian's key opens, and the same bytes give the same sealed bytes.

    header   32 bytes: `KFMSEAL`, 1, the power of two of a chunk, seven zeros, the id of the key
    chunk    16 bytes of tag, then as many bytes as were sealed: a whole chunk, but for the last

Each chunk is AES-SIV (RFC 5297) under a key of 2 x 128 bits derived from the custodian's. Its associated data are the
header, its number, whether it is the last, and the tag of the chunk before it. So a chunk that is left out, added,
moved, taken from another file, or cut off at a boundary does not open: what opens whole is what was sealed whole.

Determinism is meant: a source that did not change is seen not to have changed, and the SHA-256 of the sealed bytes is
a keyed digest, of which nobody without the key can guess the bytes. Two things are therefore not hidden: how long it
is, and that two files are equal, or begin with the same chunks.
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
CHUNK_BITS = 16  # 64 KiB: fast where memory is slow, and what two files are seen to have in common
CHUNK = 1 << CHUNK_BITS
MEDIA_TYPE = "application/vnd.kfm.sealed"
_PURPOSE = "seal/aes-siv-256"
_BROKEN = "the bytes were changed, cut or put together; restore them from a copy"

Keys = Callable[[str], CustodianKey | None]


def _cipher(key: CustodianKey) -> Any:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    except ImportError as problem:
        from kfm.crypto.signatures import missing  # not above: whoever only looks at a header needs no signatures

        raise missing(problem) from problem
    try:
        return AESSIV(key.derived(_PURPOSE, 32).reveal())
    except UnsupportedAlgorithm as problem:
        raise Denied("AES-SIV is not in the OpenSSL here", hint="use the wheel of cryptography") from problem


def _bound(header: bytes, number: int, last: bool, before: bytes) -> list[bytes]:
    return [header + struct.pack(">QB", number, last) + before]


def _cut(waiting: bytearray, block: memoryview, size: int) -> Iterator[bytearray | memoryview]:
    """Pieces of this size, of which it is known that something follows; what is left waits, a whole piece at most.

    Pieces are taken from the block itself: a copy of each would cost as much as a third of the cipher.
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


class Sealer:
    """Takes blocks of any size, gives sealed bytes as they come."""

    def __init__(self, key: CustodianKey) -> None:
        self._cipher = _cipher(key)
        self._header = MAGIC + bytes([CHUNK_BITS]) + bytes(7) + bytes.fromhex(key.key_id)
        self._waiting = bytearray()
        self._number = 0
        self._tag = bytes(TAG)
        self._begun = self._ended = False

    def update(self, block: bytes) -> Iterator[bytes]:
        """What can be sealed by now; to be gone through before the next block."""
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


class Opener:
    """The way back. Gives only bytes that were checked; that nothing is missing is known when `finish` returns."""

    def __init__(self, keys: Keys) -> None:
        """`keys` answers the id of a key with the key, or with None if it is not at hand."""
        self._keys = keys
        self._cipher: Any = None
        self._header = b""
        self._waiting = bytearray()
        self._number = 0
        self._tag = bytes(TAG)

    def update(self, block: bytes) -> Iterator[bytes]:
        """What can be opened by now; to be gone through before the next block."""
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
            raise Corrupt("sealed bytes end within their header", hint=_BROKEN)
        return self._chunk(self._waiting, last=True)

    def _begin(self) -> None:
        name = sealed_by(self._header)
        if not name:
            raise Corrupt("bytes that should be sealed are not", hint=_BROKEN)
        key = self._keys(name)
        if key is None or key.key_id != name:
            raise Denied(f"bytes are sealed with key {name}, which is not at hand", hint="ask their custodian")
        self._cipher = _cipher(key)

    def _chunk(self, sealed: bytearray | memoryview, *, last: bool) -> bytes:
        from cryptography.exceptions import InvalidTag

        if len(sealed) < TAG:
            raise Corrupt(f"sealed chunk {self._number} is cut off", hint=_BROKEN)
        try:
            plain: bytes = self._cipher.decrypt(sealed, _bound(self._header, self._number, last, self._tag))
        except InvalidTag:
            raise Corrupt(f"sealed chunk {self._number} does not open", hint=_BROKEN) from None
        self._number += 1
        self._tag = bytes(sealed[:TAG])
        return plain


def sealed(blocks: Iterable[bytes], key: CustodianKey) -> Iterator[bytes]:
    sealer = Sealer(key)
    for block in blocks:
        yield from sealer.update(block)
    yield sealer.finish()


def opened(blocks: Iterable[bytes], keys: Keys) -> Iterator[bytes]:
    """Every block given was checked; a reader that stops before the end has not seen whether it is whole."""
    opener = Opener(keys)
    for block in blocks:
        yield from opener.update(block)
    if made := opener.finish():
        yield made


def sealed_by(head: bytes) -> str:
    """The id of the key that bytes beginning so are sealed with; empty if they are not sealed."""
    if len(head) < HEADER or head[:8] != MAGIC or head[8] != CHUNK_BITS or any(head[9:16]):
        return ""
    return head[16:HEADER].hex()


def sealed_size(size: int) -> int:
    return HEADER + size + TAG * max(1, -(-size // CHUNK))
