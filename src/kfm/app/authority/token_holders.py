"""Access tokens for a reader: what the state keeps of each, and the person whom a token names now."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kfm.app.authority.keyring import in_force, now
from kfm.clock import parse_instant
from kfm.crypto.access_tokens import (
    MOST_TEXT,
    AccessToken,
    SignedToken,
    digest_of,
    id_of,
    is_listed,
    read_token,
    signer_of,
)
from kfm.errors import BadInput, Corrupt, KfmError
from kfm.model import refs

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.crypto.key_list import Keys as Keys
    from kfm.crypto.key_list import Role

# The role that a person of several roles reads with: the first of these.
ROLES: tuple[Role, ...] = ("steward", "admin", "operator", "viewer")


class Holder(NamedTuple):
    """The person whom a valid token names, and how long the token is valid."""

    person: str
    role: str
    until: str


class KeptToken(NamedTuple):
    """What is kept of a token, and who made or revoked it."""

    token: AccessToken
    by: str  # empty: a person who is no longer listed
    state: str  # valid, revoked, ended, or nobody's: its person has no valid key


def tokens(session: Session, keys: Keys) -> Iterator[KeptToken]:
    """Yield every token, the newest first."""
    at = now(session)
    found = [kept for ref, to in session.state.refs.all(refs.ACCESS) if to and (kept := _read(session, to)) is not None]
    for kept in sorted(found, key=lambda each: (each.signed.made_at, each.signed.id), reverse=True):
        yield KeptToken(kept.signed, signer_of(kept, keys), state_of(kept.signed, keys, at))


def state_of(token: AccessToken, keys: Keys, at: str) -> str:
    if token.revoked_at:
        return "revoked"
    if not token.made_at <= at < token.ends_at:
        return "ended"
    return "valid" if is_listed(keys, token.person, at) else "nobody's"


def digest_of_token(text: str) -> str:
    """Return the digest by which a token is looked up. A text that is no token has one, too."""
    return digest_of(text[: MOST_TEXT + 1])


def holder_of(session: Session, keys: Keys | None, digest: str) -> Holder | None:
    """Return the person whom the token with this digest names now; None if it is unknown, ended or revoked, if its
    person has no valid key, or if there is no key list that can be read."""
    to = session.state.refs.at(refs.token(id_of(digest)))
    kept = _read(session, to) if to else None
    known = kept.signed.digest if kept is not None else "0" * len(digest)
    if not hmac.compare_digest(known, digest) or kept is None or keys is None:
        return None
    if state_of(kept.signed, keys, now(session)) != "valid":
        return None
    return Holder(kept.signed.person, role_of(keys, kept.signed.person), kept.signed.ends_at)


def role_of(keys: Keys, person: str) -> str:
    """Return the role with which a person reads."""
    return next((role for role in ROLES if keys.has_role(person, role)), "viewer")


def holder_by_name(session: Session, keys: Keys | None, person: str, until: str) -> Holder | None:
    """Return the person of this name whom a provider signed in; None without a key that is valid now."""
    if keys is None or not is_listed(keys, person, now(session)):
        return None
    return Holder(person, role_of(keys, person), until)


def holder_of_token(session: Session, text: str) -> Holder | None:
    """Return the person whom a token names now, under the key list in force; None if it names nobody."""
    try:
        keys = in_force(session)
    except KfmError:
        return None
    return holder_of(session, keys, digest_of_token(text))


def holder_named(session: Session, person: str) -> Holder | None:
    """Return the person of this name under the key list in force; None if there is none with a valid key."""
    try:
        return holder_by_name(session, in_force(session), person, "")
    except KfmError:
        return None


def seconds_until(session: Session, ends_at: str) -> int:
    """Return how long it is until then; 0 if it has passed."""
    left = parse_instant(ends_at, "ends_at") - parse_instant(now(session), "now")
    return max(left // 1000, 0)


def _read(session: Session, to: str) -> SignedToken | None:
    try:
        return read_token(session.objects.read(to))
    except (BadInput, Corrupt):
        return None  # a token whose record cannot be read gives no rights
