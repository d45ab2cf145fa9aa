"""Orders: a request, who signed it, and what became of it. Bytes like all others: a changed order is another one."""

from __future__ import annotations

from typing import Literal

import msgspec

from kfm.crypto.approvals import Act, Request
from kfm.errors import Corrupt
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Record
from kfm.parsing.strict_json import decode

OrderState = Literal["open", "used", "rejected", "expired"]
# What is missing may still come; whatever else is said against a request, it never becomes right.
MAY_COME = frozenset({"approvals.too-few", "approvals.no-steward", "community.too-few"})


class Order(Record, frozen=True):
    """`state` says what became of it: only an open one can be signed, or used."""

    request: Request
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
        return msgspec.convert(decode(body, "an order"), Order)
    except msgspec.ValidationError as problem:
        raise Corrupt("an order cannot be read", hint="restore the state from a copy") from problem


def identified(request: Request) -> Request:
    """With an id that follows from all the rest of it."""
    plain = msgspec.structs.replace(request, id="")
    return msgspec.structs.replace(plain, id=digest(canonical(plain)).removeprefix("sha256:")[:16])
