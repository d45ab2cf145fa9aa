"""HMAC-SHA-256 (RFC 2104) of many short texts under one key; the key is prepared once."""

from __future__ import annotations

import hashlib

from kfm.model.secret import Secret

_BLOCK = 64
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


class Keyed:
    """Computes `hmac.digest(key, prefix + body, "sha256")` for many texts, but prepares the key only once."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: Secret, prefix: bytes = b"") -> None:
        secret = key.reveal()
        if len(secret) > _BLOCK:
            secret = hashlib.sha256(secret).digest()
        padded = secret.ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(padded.translate(_INNER) + prefix)
        self._outer = hashlib.sha256(padded.translate(_OUTER))

    def digest(self, body: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(body)
        outer.update(inner.digest())
        return outer.digest()
