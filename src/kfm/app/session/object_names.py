"""Which objects a row or an object names: every digest in its bytes.

This is how `kfm move` and `kfm gc` find what the state needs. They look for digests and not for fields, so a record of
a later version of KFM, or of the Node runner, cannot name an object in a way that they overlook.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import BinaryIO

from kfm.crypto.encryption import MAGIC

_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_PAYLOAD = re.compile(rb'"payload": ?"([A-Za-z0-9+/=]{88,})"')  # of a signed statement
_AROUND = 65  # bytes that may belong to a digest at the edge of a piece
_PIECE = 1 << 20
_MAY_NAME = (b"{", b"[", b'"')  # begins every object that KFM writes and that names others


def names_in(body: bytes) -> Iterator[bytes]:
    """Yield the digests in these bytes, each as its 32 bytes: there may be many."""
    for found in _DIGEST.findall(body):
        yield bytes.fromhex(found.decode())
    for payload in _PAYLOAD.findall(body):
        try:
            yield from names_in(base64.b64decode(payload))
        except binascii.Error:
            continue


def packed(digest: str) -> bytes:
    return bytes.fromhex(digest[7:])


def unpacked(name: bytes) -> str:
    return "sha256:" + name.hex()


class NameReader:
    """The bytes of an object in pieces; it gathers the digests in them."""

    def __init__(self, file: BinaryIO, *, all_of_it: bool = True) -> None:
        """Without `all_of_it`, the rest of an object that holds data is not read: no object that KFM writes to name
        others begins as this one does."""
        self._file = file
        self._all_of_it = all_of_it
        self.size = 0
        self.names: set[bytes] = set()
        self.is_opaque = False  # it is encrypted, so it may name others

    def __iter__(self) -> Iterator[bytes]:
        end = b""
        with self._file as file:
            while piece := file.read(_PIECE):
                if not self.size:
                    self.is_opaque = piece.startswith(MAGIC)
                    if not self._all_of_it and len(piece) == _PIECE and piece.lstrip()[:1] not in _MAY_NAME:
                        return
                self.size += len(piece)
                self.names.update(names_in(end + piece))
                end = piece[-_AROUND:]
                yield piece
