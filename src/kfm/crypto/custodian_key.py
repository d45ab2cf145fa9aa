"""The custodian's key: one secret, and a key of its own for each purpose (HKDF, RFC 5869).

Sealing, public ids, fingerprints and the salts of the ledger never share a key: who learns one learns no other.
"""

from __future__ import annotations

import hashlib
import hmac

from kfm.errors import BadInput
from kfm.model.secret import SHORTEST, Secret

_SALT = b"kfm/custody/1"
_DISTINCT = 8  # different bytes that a secret has at least: `aaaa…` is no secret


def hkdf(secret: bytes, salt: bytes, info: bytes, size: int) -> bytes:
    """HKDF-SHA256: extract, then expand."""
    key = hmac.digest(salt or b"\0" * 32, secret, "sha256")
    made = block = b""
    for count in range(1, -(-size // 32) + 1):
        block = hmac.digest(key, block + info + bytes([count]), "sha256")
        made += block
    return made[:size]


class CustodianKey:
    """Derives; shows nothing but its id."""

    __slots__ = ("_secret", "key_id")

    def __init__(self, secret: Secret) -> None:
        value = secret.reveal()
        if len(value) < SHORTEST or len(set(value)) < _DISTINCT:
            raise BadInput(
                f"a custodian's key is shorter than {SHORTEST} bytes, or the same few bytes over and over",
                hint="make one with `openssl rand -hex 32`",
            )
        self._secret = secret
        self.key_id = self.derived("key-id", 16).reveal().hex()  # public: says which key, and nothing about it

    def derived(self, purpose: str, size: int = 32) -> Secret:
        """The key for one purpose; the same each time."""
        return Secret(hkdf(self._secret.reveal(), _SALT, purpose.encode(), size))

    def keyed(self, purpose: str, message: bytes) -> bytes:
        """HMAC-SHA256 under the key of a purpose."""
        return hmac.digest(self.derived(purpose).reveal(), message, hashlib.sha256)

    def __repr__(self) -> str:
        return f"CustodianKey({self.key_id})"
