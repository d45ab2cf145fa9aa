"""DSSE envelopes: typed bytes and signatures over both. Attestations, the key list and every signed act use them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

import msgspec

from kfm.crypto.signatures import Signer, is_signed, key_id
from kfm.errors import BadInput, Denied
from kfm.model.canonical import canonical
from kfm.model.records import Record

_MOST_SIGNATURES = 100


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """One signature. Other tools may add fields, such as a certificate; KFM ignores them."""

    sig: str  # base64
    keyid: str = ""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    payload: str  # base64
    payloadType: str  # the name that DSSE gives it
    signatures: list[Signature]


class VerifiedEnvelope(Record, frozen=True):
    """A verified envelope: its bytes, and the ids of the keys that signed them."""

    body: bytes
    key_ids: list[str]


def pae(kind: str, body: bytes) -> bytes:
    """Return the bytes to sign. Their type is part of them, so bytes of one type are never valid as another."""
    label = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(label), label, len(body), body)


def wrap(kind: str, body: bytes, signers: Iterable[Signer]) -> bytes:
    """Return an envelope as canonical JSON. Raise BadInput without a signer."""
    message = pae(kind, body)
    signatures = [Signature(keyid=each.key_id, sig=_text(each.sign(message))) for each in signers]
    if not signatures:
        raise BadInput("an envelope needs at least one key", hint="give a key that may attest")
    return canonical(Envelope(payload=_text(body), payloadType=kind, signatures=signatures))


def unwrap(envelope: bytes, kind: str, keys: Iterable[bytes], threshold: int = 1) -> VerifiedEnvelope:
    """Return the bytes if they have this type and at least `threshold` of these keys signed them.

    Raise BadInput or Denied otherwise. `keyid` is only a hint in DSSE: a signature without one, or with another tool's
    name for the key, is tried with every key.
    """
    try:
        found = msgspec.json.decode(envelope, type=Envelope)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise BadInput(
            "the bytes are not an envelope", hint="an envelope is JSON with payload, payloadType and signatures"
        ) from None
    if found.payloadType != kind:
        raise Denied("an envelope holds another type than expected", hint="its payloadType names the type")
    body = _bytes(found.payload)
    given = {key_id(public): public for public in keys}
    signed = _signed_by(found.signatures, pae(kind, body), given)
    if threshold < 1 or len(signed) < threshold:
        raise Denied(
            f"{len(signed)} trusted keys signed an envelope; {max(threshold, 1)} are required",
            hint="check who signed it and whether it was changed",
        )
    return VerifiedEnvelope(body=body, key_ids=sorted(signed))


def _signed_by(signatures: list[Signature], message: bytes, given: Mapping[str, bytes]) -> set[str]:
    if len(signatures) > _MOST_SIGNATURES:
        raise BadInput(
            f"an envelope has more than {_MOST_SIGNATURES} signatures", hint="remove signatures that are not needed"
        )
    signed: set[str] = set()
    for each in signatures:
        raw = _bytes(each.sig)
        tried = [each.keyid] if each.keyid in given else list(given)
        signed.update(name for name in tried if name not in signed and is_signed(given[name], raw, message))
    return signed


def _text(body: bytes) -> str:
    return b64encode(body).decode()


def _bytes(text: str) -> bytes:
    """Decode base64 in the standard or the URL alphabet: DSSE allows both."""
    try:
        return b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        raise BadInput(
            "a field of an envelope is not base64", hint="use the envelope exactly as it was written"
        ) from None
