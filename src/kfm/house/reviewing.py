"""What waits for a person: a list of items of several kinds. A new kind is a function that gives its items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.documents.characters import printable
from kfm.errors import BadInput
from kfm.house.authority import orders
from kfm.house.ordering import standing

if TYPE_CHECKING:
    from kfm.house.opening import House


class Item(msgspec.Struct, frozen=True):
    """`more` is told by `kfm review show`: evidence, by its names."""

    kind: str  # order | held | gate
    id: str
    dataset: str
    what: str
    state: str
    since: str
    until: str = ""
    asked_by: str = ""
    reason: str = ""
    missing: list[str] = []
    more: dict[str, Any] = {}


def order_items(house: House) -> Iterator[Item]:
    """Requests that take others too, with all who signed."""
    for order in orders(house):
        request, now = order.request, standing(house, order)
        yield Item(
            kind="order",
            id=request.id,
            dataset=request.dataset,
            what=request.action,
            state=now.state,
            since=request.created_at,
            until=request.expires_at,
            asked_by=request.requester,
            reason=request.purpose,
            missing=now.missing,
            more={
                "request": request.digest,
                "custodian": request.custodian,
                "before": request.before,
                "after": request.after,
                "params": request.params,
                "signed": [{"kind": kind, "person": person, "at": at} for kind, person, at in now.signed],
            },
        )


KINDS: tuple[Callable[[House], Iterator[Item]], ...] = (order_items,)
WAITING = ("open", "approved")


def items(house: House, *, everything: bool = False) -> list[Item]:
    """What waits, oldest first; with `everything` also what is over."""
    found = [item for kind in KINDS for item in kind(house)]
    return sorted((item for item in found if everything or item.state in WAITING), key=lambda item: item.since)


def item(house: House, start: str) -> Item:
    found = [each for each in items(house, everything=True) if len(start) >= 4 and each.id.startswith(start)]
    if len(found) != 1:
        many = f"{len(found)} begin" if found else "nothing to review begins"
        raise BadInput(f"{many} with {printable(start, 40)}", hint="see `kfm review list --all`")
    return found[0]
