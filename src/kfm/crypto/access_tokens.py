"""Access tokens: what the state keeps of a token, and who may make and revoke one.

A token lets a person read over HTTP as somebody with a role. The state keeps the SHA-256 of its secret, never the
secret. The record is signed by an admin or by the person whose token it is.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from datetime import datetime, timedelta

import msgspec

from kfm.crypto.envelopes import Signature, pae
from kfm.crypto.key_list import WHEN, Key, Keys
from kfm.crypto.signatures import Signer, is_signed
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.records import Record

TYPE = "application/vnd.kfm.token+json"
PREFIX = "kfm_"  # of every token, so that scanners of secrets can find one
MOST_TEXT = 128  # characters of a token
MOST_NOTE = 200
LONGEST = timedelta(days=366)
_ID_DIGITS = 16


class AccessToken(Record, frozen=True):
    """What is kept of a token."""

    id: str
    digest: str  # SHA-256 of the token, in hex
    person: str  # of the key list
    made_at: str
    ends_at: str
    note: str = ""  # what it is for
    revoked_at: str = ""


class SignedToken(Record, frozen=True):
    """The record of a token with the signature of the person who made or revoked it."""

    signed: AccessToken
    signature: Signature


def digest_of(token: str) -> str:
    """Return the SHA-256 of a token in hex. It is computed for every text, so that all of them cost the same."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def id_of(digest: str) -> str:
    """Return the id of a token: the start of its digest. A stranger who guesses tokens finds no id with them."""
    return digest[:_ID_DIGITS]


def signed_token(token: AccessToken, signer: Signer) -> bytes:
    """Return the record of a token as the state keeps it."""
    message = pae(TYPE, canonical(token))
    return canonical(SignedToken(token, Signature(keyid=signer.key_id, sig=b64encode(signer.sign(message)).decode())))


def read_token(body: bytes) -> SignedToken:
    """Return a record that the state keeps. BadInput if it is none; its signature was checked when it was kept."""
    try:
        return msgspec.json.decode(body, type=SignedToken)
    except msgspec.MsgspecError:
        raise BadInput("the record of a token cannot be read", hint="revoke it, and make another") from None


def signer_of(token: SignedToken, keys: Keys) -> str:
    """Return the person whose key signed a record; empty if the key list has no such key."""
    key = keys.keys.get(token.signature.keyid)
    return key.person if key is not None else ""


def not_allowed(before: SignedToken | None, after: SignedToken, keys: Keys, now: str) -> list[str]:
    """Return the reasons why a token may not be kept like this: a new one, or `before` as revoked. Empty if it may."""
    token, reasons = after.signed, []
    key = _good_key(after, keys, now)
    if key is None:
        reasons.append("signature.bad")
    elif key.person != token.person and not keys.has_role(key.person, "admin"):
        reasons.append("signature.role")
    if token.id != id_of(token.digest) or len(token.note) > MOST_NOTE:
        reasons.append("token.malformed")
    if before is not None:
        was = before.signed
        revoked = msgspec.structs.replace(was, revoked_at=token.revoked_at)
        if was.revoked_at or not WHEN.match(token.revoked_at) or token.revoked_at > now or token != revoked:
            reasons.append("token.changed")
        return reasons
    if not is_listed(keys, token.person, now):
        reasons.append("person.unknown")
    if token.revoked_at or not _is_short(token, now):
        reasons.append("token.times")
    return reasons


def is_listed(keys: Keys, person: str, now: str) -> bool:
    """Return whether the key list has this person with a key that is valid now. Without one a person is nobody."""
    return person in keys.people and any(key.person == person and key.is_live(now) for key in keys.listed.keys)


def _is_short(token: AccessToken, now: str) -> bool:
    if not WHEN.match(token.made_at) or not WHEN.match(token.ends_at) or token.made_at > now:
        return False
    try:
        lasts = datetime.fromisoformat(token.ends_at) - datetime.fromisoformat(token.made_at)
    except ValueError:
        return False
    return timedelta(0) < lasts <= LONGEST


def _good_key(token: SignedToken, keys: Keys, now: str) -> Key | None:
    """Return the key that signed a record, if it is a person's and valid now; else None."""
    key = keys.live(token.signature.keyid, "act", now)
    try:
        raw = b64decode(token.signature.sig, validate=True)
    except ValueError:
        return None
    message = pae(TYPE, canonical(token.signed))
    return key if key is not None and is_signed(bytes.fromhex(key.public), raw, message) else None
