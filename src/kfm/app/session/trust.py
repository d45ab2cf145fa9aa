"""The keys that an installation signs with, and those that it trusts: the keys of its key list, if there is one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple

from kfm.clock import rfc3339
from kfm.errors import Denied

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.config import Resolved
    from kfm.crypto.key_list import Keys
    from kfm.crypto.signatures import Signer
    from kfm.model.ports import State

Purpose = Literal["checkpoint", "attest"]


class Trusted(NamedTuple):
    """Trusted public keys. `revoked` ones were trusted once; what only they signed proves nothing any more."""

    public: list[bytes]
    revoked: list[bytes]
    vouched: bool  # whether a key list vouches for them, and not only the settings


def given(public: str) -> Trusted:
    """Return the public key that a caller typed: 32 bytes in hex."""
    from kfm.crypto.signatures import check_public

    try:
        raw = bytes.fromhex(public)
    except ValueError:
        raw = b""
    return Trusted([check_public(raw)], [], vouched=False)


class Trust:
    """The keys that an installation signs with and trusts. A key, and the library for it, is loaded when needed."""

    def __init__(self, resolved: Resolved, state: State, clock: Clock) -> None:
        self._resolved = resolved
        self._state = state
        self._clock = clock

    def key_list(self) -> Keys | None:
        """Return the key list in force; None if the installation never had one."""
        from kfm.app.session.key_list_file import key_list_in_force

        return key_list_in_force(self._resolved, self._state)

    def believed(self, purpose: Purpose) -> Trusted:
        """Return the trusted keys: those of the list, else the key that signs here, for which only the settings
        vouch."""
        keys = self.key_list()
        if keys is not None:
            listed = [key for key in keys.listed.keys if key.purpose == purpose]
            good = [bytes.fromhex(key.public) for key in listed if not key.revoked_at]
            return Trusted(good, [bytes.fromhex(key.public) for key in listed if key.revoked_at], vouched=True)
        reference = self.reference(purpose)
        return Trusted([self._read(reference).public] if reference else [], [], vouched=False)

    def signer(self, purpose: Purpose) -> Signer | None:
        """Return the signing key if the settings name one, else None. Denied if the key list does not permit it for
        this purpose."""
        reference = self.reference(purpose)
        if not reference:
            return None
        signer = self._read(reference)
        keys = self.key_list()
        if keys is not None and keys.live(signer.key_id, purpose, rfc3339(self._clock.now_ms())) is None:
            raise Denied(
                f"the key of {reference} is not in the key list for this, or no longer",
                hint=f"have a key for `{purpose}` put into it: `kfm keys`",
                key_id=signer.key_id,
            )
        return signer

    def check_readable(self, purpose: Purpose) -> None:
        """Raise BadInput if the settings name a key that cannot be read."""
        if reference := self.reference(purpose):
            self._resolved.secret(reference, os.environ)

    def reference(self, purpose: Purpose) -> str:
        config = self._resolved.config
        return config.ledger.sign_with if purpose == "checkpoint" else config.attest.sign_with

    def _read(self, reference: str) -> Signer:
        from kfm.crypto.signatures import Signer

        return Signer(self._resolved.secret(reference, os.environ))


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
