"""Change requests: a requester signs an operation, others approve or reject it, and it runs once enough have signed.

Each of these acts is an operation with its own receipt, which records who requested, who signed and who was refused. An
operation that one signature permits runs at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from kfm.app.authority.authorization import change_requests, complete_request, is_about, matter, may_be_done
from kfm.app.authority.effective_levels import LEVELS_PARAM
from kfm.app.authority.keyring import in_force, now, who
from kfm.app.authority.mask_names import recorded_source
from kfm.app.authority.private_reasons import private_reason
from kfm.app.authority.run_setup import guards_of
from kfm.app.runs.label_adoption import adopt_signed_labels
from kfm.app.runs.run_control import run_operation
from kfm.clock import parse_instant, rfc3339
from kfm.crypto.approvals import Act, ApprovalRequest, Kind, awaited, decide, sign_act
from kfm.crypto.change_request import MAY_COME, Order
from kfm.crypto.key_list import Keys
from kfm.crypto.signatures import Signer
from kfm.errors import BadInput, Denied, Moved, Refused
from kfm.model import refs
from kfm.model.operation_target import DATASETS, REF, REQUESTED
from kfm.model.records import Receipt, RefEntry, RefMove, SourceRef, Trigger
from kfm.operations.move_updater import ALSO, NOTHING, MoveUpdater
from kfm.operations.registry import operations
from kfm.parsing.characters import printable
from kfm.scheduling.triggers import DAY_MS, operation_trigger

if TYPE_CHECKING:
    from kfm.app.session.session import Session

LONGEST_DAYS = 7
TURNS = 5  # attempts, because others may sign the same request at the same time
# The operation that carries out each requested action.
DOES = {
    "promote": "promote",
    "rollback": "rollback",
    "hotfix": "hotfix",
    "withdraw": "rollback",
    "freeze": "freeze",
    "thaw": "thaw",
    "label.tighten": "labels",
    "label.lower": "labels",
    "consent.renew": "labels",
    "mask.coarsen": "mask",
    "mask.refine": "mask",
    "policy.deploy": "policy",
    "review.raise": "review",
    "review.lower": "review",
    "override": "override",
}


def operate(
    session: Session,
    operation: str,
    dataset: str,
    params: Mapping[str, str],
    *,
    signer: Signer | None = None,
    days: int = LONGEST_DAYS,
    reason: str = "",
    actor: str = "",
) -> Receipt:
    """Run an operation if the keys in force permit it. If only other people's signatures are missing, store a signed
    change request instead. Return the receipt of either.

    Raises BadInput if there is a signer but no key list, and Denied if the same request is open already.
    """
    reason = private_reason(session, dataset, reason, operation)
    if signer is None:
        return _do(session, operation, dataset, params, reason=reason, actor=actor)
    keys = in_force(session)
    if keys is None:
        raise BadInput("there is no key list to sign by", hint="leave out --key, or make a list: `kfm keys new`")
    order = _new_request(session, keys, operation, dataset, params, signer, days, reason)
    if order is None or session.mode == "dry" or not only_others_are_missing(order, keys, now(session)):
        session.offered = order
        try:
            actor = order.request.requester if order is not None else actor
            return _do(session, operation, dataset, params, reason=reason, actor=actor)
        finally:
            session.offered = None
    check_not_asked(session, order)
    return _keep(session, "request", order, actor=order.request.requester, reason=reason)


def check_not_asked(session: Session, order: Order) -> None:
    """Raise Denied if the same operation is requested already, and that request is still open."""
    open_ = next(
        (each for each in change_requests(session) if each.state == "open" and is_about(each, order.request)), None
    )
    if open_ is not None and now(session) < open_.request.expires_at:
        raise Denied(
            f"that is requested already, as change request {open_.request.id}",
            hint=f"`kfm review approve {open_.request.id}`",
            rule="request.open",
        )


def _do(
    session: Session, operation: str, dataset: str, params: Mapping[str, str], *, reason: str, actor: str
) -> Receipt:
    if operation == "labels":
        return adopt_signed_labels(session, dataset, dict(params), reason=reason, actor=actor)
    if operation == "mask":
        params = {**params, **recorded_source(session, params["ref"])}
    return run_operation(session, operation, dataset, dict(params), reason=reason, actor=actor)


def _new_request(
    session: Session,
    keys: Keys,
    operation: str,
    dataset: str,
    params: Mapping[str, str],
    signer: Signer,
    days: int,
    reason: str,
) -> Order | None:
    """Return the change request for this operation, signed by the requester. None if nothing would move, or if others
    have already signed the same request."""
    at = now(session)
    move = requested_move(session, operation, dataset, params, reason=reason)
    wanted = move.request
    if wanted is None or any(
        may_be_done(each, keys, at) and is_about(each, wanted) for each in change_requests(session)
    ):
        return None
    until = rfc3339(parse_instant(at, "now") + days * DAY_MS)
    request = complete_request(wanted, who(keys, signer, at), reason, at, until)
    return Order(request=request, acts=[sign_act("request", request, signer, at)])


class RequestedMove(NamedTuple):
    """What an operation would move now, and the approval request that describes it, still without requester and
    dates."""

    updater: MoveUpdater
    trigger: Trigger
    first: RefMove  # what it is about, also where nothing would move
    moves: list[RefMove]
    request: ApprovalRequest | None  # None: nothing would move


def requested_move(
    session: Session, operation: str, dataset: str, params: Mapping[str, str], *, reason: str, actor: str = ""
) -> RequestedMove:
    """Return what an operation with these parameters would move now. Raises what the operation would raise."""
    updater = operations()[operation]()
    trigger = operation_trigger(updater, dataset, dict(params), session.clock, actor=actor, reason=reason)
    aims = updater.aims(trigger, _ReadOnlyRefs(session))
    every = [RefMove(ref=ref.name, before=ref.content_hash, after=target) for ref, target in aims]
    moves = [move for move in every if move.before != move.after]
    if not moves:
        return RequestedMove(updater, trigger, every[0], [], None)
    if (check_labels := guards_of(session, dataset).check_labels) is not None:  # checked before others sign
        check_labels(updater, trigger)
    return RequestedMove(updater, trigger, every[0], moves, matter(session, updater, trigger, moves))


def only_others_are_missing(order: Order, keys: Keys, at: str) -> bool:
    """Return whether other people must sign before this request may be carried out, and nothing else is against it."""
    reasons = decide(order.request, order.acts, keys, now=at, used=()).reasons
    return bool(reasons) and set(reasons) <= MAY_COME


class _ReadOnlyRefs:
    """The read-only view from which an operation computes its move."""

    def __init__(self, session: Session) -> None:
        self._refs = session.state.refs

    def pin(self, source: str, **how: Any) -> SourceRef:  # noqa: ARG002
        raise Refused("an operation reads no source", hint="report this")

    def names(self) -> list[str]:
        return []

    def bytes(self, ref: SourceRef) -> bytes:  # noqa: ARG002
        raise Refused("an operation reads no source", hint="report this")

    def ref(self, name: str) -> SourceRef:
        return SourceRef(uri=REF + name, content_hash=self._refs.at(name), size=0, name=name)

    def history(self, name: str) -> list[RefEntry]:
        return list(self._refs.history(name))


def _keep(session: Session, op: str, order: Order, *, actor: str, reason: str, before: Order | None = None) -> Receipt:
    """Store a change request in place of `before`, the request it was made from. The receipt says Moved if another
    person signed in between."""
    old = before.digest if before is not None else NOTHING
    params = {"ref": refs.order(order.request.id), "before": old, "to": session.objects.put(order.body)}
    reason = private_reason(session, order.request.dataset, reason, DOES.get(order.request.action, ""))
    return run_operation(session, op, order.request.dataset, params, actor=actor, reason=reason)


# -- signatures of others


def find(session: Session, start: str) -> Order:
    """Return the change request whose id begins with `start`. BadInput unless there is exactly one."""
    found = [each for each in change_requests(session) if len(start) >= 4 and each.request.id.startswith(start)]
    if len(found) != 1:
        many = f"{len(found)} change requests begin" if found else "no change request begins"
        raise BadInput(f"{many} with {printable(start, 40)}", hint="see `kfm review list`; give 4 digits or more")
    return found[0]


def sign(
    session: Session,
    kind: Literal["approve", "reject"],
    start: str,
    signer: Signer,
    *,
    reason: str = "",
    actor: str = "",
) -> Iterator[Receipt]:
    """Approve or reject a change request, and yield the receipts. An approval that completes the signatures also runs
    the operation. Denied if the request has expired."""
    keys = in_force(session)
    if keys is None:
        raise BadInput("there is no key list to sign by", hint="make one: `kfm keys new --person NAME --role admin`")
    at = now(session)
    with contextlib.suppress(Denied):  # an unknown key is denied and recorded by the run
        actor = who(keys, signer, at)
    order = find(session, start)
    if order.state == "open" and at >= order.request.expires_at:
        yield expire(session, order, actor=actor)
        raise Denied(f"change request {order.request.id} has expired", hint="request it again")
    receipt = _add(
        session,
        kind,
        order.request.id,
        lambda order: sign_act(kind, order.request, signer, now(session)),
        reason=reason,
        actor=actor,
    )
    yield receipt
    if kind == "approve" and receipt.status == "SUCCESS":
        yield from carry_out(session, find(session, order.request.id))


def expire(session: Session, order: Order, *, actor: str) -> Receipt:
    """End a change request whose time is over."""
    return _keep(session, "expire", order.became("expired"), actor=actor, reason="its time is over", before=order)


def _add(
    session: Session, kind: Kind, request_id: str, signed: Callable[[Order], Act], *, reason: str, actor: str
) -> Receipt:
    """Add a signature to a change request and return the receipt. Other people may sign at the same time."""
    for turn in range(TURNS):
        order = find(session, request_id)
        receipt = _keep(session, kind, _with(order, kind, signed(order)), actor=actor, reason=reason, before=order)
        if turn == TURNS - 1 or not any(note.code == Moved.code for note in receipt.errors):
            break
    return receipt


def add_signature(session: Session, request_id: str, act: Act, *, reason: str, actor: str) -> Iterator[Receipt]:
    """Add a signature that was made elsewhere, and yield the receipts. An approval that completes the signatures also
    runs the operation. What was done before a kill is not done again."""
    order = find(session, request_id)
    if act not in order.acts:
        receipt = _add(session, act.kind, request_id, lambda _order: act, reason=reason, actor=actor)
        order = find(session, request_id)
        if act not in order.acts:
            yield receipt
            return
        if receipt.status == "SUCCESS":
            yield receipt
    if act.kind == "approve" and order.state == "open":
        yield from carry_out(session, order, {REQUESTED: "yes"})


def _with(order: Order, kind: Kind, act: Act) -> Order:
    return order.signed(act) if kind == "approve" else order.signed(act).became("rejected")


def _flags_of(request: ApprovalRequest) -> dict[str, str]:
    """Return the parameters of a freeze or thaw that moves the flags of a request, and no others."""
    flags = [request.params["ref"], *(line.split(" ")[0] for line in request.params.get(ALSO, "").splitlines())]
    scopes = [flag.removeprefix(refs.SWITCH).removeprefix(refs.AMBER).removeprefix("dataset/") for flag in flags]
    params = {"scope": scopes[0]}
    if len(names := dict.fromkeys(scopes)) > 1:
        params[DATASETS] = "\n".join(names)
    levels = {"amber" if flag.startswith(refs.AMBER) else "red" for flag in flags}
    return {**params, "level": levels.pop()} if len(levels) == 1 else params


def params_of(request: ApprovalRequest) -> dict[str, str]:
    """Return the parameters of the operation that makes the moves of a request, and no others."""
    operation = DOES[request.action]
    if operation in ("freeze", "thaw"):
        return _flags_of(request)
    if operations()[operation].approval == "rules":
        own = {name: value for name, value in request.params.items() if name != LEVELS_PARAM}
        return {"to": request.after, "before": request.before, **own}
    params = {"to": request.after, "before": request.before}
    if operation in ("rollback", "override"):
        params["ref"] = request.params["ref"]
    if ALSO in request.params:
        params[ALSO] = request.params[ALSO]
    return params


def carry_out(session: Session, order: Order, more: Mapping[str, str] | None = None) -> Iterator[Receipt]:
    """Run the requested operation, with `more` parameters, if enough people have signed, and yield its receipt."""
    keys = in_force(session)
    request = order.request
    if keys is None or not may_be_done(order, keys, now(session)) or request.action not in DOES:
        return
    operation, params = DOES[request.action], {**params_of(request), **(more or {})}
    try:
        done = _do(session, operation, request.dataset, params, actor=request.requester, reason=request.purpose)
    except Denied:
        if _was_used(session, order):
            return
        raise
    if done.status == "SUCCESS" or not _was_used(session, order):
        yield done


def _was_used(session: Session, order: Order) -> bool:
    """Return whether another signer has already run this request, which is no failure here."""
    return find(session, order.request.id).state == "used"


def next_signature(session: Session, start: str) -> str:
    """Return who signs a change request next, and the command that signs; empty if it waits for nobody."""
    order, keys = find(session, start), in_force(session)
    if keys is None or order.state != "open":
        return ""
    said = awaited_words(order.request, order.acts, keys, now(session))
    if not said:
        return ""
    return f"next to sign: {'; '.join(said)}, with `kfm review approve {order.request.id} --key FILE`"


def awaited_words(request: ApprovalRequest, acts: Iterable[Act], keys: Keys, at: str) -> list[str]:
    """Return in words which signatures a request still needs, and who could give them."""
    said = []
    for count, role, people in awaited(request, acts, keys, now=at):
        who = (
            f"one {role}"
            if count == 1
            else f"{count} {role.replace('steward', 'stewards').replace('member', 'members')}"
        )
        names = f" ({', '.join(people)})" if people else ", and the key list has none besides those who signed"
        said.append(f"{who}{names}")
    return said


class RequestStatus(msgspec.Struct, frozen=True):
    """The status of a change request: which signatures are missing, and who has signed."""

    order: Order
    state: str  # open | approved | used | rejected | expired
    missing: list[str]
    signed: list[tuple[str, str, str]]  # kind, person, time


def request_status(session: Session, order: Order) -> RequestStatus:
    """Return the status of a change request by the keys in force."""
    keys = in_force(session)
    at = now(session)
    verdict = decide(order.request, order.acts, keys, now=at, used=())
    state: str = order.state
    if order.state == "open":
        state = "expired" if at >= order.request.expires_at else "approved" if verdict.allow else "open"
    people = keys.keys if keys is not None else {}
    signed = [(str(act.kind), people[act.key].person if act.key in people else "", act.signed_at) for act in order.acts]
    return RequestStatus(order, state, verdict.reasons if state == "open" else [], signed)
