"""ID tokens of OpenID Connect: is this one a provider's, for this client, from this sign-in and not over yet?

The algorithms are a fixed list; a token does not choose one that the list does not have. A key counts for the
algorithms of its own type alone, so the public key of a provider is never the secret of an HMAC. Keys that a token
brings along (`jwk`, `jku`, `x5c`) are not looked at.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256, sha512
from typing import Any, NamedTuple

from kfm.crypto.signatures import is_signed, missing
from kfm.errors import BadInput, Denied
from kfm.parsing.strict_json import decode

ALGORITHMS = {"RS256": "RSA", "PS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}  # with the type of their keys
MOST_BYTES = 32 * 1024  # of a token
MOST_KEYS = 100
LEEWAY_S = 30  # by which the clocks of provider and server may differ
LONGEST_S = 600  # since the token was issued: it comes with the answer to a code
_RSA_BITS = (2048, 8192)
_COORDINATE = 32  # bytes, of P-256


class Wanted(NamedTuple):
    """What a token has to say."""

    issuer: str
    client_id: str
    nonce: str
    now_s: float
    access_token: str = ""  # which came with it


def verified_claims(token: str, keys: Sequence[dict[str, Any]], wanted: Wanted) -> dict[str, Any]:
    """Return the claims of an ID token. Denied with a `reason` if one check fails; nothing of the token is quoted."""
    if len(token) > MOST_BYTES or token.count(".") != 2:
        raise _refused("form", "it is no signed token")
    head, body, signature = token.split(".")
    header = _object(head)
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise _refused("algorithm", f"its algorithm is none of {', '.join(ALGORITHMS)}")
    if "crit" in header or not isinstance(key_id, str) or str(header.get("typ", "JWT")).upper() != "JWT":
        raise _refused("form", "its header asks for something unknown")
    fitting = [key for key in keys if _fits(key, algorithm, key_id)]
    if len(fitting) != 1:
        raise _refused("key", "no single key of the provider has its name and type")
    if not _VERIFIERS[algorithm](fitting[0], _bytes(signature), f"{head}.{body}".encode()):
        raise _refused("signature", "the provider's key did not sign it")
    claims = _object(body)
    _check(claims, algorithm, wanted)
    return claims


def has_key(token: str, keys: Sequence[dict[str, Any]]) -> bool:
    """Return whether the keys have the one that a token names: if not, the provider may have new ones."""
    try:
        header = _object(token.partition(".")[0])
    except Denied:
        return True  # new keys would not help
    name = header.get("kid", "")
    return not name or any(key.get("kid") == name for key in keys)


def _refused(reason: str, words: str) -> Denied:
    return Denied(f"the provider's answer was refused: {words}", hint="sign in again", reason=reason)


def _fits(key: dict[str, Any], algorithm: str, key_id: str) -> bool:
    operations = key.get("key_ops", ["verify"])
    return (
        key.get("kty") == ALGORITHMS[algorithm]
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in operations
        and (not key_id or key.get("kid") == key_id)
    )


def _check(claims: dict[str, Any], algorithm: str, wanted: Wanted) -> None:
    if claims.get("iss") != wanted.issuer:
        raise _refused("issuer", "its issuer is not the one of kfm.yml")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if wanted.client_id not in audiences:
        raise _refused("audience", "it was made for another client")
    if claims.get("azp", wanted.client_id if len(audiences) == 1 else "") != wanted.client_id:
        raise _refused("azp", "it was made for another client")
    ends, issued, begins = (_number(claims, name) for name in ("exp", "iat", "nbf"))
    if ends is None or ends + LEEWAY_S <= wanted.now_s:
        raise _refused("expired", "it has ended")
    if issued is None or issued - LEEWAY_S > wanted.now_s:
        raise _refused("early", "it is from the future")
    if issued + LONGEST_S + LEEWAY_S <= wanted.now_s:
        raise _refused("old", "it was issued too long ago")
    if "nbf" in claims and (begins is None or begins - LEEWAY_S > wanted.now_s):
        raise _refused("early", "it is not valid yet")
    nonce, subject = claims.get("nonce"), claims.get("sub")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode("utf-8", "replace"), wanted.nonce.encode()):
        raise _refused("nonce", "it belongs to another sign-in")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise _refused("subject", "it names nobody")
    if "at_hash" in claims and claims["at_hash"] != _half_hash(wanted.access_token, algorithm):
        raise _refused("access_token", "it belongs to another access token")


def _number(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _half_hash(text: str, algorithm: str) -> str:
    """Return the left half of a hash, as OpenID Connect 3.1.3.6 says."""
    found = (sha512 if algorithm == "EdDSA" else sha256)(text.encode("utf-8", "replace")).digest()
    return urlsafe_b64encode(found[: len(found) // 2]).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """Return the bytes of base64url without padding. Denied for another spelling of the same bytes."""
    try:
        found = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        found = b""
    if not found or urlsafe_b64encode(found).rstrip(b"=") != text.encode("utf-8", "replace"):
        raise _refused("form", "it is no signed token")
    return found


def _object(part: str) -> dict[str, Any]:
    try:
        found = decode(_bytes(part), "a token")
    except (BadInput, ValueError):
        found = None
    if not isinstance(found, dict):
        raise _refused("form", "it is no signed token")
    return found


def _whole(key: dict[str, Any], name: str) -> int:
    value = key.get(name)
    return int.from_bytes(_bytes(value if isinstance(value, str) else ""), "big")


def _rsa(key: dict[str, Any], signature: bytes, message: bytes, *, pss: bool) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
    except ImportError as problem:
        raise missing(problem) from problem
    modulus, exponent = _whole(key, "n"), _whole(key, "e")
    if not _RSA_BITS[0] <= modulus.bit_length() <= _RSA_BITS[1] or not 3 <= exponent < 1 << 33:
        return False
    digest = hashes.SHA256()
    how = padding.PSS(padding.MGF1(hashes.SHA256()), digest.digest_size) if pss else padding.PKCS1v15()
    try:
        RSAPublicNumbers(exponent, modulus).public_key().verify(signature, message, how, digest)
    except (InvalidSignature, ValueError):
        return False
    return True


def _ecdsa(key: dict[str, Any], signature: bytes, message: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256
    except ImportError as problem:
        raise missing(problem) from problem
    if key.get("crv") != "P-256" or len(signature) != 2 * _COORDINATE:
        return False
    first, second = (int.from_bytes(part, "big") for part in (signature[:_COORDINATE], signature[_COORDINATE:]))
    try:
        public = ec.EllipticCurvePublicNumbers(_whole(key, "x"), _whole(key, "y"), ec.SECP256R1()).public_key()
        public.verify(encode_dss_signature(first, second), message, ec.ECDSA(SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def _ed25519(key: dict[str, Any], signature: bytes, message: bytes) -> bool:
    public = key.get("x")
    return key.get("crv") == "Ed25519" and is_signed(
        _bytes(public if isinstance(public, str) else ""), signature, message
    )


_VERIFIERS: dict[str, Callable[[dict[str, Any], bytes, bytes], bool]] = {
    "RS256": lambda key, signature, message: _rsa(key, signature, message, pss=False),
    "PS256": lambda key, signature, message: _rsa(key, signature, message, pss=True),
    "ES256": _ecdsa,
    "EdDSA": _ed25519,
}
