"""Which keys of the installation sign, and which are believed: those of the key list, where there is one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple

from kfm.clock import rfc3339
from kfm.errors import Denied

if TYPE_CHECKING:
    from kfm.app.core.keyring import Installed
    from kfm.crypto.key_list import Keys
    from kfm.crypto.signatures import Signer

Purpose = Literal["checkpoint", "attest"]


class Trusted(NamedTuple):
    """Public keys that are believed. `revoked` once were; what only they signed proves nothing any more."""

    public: list[bytes]
    revoked: list[bytes]
    vouched: bool  # a key list says so, and not only our own settings


def given(public: str) -> Trusted:
    """A public key as somebody typed it: 32 bytes in hex."""
    from kfm.crypto.signatures import check_public

    try:
        raw = bytes.fromhex(public)
    except ValueError:
        raw = b""
    return Trusted([check_public(raw)], [], vouched=False)


class Trust:
    """What an installation signs with and believes. Keys are read when they are needed, and libraries then."""

    def __init__(self, session: Installed) -> None:
        self._session = session

    def key_list(self) -> Keys | None:
        """The list in force; None where none was ever made."""
        from kfm.app.core.keyring import in_force

        return in_force(self._session)

    def believed(self, purpose: Purpose) -> Trusted:
        """Those of the list, or else the key that signs here, which nobody but the settings vouches for."""
        keys = self.key_list()
        if keys is not None:
            listed = [key for key in keys.listed.keys if key.purpose == purpose]
            good = [bytes.fromhex(key.public) for key in listed if not key.revoked_at]
            return Trusted(good, [bytes.fromhex(key.public) for key in listed if key.revoked_at], vouched=True)
        reference = self.reference(purpose)
        return Trusted([self._read(reference).public] if reference else [], [], vouched=False)

    def signer(self, purpose: Purpose) -> Signer | None:
        """The key that signs, if the settings name one; Denied if the key list does not let it."""
        reference = self.reference(purpose)
        if not reference:
            return None
        signer = self._read(reference)
        keys = self.key_list()
        if keys is not None and keys.live(signer.key_id, purpose, rfc3339(self._session.clock.now_ms())) is None:
            raise Denied(
                f"the key of {reference} is not in the key list for this, or no longer",
                hint=f"have a key for `{purpose}` put into it: `kfm keys`",
                key_id=signer.key_id,
            )
        return signer

    def reference(self, purpose: Purpose) -> str:
        config = self._session.resolved.config
        return config.ledger.sign_with if purpose == "checkpoint" else config.attest.sign_with

    def _read(self, reference: str) -> Signer:
        from kfm.crypto.signatures import Signer

        return Signer(self._session.resolved.secret(reference, os.environ))


class LedgerNotary:
    """Signs heads of the ledger with the key that the settings name."""

    def __init__(self, trust: Trust, origin: str, every: int) -> None:
        self._trust = trust
        self._origin = origin
        self.every = every

    def sign(self, size: int, root: bytes) -> str:
        from kfm.crypto.checkpoints import TreeHead, sign_checkpoint

        signer = self._trust.signer("checkpoint")
        assert signer is not None, "there is no notary without a key"
        return sign_checkpoint(TreeHead(origin=self._origin, size=size, root=root.hex()), signer)
