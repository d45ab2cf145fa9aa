"""The key list of an installation for a reader: the list in force, the time by which it is judged, and the owner of a
key.

Without a list an installation belongs to one person and handles only public data.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kfm.app.session.key_list_file import key_list_in_force
from kfm.clock import rfc3339
from kfm.crypto.signatures import Signer as Signer
from kfm.errors import BadInput, Denied
from kfm.model.secret import Secret
from kfm.secret_references import read_reference

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.crypto.key_list import Keys


def in_force(session: Session) -> Keys | None:
    """Return the key list in force; None if the installation never had one. Denied if its file is missing or
    changed."""
    return key_list_in_force(session.resolved, session.state)


def check_protected(session: Session) -> None:
    """Raise Denied if there is no key list: without one, only public data may be handled."""
    if in_force(session) is None:
        raise Denied(
            "there is no key list, and without one only public data are handled",
            hint="make one: `kfm keys new --person NAME --role admin`",
        )


def now(session: Session) -> str:
    """Return the time of the clock, but never one before the last ledger entry: setting the clock back makes no
    expired key valid again."""
    time = rfc3339(session.clock.now_ms())
    for last in session.state.ledger.entries(reverse=True, limit=1):
        time = max(time, last.ts)
    return time


def signer_at(path: str) -> Signer:
    """Return the private key of a file. The file must be readable only by its owner."""
    return Signer(Secret(read_reference(f"file:{path}", os.environ, os.path.abspath)))


def signer_with(paths: Sequence[str], reason: str, *, spelled: str) -> Signer:
    """Return the private key that signs a change. BadInput for several keys, or without a reason; `spelled` is what
    the interface calls it."""
    if len(paths) > 1:
        raise BadInput("a person signs with one key", hint="others sign with `kfm review approve`")
    if not reason.strip():
        raise BadInput("what is signed has a reason", hint=f"give it with {spelled}")
    return signer_at(paths[0])


def who(keys: Keys, signer: Signer, at: str) -> str:
    """Return the person who owns this key. Denied if the key list does not hold the key, or if it is not valid at this
    time."""
    key = keys.live(signer.key_id, "act", at) or keys.live(signer.key_id, "community", at)
    if key is None:
        raise Denied(
            f"key {signer.key_id[:16]} is not listed, or not valid now", hint="see `kfm keys list`, and ask an admin"
        )
    return key.person
