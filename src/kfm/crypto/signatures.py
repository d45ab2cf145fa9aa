"""Ed25519 signatures: signing and verification."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from kfm.errors import BadInput, Denied
from kfm.model.secret import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_SIZE = SEED_SIZE = 32
SIGNATURE_SIZE = 64

# Points of small order: under such a key one signature is valid for many messages. Without the sign bit.
_WEAK = frozenset(
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)


def missing(problem: ImportError) -> Denied:
    """Return the error for a missing library: without it nothing is allowed."""
    name = problem.name or "cryptography"
    return Denied(
        "keys cannot be used: the library cryptography is not installed", hint="install it with KFM", module=name
    )


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as problem:
        raise missing(problem) from problem
    return ed25519


def key_id(public: bytes) -> str:
    """Return the id of a public key: the SHA-256 of its 32 bytes, in hex."""
    return hashlib.sha256(public).hexdigest()


def check_public(public: bytes) -> bytes:
    plain = public[:-1] + bytes([public[-1] & 0x7F]) if public else b""
    if len(public) != PUBLIC_SIZE or plain in _WEAK:
        raise BadInput("a public key is not a valid Ed25519 key", hint="make a key with `kfm keys new`")
    return public


class Signer:
    """A private key that signs and is never shown."""

    __slots__ = ("_key", "key_id", "public")

    def __init__(self, seed: Secret) -> None:
        """`seed` is the 32 bytes of RFC 8032, or their hexadecimal form, as in a key file."""
        self._key: Ed25519PrivateKey = _library().Ed25519PrivateKey.from_private_bytes(_seed_of(seed))
        self.public: bytes = self._key.public_key().public_bytes_raw()
        self.key_id = key_id(self.public)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"Signer({self.key_id[:12]})"


def _seed_of(seed: Secret) -> bytes:
    value = seed.reveal()
    if len(value) == 2 * SEED_SIZE:
        try:
            value = bytes.fromhex(value.decode("ascii"))
        except ValueError:
            value = b""
    if len(value) != SEED_SIZE:
        raise BadInput(
            "a signing key is neither 32 bytes nor 64 hexadecimal digits", hint="make a key with `kfm keys new`"
        )
    return value


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether the holder of the key signed exactly these bytes; malformed keys and signatures give False."""
    library = _library()
    from cryptography.exceptions import InvalidSignature

    if len(signature) != SIGNATURE_SIZE:
        return False
    try:
        library.Ed25519PublicKey.from_public_bytes(check_public(public)).verify(signature, message)
    except (BadInput, InvalidSignature, ValueError):
        return False
    return True
