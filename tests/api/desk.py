"""People who sign elsewhere and ask a server to act, and `kfm up`, which carries it out."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, NamedTuple

import msgspec

from kfm.app.authority.keyring import signer_at
from kfm.app.daemon.requested_acts import RequestedActs
from kfm.app.stewards import key_changes
from kfm.app.stewards.key_changes import KeyRequest
from kfm.crypto.approvals import ApprovalRequest, sign_act
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.records import Receipt
from tests.api.asking import Asked, Reply
from tests.api.listed import Listed

GAUGES = "rain-gauges"
OPERATIONS = "/v1/operations"


class Sent(NamedTuple):
    kind: str
    outcome: str
    message: str


class Desk:
    """An installation with two stewards besides the people of `listed`, and one server."""

    def __init__(self, site: Listed) -> None:
        self.site = site
        for person in ("sue", "sam"):
            if not (site.folder / f"{person}.key").exists():
                self.add(person, "steward")
        self.served: Asked = site.served(stores=True)
        self._keys = count(1)

    def add(self, person: str, role: str) -> None:
        with self.site.session() as session:
            wanted = KeyRequest(person=person, roles=[role], custodians=[], purpose="act", days=365)  # type: ignore[list-item]
            made = key_changes.new_key(
                session, wanted, self.site.key(person), [signer_at(self.site.key("ada"))], actor="x", reason="a test"
            )
            assert made.receipt.status == "SUCCESS", made.receipt.errors
        token = self.site.new_token(person).secret
        (self.site.folder / "tokens.json").write_text(json.dumps({**self.site.tokens, person: token}))

    def post(self, path: str, who: str, body: Any, *, key: str | None = None) -> Reply:
        named = {"idempotency-key": f"key {next(self._keys)}" if key is None else key}
        return self.served.get(
            path, self.site.tokens[who], method="POST", body=json.dumps(body).encode(), headers=named
        )

    def get(self, path: str, who: str = "olli") -> Any:
        found = self.served.get(path, self.site.tokens[who])
        assert found.status == 200, found.body
        return found.data

    def preview(self, who: str, operation: str, dataset: str = GAUGES, **more: Any) -> Any:
        body = {"operation": operation, "dataset": dataset, "reason": "a test", "dry_run": True, **more}
        found = self.post(OPERATIONS, who, body)
        assert found.status == 200, found.body
        return found.data

    def signed(self, who: str, request: dict[str, Any], kind: Any = "request", at: str = "") -> dict[str, str]:
        """The signature that this person makes elsewhere over a request as it was shown."""
        made = sign_act(
            kind, msgspec.convert(request, ApprovalRequest), signer_at(self.site.key(who)), at or request["created_at"]
        )
        return {"key": made.key, "at": made.signed_at, "signature": made.signature}

    def ask(self, who: str, operation: str, dataset: str = GAUGES, **more: Any) -> Reply:
        """Look at the dry run, sign what it shows, and send it."""
        request = self.preview(who, operation, dataset, **more)["to_sign"]["request"]
        return self.send(who, operation, dataset, request, **more)

    def send(self, who: str, operation: str, dataset: str, request: dict[str, Any], **more: Any) -> Reply:
        signed = {"request": request, **self.signed(more.pop("signer", who), request)}
        body = {"operation": operation, "dataset": dataset, "reason": "a test", "signed": signed, **more}
        return self.post(OPERATIONS, who, body)

    def decide(self, who: str, kind: str, order: str, *, signer: str = "", key: str | None = None) -> Reply:
        shown = self.get(f"/v1/requests/{order}", who)
        act = self.signed(signer or who, shown["request"], kind, shown["at"])
        return self.post(f"/v1/requests/{order}/{kind}", who, {**act, "reason": "a test"}, key=key)

    def up(self) -> list[Receipt]:
        """One round of `kfm up`."""
        told: list[KfmError] = []
        with self.site.session() as session:
            acts = RequestedActs(session, sorted(session.config.datasets), lambda _about, problem: told.append(problem))
            found = list(acts.turn())
        assert not told, told
        return found

    def ledger(self) -> list[Sent]:
        with self.site.session() as session:
            receipts = [session.state.ledger.receipt(entry.run_id) for entry in session.state.ledger.entries()]
        return [
            Sent(each.job_type.rpartition(".")[2], each.outcome, each.errors[0].message if each.errors else "")
            for each in receipts
            if each is not None
        ]

    def published(self) -> str:
        with self.site.session() as session:
            return session.state.refs.at(refs.published(GAUGES))
