"""What waits for a person: a list of items of several kinds. A new kind is a function that gives its items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import unified_diff
from typing import TYPE_CHECKING

from kfm.app.authority.authorization import orders
from kfm.app.runs.change_requests import DOES, standing
from kfm.app.runs.review_items import gate_items, held_items
from kfm.app.session.review_item import Item
from kfm.crypto.approvals import ApprovalRequest
from kfm.errors import BadInput
from kfm.model.names import is_digest
from kfm.operations.registry import operations
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.session.session import Session


def order_items(session: Session) -> Iterator[Item]:
    """Requests that take others too, with all who signed."""
    for order in orders(session):
        request, now = order.request, standing(session, order)
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
                **_difference(session, request),
                "signed": [{"kind": kind, "person": person, "at": at} for kind, person, at in now.signed],
            },
        )


def _difference(session: Session, request: ApprovalRequest) -> dict[str, list[dict[str, str]]]:
    """Of a change of rules, the lines that it changes."""
    if request.action not in DOES or operations()[DOES[request.action]].approval != "rules":
        return {}
    bodies = [session.objects.read(at) if is_digest(at) else b"" for at in (request.before, request.after)]
    old, new = (body.decode("utf-8", "replace").splitlines() for body in bodies)
    lines = [line for line in unified_diff(old, new, lineterm="", n=1) if line[:3] not in ("---", "+++", "@@ ")]
    return {"diff": [{"line": line} for line in lines]}


KINDS: tuple[Callable[[Session], Iterator[Item]], ...] = (order_items, gate_items, held_items)
WAITING = ("open", "approved", "stopped", "held")


def items(session: Session, *, everything: bool = False) -> list[Item]:
    """What waits, orders before all else, for others wait for them; then the oldest first. With `everything` also what
    is over."""
    found = [item for kind in KINDS for item in kind(session)]
    return sorted((item for item in found if everything or item.state in WAITING), key=_urgency)


def _urgency(item: Item) -> tuple[bool, str]:
    return item.kind != "order", item.since


def item(session: Session, start: str) -> Item:
    found = [each for each in items(session, everything=True) if len(start) >= 4 and each.id.startswith(start)]
    if len(found) != 1:
        many = f"{len(found)} begin" if found else "nothing to review begins"
        raise BadInput(f"{many} with {printable(start, 40)}", hint="see `kfm review list --all`")
    return found[0]
