"""Changes of access tokens: a new one, or one revoked. Each is an operation with a ledger entry."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.access_tokens import tokens
from kfm.app.authority.keyring import in_force, now
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.settlement import settle_session
from kfm.clock import parse_instant, rfc3339
from kfm.crypto.access_tokens import MOST_NOTE, PREFIX, AccessToken, digest_of, id_of, is_listed, signed_token
from kfm.errors import BadInput, Denied, Refused
from kfm.model import refs
from kfm.model.records import Receipt
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.crypto.key_list import Keys
    from kfm.crypto.signatures import Signer

DAY_MS = 86_400_000
_PEOPLE = "keys"  # the dataset of operations that are about people
LEAST = 8  # digits of an id that a person types


class TokenChange(msgspec.Struct, frozen=True):
    """A token that was made or revoked. The secret is here once, and nowhere else."""

    receipt: Receipt
    token: AccessToken
    secret: str = ""


def listed_people(session: Session) -> Keys:
    """Return the key list in force. Refused if there is none."""
    keys = in_force(session)
    if keys is None:
        raise Refused(
            "there is no key list, so there are no tokens: the one user of this installation reads over loopback",
            hint="make a list: `kfm keys new --person NAME --role admin`",
        )
    return keys


def new_token(
    session: Session, person: str, days: int, note: str, signers: Sequence[Signer], *, actor: str, reason: str
) -> TokenChange:
    """Make a token for a person. It is valid if the receipt says so. BadInput if the key list does not have the person
    with a valid key."""
    keys, at = listed_people(session), now(session)
    if not is_listed(keys, person, at):
        close = nearest(person, sorted(keys.people))
        known = person in keys.people
        raise BadInput(
            f"{printable(person, 60)} has no valid key" if known else f"the key list names no {printable(person, 60)}",
            hint=f"did you mean {close}?" if close and not known else "see `kfm keys list`",
        )
    if len(note) > MOST_NOTE:
        raise BadInput(f"the note has more than {MOST_NOTE} characters", hint="shorten it")
    secret = PREFIX + secrets.token_urlsafe(32)
    digest = digest_of(secret)
    ends = rfc3339(parse_instant(at, "now") + days * DAY_MS)
    token = AccessToken(id=id_of(digest), digest=digest, person=person, made_at=at, ends_at=ends, note=note)
    receipt = _keep(session, token, _one(signers), actor=actor, reason=reason)
    return TokenChange(receipt, token, secret if receipt.status == "SUCCESS" else "")


def revoke_token(session: Session, start: str, signers: Sequence[Signer], *, actor: str, reason: str) -> TokenChange:
    """Revoke a token from now on. BadInput unless `start` is the start of exactly one id; Refused if it is revoked."""
    keys = listed_people(session)
    found = [kept.token for kept in tokens(session, keys) if len(start) >= LEAST and kept.token.id.startswith(start)]
    if len(found) != 1:
        many = f"{len(found)} tokens begin" if found else "no token begins"
        raise BadInput(f"{many} with {printable(start, 40)}", hint=f"see `kfm token list`; give {LEAST} digits or more")
    if found[0].revoked_at:
        raise Refused(f"token {found[0].id} was revoked at {found[0].revoked_at}", hint="see `kfm token list`")
    token = msgspec.structs.replace(found[0], revoked_at=now(session))
    return TokenChange(_keep(session, token, _one(signers), actor=actor, reason=reason), token)


def _one(signers: Sequence[Signer]) -> Signer:
    """Return the one key that signs. Denied without one, BadInput for several."""
    if not signers:
        raise Denied(
            "a token is signed by an admin, or by the person whose it is", hint="give the private key with --key FILE"
        )
    if len(signers) > 1:
        raise BadInput("one person signs a token", hint="give --key once")
    return signers[0]


def _keep(session: Session, token: AccessToken, signer: Signer, *, actor: str, reason: str) -> Receipt:
    """Keep the record of a token, if its signature counts. The ledger records a refusal, too."""
    keys = in_force(session)
    key = keys.keys.get(signer.key_id) if keys is not None else None
    params = {"ref": refs.token(token.id), "to": session.objects.put(signed_token(token, signer))}
    receipt = run_operation(
        session, "token", _PEOPLE, params, actor=key.person if key is not None else actor, reason=reason
    )
    settle_session(session)
    return receipt
