"""Change requests: a request, its signatures and its state. They are immutable: a changed one has another digest."""

from __future__ import annotations

from typing import Literal

import msgspec

from kfm.crypto.approvals import Act, ApprovalRequest
from kfm.errors import Corrupt
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Record
from kfm.parsing.strict_json import decode

OrderState = Literal["open", "used", "rejected", "expired"]
# These reasons may go away as people sign; every other reason against a request is final.
MAY_COME = frozenset({"approvals.too-few", "approvals.no-steward", "community.too-few"})


class Order(Record, frozen=True):
    """A change request. Only one in the state `open` can be signed or used."""

    request: ApprovalRequest
    acts: list[Act] = []
    state: OrderState = "open"

    @property
    def body(self) -> bytes:
        return canonical(self)

    @property
    def digest(self) -> str:
        return digest(self.body)

    def signed(self, act: Act) -> Order:
        return msgspec.structs.replace(self, acts=[*self.acts, act])

    def became(self, state: OrderState) -> Order:
        return msgspec.structs.replace(self, state=state)


def read_order(body: bytes) -> Order:
    try:
        return msgspec.convert(decode(body, "a change request"), Order)
    except msgspec.ValidationError as problem:
        raise Corrupt("a change request cannot be read", hint="restore the state from a copy") from problem


def identified(request: ApprovalRequest) -> ApprovalRequest:
    """Return the request with an id derived from all its other fields."""
    plain = msgspec.structs.replace(request, id="")
    return msgspec.structs.replace(plain, id=digest(canonical(plain)).removeprefix("sha256:")[:16])
