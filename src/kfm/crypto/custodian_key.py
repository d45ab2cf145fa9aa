"""The custodian's key: one secret, from which HKDF (RFC 5869) derives a separate key for each purpose.

Encryption, public ids, fingerprints and ledger salts never share a key: a person who learns one learns no other.
"""

from __future__ import annotations

import hashlib
import hmac

from kfm.errors import BadInput
from kfm.model.secret import SHORTEST, Secret

_SALT = b"kfm/custody/1"
_DISTINCT = 8  # a secret has at least this many different bytes


def hkdf(secret: bytes, salt: bytes, info: bytes, size: int) -> bytes:
    """Return HKDF-SHA256: extract, then expand."""
    key = hmac.digest(salt or b"\0" * 32, secret, "sha256")
    made = block = b""
    for count in range(1, -(-size // 32) + 1):
        block = hmac.digest(key, block + info + bytes([count]), "sha256")
        made += block
    return made[:size]


class CustodianKey:
    """Derives keys; it shows only its id."""

    __slots__ = ("_secret", "key_id")

    def __init__(self, secret: Secret) -> None:
        value = secret.reveal()
        if len(value) < SHORTEST or len(set(value)) < _DISTINCT:
            raise BadInput(
                f"a custodian's key is shorter than {SHORTEST} bytes, or repeats a few bytes",
                hint="make one with `openssl rand -hex 32`",
            )
        self._secret = secret
        self.key_id = self.derived("key-id", 16).reveal().hex()  # public: it names the key and reveals nothing about it

    def derived(self, purpose: str, size: int = 32) -> Secret:
        """Return the key for one purpose, always the same."""
        return Secret(hkdf(self._secret.reveal(), _SALT, purpose.encode(), size))

    def keyed(self, purpose: str, message: bytes) -> bytes:
        """Return HMAC-SHA256 under the key of a purpose."""
        return hmac.digest(self.derived(purpose).reveal(), message, hashlib.sha256)

    def __repr__(self) -> str:
        return f"CustodianKey({self.key_id})"
