"""DSSE: bytes of a type, and signatures over both. What the attestations, the key list and every signed act use."""

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
    """Others may write more fields (a certificate, say); they say nothing to us."""

    sig: str  # base64
    keyid: str = ""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    payload: str  # base64
    payloadType: str  # as others call it
    signatures: list[Signature]


class Signed(Record, frozen=True):
    """An envelope that was checked: its bytes, and the ids of the keys that signed them."""

    body: bytes
    key_ids: list[str]


def pae(kind: str, body: bytes) -> bytes:
    """What is signed: no bytes of one type can be read as bytes of another."""
    told = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(told), told, len(body), body)


def wrap(kind: str, body: bytes, signers: Iterable[Signer]) -> bytes:
    """An envelope, in canonical JSON."""
    message = pae(kind, body)
    signatures = [Signature(keyid=each.key_id, sig=_text(each.sign(message))) for each in signers]
    if not signatures:
        raise BadInput("an envelope is to be made without a key", hint="give one that may attest")
    return canonical(Envelope(payload=_text(body), payloadType=kind, signatures=signatures))


def unwrap(envelope: bytes, kind: str, keys: Iterable[bytes], threshold: int = 1) -> Signed:
    """The bytes, if they are of the type asked for and so many different keys of these signed them.

    `keyid` is only a hint, as DSSE has it: a signature without one, or with the name another tool gives the key, is
    tried with every key.
    """
    try:
        found = msgspec.json.decode(envelope, type=Envelope)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise BadInput("that is no envelope", hint="it is JSON with payload, payloadType and signatures") from None
    if found.payloadType != kind:
        raise Denied("an envelope holds another type than was asked for", hint="look at its payloadType")
    body = _bytes(found.payload)
    given = {key_id(public): public for public in keys}
    signed = _signed_by(found.signatures, pae(kind, body), given)
    if threshold < 1 or len(signed) < threshold:
        raise Denied(
            f"an envelope is signed by {len(signed)} of the keys we trust, and it takes {max(threshold, 1)}",
            hint="look for who signed it, and whether it was changed",
        )
    return Signed(body=body, key_ids=sorted(signed))


def _signed_by(signatures: list[Signature], message: bytes, given: Mapping[str, bytes]) -> set[str]:
    if len(signatures) > _MOST_SIGNATURES:
        raise BadInput(
            f"an envelope has more than {_MOST_SIGNATURES} signatures", hint="leave those out that say nothing"
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
    """Base64, in the standard or the URL's alphabet: DSSE lets both be written."""
    try:
        return b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        raise BadInput("an envelope holds something that is no base64", hint="take it as it was written") from None
