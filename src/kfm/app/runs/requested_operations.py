"""Operations that a person requests from a server: what each would move, whether the person may, and what is kept.

The server holds nobody's key. What needs a signature was signed elsewhere, and counts exactly as one that `kfm --key`
makes here: `authorization` decides about both, before the request is accepted and again in the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

import msgspec

from kfm.app.authority.authorization import (
    against,
    change_requests,
    complete_request,
    is_about,
    warrant,
)
from kfm.app.authority.effective_levels import LEVELS_PARAM
from kfm.app.authority.keyring import in_force, now
from kfm.app.authority.named_versions import version_of_ref, version_to_publish
from kfm.app.authority.private_reasons import private_reason
from kfm.app.authority.run_setup import context_of
from kfm.app.runs.change_requests import (
    LONGEST_DAYS,
    RequestedMove,
    check_not_asked,
    expire,
    only_others_are_missing,
    params_of,
    requested_move,
)
from kfm.app.runs.trigger_request import default_actor, new_trigger, trigger_updater
from kfm.app.session.input_checks import checked_overrides, known_dataset, one_line
from kfm.clock import parse_instant, rfc3339
from kfm.crypto.approvals import RULES, Act, ApprovalRequest, decide
from kfm.crypto.change_request import Order as Order
from kfm.crypto.change_request import identified
from kfm.engine.failure import with_failure_receipt
from kfm.errors import BadInput, Denied, KfmError, Moved
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.operation_target import REQUESTED, SIGNATURE, SIGNED
from kfm.model.records import Record
from kfm.operations.move_updater import NOTHING
from kfm.operations.registry import operations
from kfm.scheduling.triggers import DAY_MS, operation_trigger

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.crypto.key_list import Keys
    from kfm.engine.run_context import RunContext
    from kfm.model.records import Receipt, Trigger

Operation = Literal["run", "promote", "rollback", "freeze", "thaw"]
EVERYTHING = "global"


class SignedRequest(Record, frozen=True):
    """A change request, and the signature that its requester made over it elsewhere."""

    request: ApprovalRequest
    key: str  # the id of the key
    at: str  # when it was signed
    signature: str  # base64


class RequestedOperation(Record, frozen=True):
    """An operation that a person requests from a server."""

    operation: Operation
    dataset: str  # its name, or `global` for a freeze or thaw of everything
    to: str = ""  # the version; empty: the one that the command takes
    before: str = ""  # where the ref was when the person looked, or `nothing`; empty: where it is
    level: Literal["", "red", "amber"] = ""
    reason: str = ""
    dry_run: bool = False
    signed: SignedRequest | None = None
    window: str = ""  # these are of `run` alone, as its command has them
    partition: str = ""
    force: bool = False
    abandon: bool = False
    allow_deletions: int = 0


class RequestedSignature(Record, frozen=True):
    """A signature under a change request that is kept, made elsewhere."""

    key: str
    at: str
    signature: str
    reason: str = ""


class QuarantineReview(Record, frozen=True):
    """A request for the run that decides about quarantined rows."""

    reason: str
    force: bool = False
    allow_deletions: int = 0


class Kept(NamedTuple):
    """What a server keeps of a request that it accepts: the trigger, and the objects that the trigger names."""

    trigger: Trigger
    objects: tuple[tuple[str, bytes], ...] = ()
    change_request: str = ""  # its id, if the request became one or signs one


class Planned(NamedTuple):
    """What a requested operation would do now, and whose signatures it needs."""

    move: RequestedMove
    reason: str  # as it is kept
    needs_signature: bool
    denial: Denied | None = None  # why it may not be done without one


# -- what it would do


def planned(session: Session, wanted: RequestedOperation, actor: str) -> Planned:
    """Return what an operation, other than a run, would move now. Raises what the command would raise, and Moved if the
    ref is not where the person saw it."""
    _check_fields(wanted)
    dataset = wanted.dataset if wanted.dataset == EVERYTHING else known_dataset(session.resolved, wanted.dataset)
    if dataset == EVERYTHING and wanted.operation not in ("freeze", "thaw"):
        raise BadInput(f"{wanted.operation} is of one dataset", hint="name it")
    reason = private_reason(session, dataset, one_line("reason", wanted.reason, 1000).strip(), wanted.operation)
    params = _params(session, wanted, dataset)
    move = requested_move(session, wanted.operation, dataset, params, reason=reason, actor=actor)
    if wanted.before and wanted.before != (move.first.before or NOTHING):
        raise _moved(move.first.ref)
    if not move.moves:
        return Planned(move, reason, needs_signature=False)
    try:
        warrant(session, move.updater, move.trigger, move.moves)
    except Denied as denial:
        return Planned(move, reason, needs_signature=True, denial=denial)
    return Planned(move, reason, needs_signature=False)


def _check_fields(wanted: RequestedOperation) -> None:
    """Raise BadInput for a field that this operation does not have."""
    of_run = [name for name in ("window", "partition", "force", "abandon", "allow_deletions") if getattr(wanted, name)]
    if wanted.operation != "run" and of_run:
        raise BadInput(f"{of_run[0]} is for `run` alone", hint="leave it out")
    if wanted.to and wanted.operation not in ("promote", "rollback"):
        raise BadInput(f"{wanted.operation} takes no version", hint="leave `to` out")
    if wanted.level and wanted.operation not in ("freeze", "thaw"):
        raise BadInput(f"{wanted.operation} has no level", hint="leave `level` out")
    if wanted.operation == "run" and (wanted.signed is not None or wanted.before):
        raise BadInput("a run moves no ref that was seen, and needs no signature", hint="leave it out")


def _params(session: Session, wanted: RequestedOperation, dataset: str) -> dict[str, str]:
    """Return the parameters that the command of this operation would make."""
    if wanted.operation in ("freeze", "thaw"):
        level = wanted.level if (wanted.operation, wanted.level) != ("freeze", "red") else ""
        return {"scope": dataset, **({"level": level} if level else {})}
    if not wanted.to:
        return {}
    if wanted.operation == "promote":
        return {"to": version_to_publish(session, dataset, wanted.to)}
    return {"to": version_of_ref(session, refs.published(dataset), wanted.to)}


def request_to_sign(session: Session, found: Planned, person: str) -> ApprovalRequest | None:
    """Return the request that the person signs to make this move; None if it needs no signature, or has no reason."""
    if not found.needs_signature or found.move.request is None or not found.reason:
        return None
    at = now(session)
    until = rfc3339(parse_instant(at, "now") + LONGEST_DAYS * DAY_MS)
    return complete_request(found.move.request, person, found.reason, at, until)


# -- what is accepted


def accepted_run(session: Session, wanted: RequestedOperation, person: str) -> Kept:
    """Return the trigger of a requested run. Denied unless an operator requests it."""
    _check_fields(wanted)
    reason = one_line("reason", wanted.reason, 1000).strip()
    overrides = checked_overrides(
        force=wanted.force,
        abandon=wanted.abandon,
        allow_deletions=wanted.allow_deletions,
        reason=reason,
        spelled=lambda name: name,
    )
    keys = in_force(session)
    if keys is not None and not keys.has_role(person, "operator"):
        raise Denied(
            f"a run of {wanted.dataset} is requested by {person or 'nobody by name'}, who is no operator",
            hint="ask an operator, or an admin for the role",
            rule="requester.role",
        )
    trigger = new_trigger(
        session,
        wanted.dataset,
        window=one_line("window", wanted.window),
        partition=one_line("partition", wanted.partition),
        reason=reason,
        actor=person,
        **overrides,
    )
    return Kept(trigger)


def accepted_operation(session: Session, wanted: RequestedOperation, person: str) -> Kept:
    """Return the trigger of a requested operation, with its move pinned. Denied if a signature is missing or does not
    count, and Moved if the ref is not where the person saw it."""
    _check_fields(wanted)
    if wanted.signed is not None:
        wanted = msgspec.structs.replace(wanted, reason=wanted.signed.request.purpose)
    if not wanted.reason.strip():
        raise BadInput(f"{wanted.operation} needs a reason, which goes into the ledger", hint="give it as `reason`")
    keys = in_force(session)
    if wanted.signed is not None and keys is None:
        raise BadInput("there is no key list to sign by", hint="leave `signed` out, or make a list: `kfm keys new`")
    found = planned(session, wanted, person)
    if wanted.signed is not None and keys is not None:
        return _accepted_order(session, keys, found, wanted.signed, person)
    if found.needs_signature:
        assert found.denial is not None
        raise Denied(
            f"{wanted.operation} of {found.move.trigger.dataset} needs a signature, and a login is none",
            hint="ask for it with `dry_run`, sign the request that it answers with, and send that as `signed`; or "
            f"`kfm {'publish' if wanted.operation == 'promote' else wanted.operation} --key FILE`",
            rule="signature.missing",
        )
    if keys is not None:
        _check_role(keys, found.move, person)
    return Kept(_pinned(session, found, actor=person))


def _check_role(keys: Keys, move: RequestedMove, person: str) -> None:
    """Raise Denied unless the person has a role that may request this move, although nobody has to sign it."""
    rule = RULES[move.updater.action(move.first)]
    if not any(keys.has_role(person, role) for role in rule.ask):
        raise Denied(
            f"{move.updater.op} of {move.trigger.dataset} is requested by {person}, who has no role for it",
            hint=f"ask one of these: {', '.join(sorted(rule.ask))}",
            rule="requester.role",
        )


def _pinned(session: Session, found: Planned, *, actor: str, more: dict[str, str] | None = None) -> Trigger:
    """Return the trigger of the operation that makes exactly the moves that were seen."""
    move = found.move
    own = params_of(move.request) if move.request is not None else dict(move.trigger.params)
    params = {"to": move.first.after or NOTHING, **own, "before": move.first.before or NOTHING, REQUESTED: "yes"}
    return operation_trigger(
        move.updater,
        move.trigger.dataset,
        {**params, **(more or {})},
        session.clock,
        actor=actor or default_actor(),
        reason=found.reason,
    )


def _accepted_order(session: Session, keys: Keys, found: Planned, signed: SignedRequest, person: str) -> Kept:
    """Return the trigger that stores a signed change request, or that carries it out if nobody else must sign."""
    request, at = signed.request, now(session)
    act = Act(
        kind="request",
        request=request.digest,
        request_id=request.id,
        key=signed.key,
        signed_at=signed.at,
        signature=signed.signature,
    )
    order = Order(request=request, acts=[act])
    _check_signer(keys, act, person, at)
    if request.requester != person:
        _deny("request.person", f"change request {request.id} names another requester", "sign a request of your own")
    if identified(request) != request:
        _deny("request.changed", f"change request {request.id[:16]!r} has another id than its words", _LOOK_AGAIN)
    _check_unused(session, request)
    _check_same(found, order)
    reasons = against("request", None, order, keys, at)
    if reasons:
        _deny(reasons[0], f"change request {request.id} does not count: {'; '.join(reasons)}", _LOOK_AGAIN)
    check_not_asked(session, order)
    if found.reason != request.purpose:
        _deny("request.purpose", f"the purpose of change request {request.id} may name what is protected", _LOOK_AGAIN)
    if only_others_are_missing(order, keys, at):
        trigger = operation_trigger(
            operations()["request"](),
            request.dataset,
            {"ref": refs.order(request.id), "before": NOTHING, "to": order.digest, REQUESTED: "yes"},
            session.clock,
            actor=person,
            reason=request.purpose,
        )
        return Kept(trigger, ((order.digest, order.body),), request.id)
    verdict = decide(request, order.acts, keys, now=at, used=())
    if not verdict.allow:
        _deny(
            verdict.reasons[0], f"change request {request.id} does not count: {'; '.join(verdict.reasons)}", _LOOK_AGAIN
        )
    return Kept(_pinned(session, found, actor=person, more={SIGNED: order.body.decode()}), (), request.id)


_LOOK_AGAIN = "look at the dry run again, and sign what it shows; docs/guides/keys.md says what each reason means"


def _check_same(found: Planned, order: Order) -> None:
    """Raise Moved or Denied unless a signed request is for exactly what was asked for and would be done now."""
    wanted, request = found.move.request, order.request
    if wanted is not None and is_about(order, wanted):
        return
    first = found.move.first
    if request.params.get("ref") == first.ref and request.before != (first.before or NOTHING):
        raise _moved(first.ref)
    if wanted is not None:
        named = {**wanted.params, LEVELS_PARAM: request.params.get(LEVELS_PARAM, "")}
        if is_about(order, msgspec.structs.replace(wanted, params={k: v for k, v in named.items() if v})):
            _deny("levels.changed", f"the levels that change request {request.id} names have changed", _LOOK_AGAIN)
    _deny("request.changed", f"change request {request.id} is not for what is asked here", _LOOK_AGAIN)


def _check_signer(keys: Keys, act: Act, person: str, at: str) -> None:
    """Raise Denied unless a valid key of this person made the signature."""
    key = keys.live(act.key, "act", at) or keys.live(act.key, "community", at)
    if key is None:
        _deny(
            "signature.key",
            f"key {act.key[:16]!r} is not listed, or not valid now",
            "see `kfm keys list`, ask an admin",
        )
    if key.person != person:
        _deny("signature.person", f"key {act.key[:16]} is another person's than {person}", "sign in as who signs")


def _check_unused(session: Session, request: ApprovalRequest) -> None:
    """Raise Denied if this very request is known: it counts once."""
    known = next((each for each in change_requests(session) if each.request.id == request.id), None)
    if known is not None:
        _deny(f"request.{known.state}", f"change request {request.id} is known, and {known.state}", _LOOK_AGAIN)


def _deny(rule: str, message: str, hint: str) -> NoReturn:
    raise Denied(f"{message} ({rule})", hint=hint, rule=rule)


def _moved(ref: str) -> Moved:
    return Moved(
        f"{ref} has moved since this was requested",
        hint=f"look at `kfm refs history {ref}`, and request it again if it is still wanted",
    )


# -- signatures under a change request


def kept_order(session: Session, request_id: str) -> Order | None:
    """Return the change request of exactly this id."""
    return next((each for each in change_requests(session) if each.request.id == request_id), None)


def accepted_signature(
    session: Session, kind: Literal["approve", "reject"], order: Order, wanted: RequestedSignature, person: str
) -> Kept:
    """Return the trigger that adds a signature to a change request. Denied if it does not count."""
    keys = in_force(session)
    if keys is None:
        raise BadInput("there is no key list to sign by", hint="make one: `kfm keys new --person NAME --role admin`")
    request, at = order.request, now(session)
    reason = one_line("reason", wanted.reason, 1000).strip() or ("approved as requested" if kind == "approve" else "")
    if not reason:
        raise BadInput("a rejection needs a reason, which goes into the ledger", hint="give it as `reason`")
    act = Act(
        kind=kind,
        request=request.digest,
        request_id=request.id,
        key=wanted.key,
        signed_at=wanted.at,
        signature=wanted.signature,
    )
    _check_signer(keys, act, person, at)
    if order.state == "open" and at >= request.expires_at:
        _deny("request.expired", f"change request {request.id} has expired", "request it again")
    new = order.signed(act) if kind == "approve" else order.signed(act).became("rejected")
    reasons = against(kind, order, new, keys, at)
    if reasons:
        _deny(
            reasons[0],
            f"{kind} of change request {request.id} does not count: {'; '.join(reasons)}",
            "docs/guides/keys.md says what each of these means",
        )
    trigger = operation_trigger(
        operations()[kind](),
        request.dataset,
        {"ref": refs.order(request.id), SIGNATURE: canonical(act).decode(), REQUESTED: "yes"},
        session.clock,
        actor=person,
        reason=private_reason(session, request.dataset, reason),
    )
    return Kept(trigger, (), request.id)


# -- what is refused


def keep_refusal(
    session: Session, operation: str, dataset: str, problem: KfmError, *, actor: str, reason: str, request_id: str = ""
) -> Receipt:
    """Record in the ledger that a request was refused, durably, and return the receipt. A change request whose time is
    over ends with it."""
    if operation == "run":
        trigger = new_trigger(session, dataset, reason=reason, actor=actor)
    else:
        reason = private_reason(session, dataset, reason, operation)
        actor = actor or default_actor()
        trigger = operation_trigger(
            operations()[operation](), dataset, {REQUESTED: "refused"}, session.clock, actor=actor, reason=reason
        )
    receipt = _refuse(context_of(session, trigger, trigger_updater(session, trigger)), problem)
    order = kept_order(session, request_id) if request_id else None
    if order is not None and order.state == "open" and now(session) >= order.request.expires_at:
        expire(session, order, actor=actor)
    session.state.sync()
    return receipt


def _refuse(context: RunContext, problem: KfmError) -> Receipt:
    """Return the receipt of a run that ends with this problem before it begins."""

    @with_failure_receipt
    def refuse(_context: RunContext) -> Receipt:
        raise problem

    return refuse(context)


def is_ledgered(problem: KfmError) -> bool:
    """Return whether a refusal goes into the ledger: a person may not do this, or the ref has moved."""
    return isinstance(problem, Denied | Moved)
