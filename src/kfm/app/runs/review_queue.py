"""The review queue: all items that wait for a person. Each function in `KINDS` yields the items of one kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import unified_diff
from typing import TYPE_CHECKING

from kfm.app.authority.authorization import change_requests
from kfm.app.authority.effective_levels import LEVELS_PARAM, shown_levels
from kfm.app.authority.private_reasons import shown_reason
from kfm.app.authority.withdrawals import withdrawing_move
from kfm.app.runs.change_requests import DOES, request_status
from kfm.app.runs.review_items import gate_items, held_items, hotfix_items, withdrawal_evidence
from kfm.app.session.review_item import ReviewItem
from kfm.crypto.approvals import ApprovalRequest
from kfm.delivery.corrections import fixes_at
from kfm.errors import BadInput
from kfm.model.names import is_digest
from kfm.operations.move_updater import ALSO, NOTHING, also_named
from kfm.operations.registry import operations
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.session.session import Session


IN_TABLES = (LEVELS_PARAM, ALSO)  # parameters of a request that an item shows as a table


def request_items(session: Session) -> Iterator[ReviewItem]:
    """Yield an item for each change request, with the people who have signed it."""
    for order in change_requests(session):
        request, now = order.request, request_status(session, order)
        yield ReviewItem(
            kind="order",
            id=request.id,
            dataset=request.dataset,
            what=request.action,
            state=now.state,
            since=request.created_at,
            until=request.expires_at,
            asked_by=request.requester,
            reason=shown_reason(session, request.purpose),
            missing=now.missing,
            more={
                "request": request.digest,
                "custodian": request.custodian,
                "before": request.before,
                "after": request.after,
                "params": request.params,
                **_levels(request),
                **_difference(session, request),
                **_corrections(session, request),
                **_moves(request),
                **_withdrawn(session, request, now.state),
                "signed": [{"kind": kind, "person": person, "at": at} for kind, person, at in now.signed],
            },
        )


def _levels(request: ApprovalRequest) -> dict[str, list[dict[str, str]]]:
    """Return the effective levels that a request names; nothing for public data."""
    lines = shown_levels(request.params)
    return {"levels": [{"effective level before and after": line} for line in lines]} if lines else {}


def _withdrawn(session: Session, request: ApprovalRequest, state: str) -> dict[str, str]:
    """Return who withdrew the version that a pending request would publish again; nothing for other requests."""
    if state not in ("open", "approved") or request.action not in ("promote", "rollback"):
        return {}
    move = withdrawing_move(session, request.dataset, request.after)
    return withdrawal_evidence(session, move) if move is not None else {}


def _difference(session: Session, request: ApprovalRequest) -> dict[str, list[dict[str, str]]]:
    """Return the changed lines of a change of rules; nothing for other requests."""
    if request.action not in DOES or operations()[DOES[request.action]].approval != "rules":
        return {}
    bodies = [session.objects.read(at) if is_digest(at) else b"" for at in (request.before, request.after)]
    old, new = (body.decode("utf-8", "replace").splitlines() for body in bodies)
    lines = [line for line in unified_diff(old, new, lineterm="", n=1) if line[:3] not in ("---", "+++", "@@ ")]
    return {"diff": [{"line": line} for line in lines]}


def _corrections(session: Session, request: ApprovalRequest) -> dict[str, list[dict[str, str]]]:
    """Return the texts that a hotfix changes, as its signers are to read them; nothing for other requests."""
    if request.action != "hotfix":
        return {}
    old, new = (fixes_at(session.objects, at if is_digest(at) else "") for at in (request.before, request.after))
    changed = [(fix, fix.before, fix.after) for fix in new if fix not in old]
    changed += [(fix, fix.after, fix.before) for fix in old if fix not in new]
    lines = [
        {"hotfix": fix.name, "field": field, "from": _quoted(before.get(field)), "to": _quoted(after.get(field))}
        for fix, before, after in changed
        for field in fix.after
    ]
    return {"corrections": lines}


def _quoted(text: str | None) -> str:
    return "nothing" if text is None else printable(text, len(text))


def _moves(request: ApprovalRequest) -> dict[str, list[dict[str, str]]]:
    """Return the other refs that a request moves in the same commit; nothing for a request of one move."""
    more = also_named(request.params.get(ALSO, ""))
    lines = [{"ref": each.ref, "from": each.before or NOTHING, "to": each.after or NOTHING} for each in more]
    return {"moves": lines} if lines else {}


KINDS: tuple[Callable[[Session], Iterator[ReviewItem]], ...] = (request_items, gate_items, held_items, hotfix_items)
WAITING = ("open", "approved", "stopped", "held")


def items(session: Session, *, everything: bool = False) -> list[ReviewItem]:
    """Return the open items: change requests first, because other people wait for them, then the oldest first.
    `everything` adds closed ones."""
    found = [item for kind in KINDS for item in kind(session)]
    return sorted((item for item in found if everything or item.state in WAITING), key=_urgency)


def _urgency(item: ReviewItem) -> tuple[bool, str]:
    return item.kind != "order", item.since


def item(session: Session, start: str) -> ReviewItem:
    """Return the item whose id begins with `start`. BadInput unless there is exactly one."""
    found = [each for each in items(session, everything=True) if len(start) >= 4 and each.id.startswith(start)]
    if len(found) != 1:
        many = f"{len(found)} begin" if found else "nothing to review begins"
        raise BadInput(f"{many} with {printable(start, 40)}", hint="see `kfm review list --all`")
    return found[0]
