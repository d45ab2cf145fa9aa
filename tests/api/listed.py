"""An installation with a key list, made without a command line: an admin, a viewer, and their tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kfm import config
from kfm.api.access import Rules
from kfm.app.authority.keyring import signer_at
from kfm.app.session.session import Session, open_session
from kfm.app.stewards import key_changes, token_changes
from kfm.app.stewards.key_changes import KeyRequest
from kfm.clock import FixedClock
from kfm.model.ports import Log
from tests.api.asking import Asked

PEOPLE = {"ada": "admin", "vic": "viewer", "olli": "operator"}


class Listed:
    """The installation, and the applications that were made over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FixedClock()
        self._made: list[Asked] = []

    def session(self) -> Session:
        loaded = config.load(str(self.folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
        return open_session(loaded, clock=self.clock)

    def served(
        self, rules: Rules | None = None, log: Log | None = None, beyond: Any = None, *, stores: bool = False
    ) -> Asked:
        made = Asked(self.folder, self.clock, rules, log, beyond, stores=stores)
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in self._made:
            made.close()

    @property
    def tokens(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.folder / "tokens.json").read_text())
        return found

    def key(self, person: str) -> str:
        return str(self.folder / f"{person}.key")

    def new_token(self, person: str, days: int = 30, by: str = "") -> token_changes.TokenChange:
        with self.session() as session:
            signers = [signer_at(self.key(by or person))]
            return token_changes.new_token(session, person, days, "", signers, actor="x", reason="a test")

    def revoke_token(self, token: str, by: str = "ada") -> token_changes.TokenChange:
        from kfm.crypto.access_tokens import digest_of

        with self.session() as session:
            signers = [signer_at(self.key(by))]
            return token_changes.revoke_token(session, digest_of(token)[:16], signers, actor="x", reason="a test")

    def revoke_key(self, person: str) -> None:
        with self.session() as session:
            key = signer_at(self.key(person)).key_id
            signers = [signer_at(self.key("ada"))]
            made = key_changes.revoke(session, key, signers, actor="x", reason="a test")
            assert made.receipt.status == "SUCCESS"


def make(site: Listed, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (site.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (site.folder / name).write_text(text, encoding="utf-8")
    import kfm

    with kfm.open(site.folder) as installation:
        installation.run("rain-gauges")
        installation.publish("rain-gauges", reason="a test")
    with site.session() as session:
        for person, role in PEOPLE.items():
            wanted = KeyRequest(person=person, roles=[role], custodians=[], purpose="act", days=365)  # type: ignore[list-item]
            signers = [signer_at(site.key("ada"))] if person != "ada" else []
            made = key_changes.new_key(session, wanted, site.key(person), signers, actor="x", reason="a test")
            assert made.receipt.status == "SUCCESS", made.receipt.errors
    tokens = {person: site.new_token(person).secret for person in PEOPLE}
    (site.folder / "tokens.json").write_text(json.dumps(tokens))
