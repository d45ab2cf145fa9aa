"""The answers about what a person requests: what it would do, what was accepted, change requests, and triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.authorization import change_requests
from kfm.app.authority.keyring import in_force, now
from kfm.app.authority.private_reasons import shown_reason
from kfm.app.daemon.leader_election import is_led
from kfm.app.runs.change_requests import awaited_words, request_status
from kfm.app.runs.execution import problem_of
from kfm.app.runs.operation_preview import predicted_operation
from kfm.app.runs.queries import requested_move_of
from kfm.app.runs.requested_operations import RequestedOperation, planned, request_to_sign
from kfm.app.serving.discretion import EVERYTHING
from kfm.crypto.approvals import ApprovalRequest
from kfm.crypto.change_request import Order, read_order
from kfm.errors import Moved
from kfm.model import refs
from kfm.model.operation_target import SIGNED
from kfm.model.records import EndedTrigger, Record, RefMove
from kfm.operations.move_updater import NOTHING, also_named

if TYPE_CHECKING:
    from kfm.app.runs.execution import Outcome
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session
    from kfm.errors import KfmError
    from kfm.model.records import Receipt, Trigger

ORDERS = refs.ORDERS
CARRIED_OUT = "`kfm up` carries it out; while none runs it waits, and `kfm triggers retry ID` carries it out, too"
WITHHELD = "the data is not plainly public: `kfm review show ID` on the command line shows the request"


class MovedRef(Record, frozen=True):
    """A ref, where it is and where it would go."""

    ref: str
    before: str  # `nothing` if it is nowhere
    after: str


class ToSign(Record, frozen=True):
    """What a person signs: the request in full, and its digest."""

    request: ApprovalRequest
    digest: str
    at: str  # the time of this server, for the signature


class PredictedFile(Record, frozen=True):
    """A public file that would change."""

    target: str
    method: str
    size: int


class Preview(Record, frozen=True):
    """What a requested operation would do now. Nothing was changed."""

    operation: str
    dataset: str
    moves: tuple[MovedRef, ...]
    outcome: str  # as the receipt of a dry run says
    allowed: bool  # by labels, gates and policies; signatures are named below
    reasons: tuple[str, ...]  # why not, or what the policies advise
    needs: tuple[str, ...]  # who must sign, in words
    to_sign: ToSign | None  # null: nothing is to be signed, it has no reason yet, or it is withheld
    changes: dict[str, int]  # of a run: keys that it would add, change and remove
    files: tuple[PredictedFile, ...]
    is_withheld: bool  # the data is not plainly public
    ledger_entries: int


class Accepted(Record, frozen=True):
    """A request that is stored. The same request with the same Idempotency-Key gets the same answer."""

    trigger_id: str
    see: str  # where its state is told
    change_request: str  # its id, if it became one or signs one
    carried_out_by: str
    note: str = ""  # what decides, where the request itself does not


class SignedBy(Record, frozen=True):
    """A signature under a change request."""

    kind: str
    person: str
    at: str


class RequestAnswer(Record, frozen=True):
    """A change request: what is to be signed, who signed, and what is missing."""

    id: str
    action: str
    dataset: str
    state: str  # open, approved, used, rejected or expired
    requester: str
    since: str
    until: str
    reason: str
    digest: str
    request: ApprovalRequest | None  # in full, as it is signed; null: withheld
    moves: tuple[MovedRef, ...]
    signed: tuple[SignedBy, ...]
    missing: tuple[str, ...]  # rules
    needs: tuple[str, ...]  # who must sign, in words
    at: str  # the time of this server, for a signature
    is_withheld: bool
    see: str  # how to look at what is withheld
    ledger_entries: int


class RequestList(Record, frozen=True):
    requests: tuple[RequestAnswer, ...]
    ledger_entries: int


class TriggerAnswer(Record, frozen=True):
    """A trigger, and what became of it."""

    trigger_id: str
    dataset: str
    kind: str
    asks: str  # the move of an operation
    state: str  # waiting, running or done
    received_at: str
    actor: str
    change_request: str
    run_id: str  # of the last run that answered it
    outcome: str
    exit_code: int | None  # as the command would end; null: it has not ended
    words: str  # what the command would say of a failure
    waits_for: str  # who carries it out, while it waits
    is_withheld: bool
    ledger_entries: int


# -- what it would do


def preview(session: Session, seen: Discretion, wanted: RequestedOperation, person: str, index: int) -> Preview:
    """Return what an operation, other than a run, would do now."""
    found = planned(session, wanted, person)
    outcome = predicted_operation(session, found)
    move = found.move
    plain = _is_plain(session, seen, move.trigger.dataset, move.moves)
    request, keys = request_to_sign(session, found, person), in_force(session)
    needs: list[str] = []
    if found.needs_signature and keys is not None and move.request is not None:
        needs = [f"the signature of {person or 'a person of the key list'}, who asks for it"]
        needs += awaited_words(
            request or msgspec.structs.replace(move.request, requester=person), (), keys, now(session)
        )
    to_sign = None if request is None else ToSign(request=request, digest=request.digest, at=request.created_at)
    return _preview(
        wanted.operation,
        move.trigger.dataset,
        outcome,
        moves=tuple(map(_moved, move.moves)),
        needs=tuple(needs),
        to_sign=to_sign if plain else None,
        plain=plain,
        seen=seen,
        index=index,
    )


def preview_of_run(outcome: Outcome, session: Session, seen: Discretion, dataset: str, index: int) -> Preview:
    """Return what a dry run of a dataset showed."""
    plain = is_plain(session, seen, dataset)
    moves = tuple(_moved(move) for receipt in outcome.receipts for move in receipt.moves)
    return _preview(
        "run",
        dataset,
        outcome,
        moves=moves if plain else (),
        needs=(),
        to_sign=None,
        plain=plain,
        seen=seen,
        index=index,
    )


# What these rules say of a request names people, keys and requests alone.
_OF_PEOPLE = ("request.", "requester.", "signature.", "approval.", "levels.")


def shown_problem(session: Session, seen: Discretion, dataset: str, problem: KfmError) -> KfmError:
    """Return a problem as this person may read it. Of data that is not plainly public it keeps its kind and its rule:
    its text may name something of the data."""
    rule = str(problem.fields.get("rule") or "")
    if rule.startswith(_OF_PEOPLE) or isinstance(problem, Moved) or is_plain(session, seen, dataset):
        return problem
    found = type(problem)(
        "this cannot be done now", hint="the data is not plainly public: the command line says why, see `kfm why-not`"
    )
    found.fields = {"rule": rule} if rule else {}
    return found


def is_plain(session: Session, seen: Discretion, dataset: str) -> bool:
    return _is_plain(session, seen, dataset, ())


def _preview(
    operation: str,
    dataset: str,
    outcome: Outcome,
    *,
    moves: tuple[MovedRef, ...],
    needs: tuple[str, ...],
    to_sign: ToSign | None,
    plain: bool,
    seen: Discretion,
    index: int,
) -> Preview:
    problems = [problem for receipt in outcome.receipts if (problem := problem_of(receipt)) is not None]
    problems += [problem for _, problem in outcome.problems]
    advice = [line for receipt in outcome.receipts for each in receipt.policy_decisions for line in each.warnings]
    said = [str(each) if plain else each.code for each in problems]
    receipt = outcome.receipts[-1] if outcome.receipts else None
    return Preview(
        operation=operation,
        dataset=dataset,
        moves=moves,
        outcome=receipt.outcome if receipt is not None else "failed",
        allowed=not problems,
        reasons=tuple(dict.fromkeys([*said, *(advice if plain else [])])),
        needs=needs,
        to_sign=to_sign,
        changes=dict(receipt.changes) if receipt is not None and plain else {},
        files=tuple(
            PredictedFile(target=each.target, method=each.method, size=each.size)
            for each in outcome.effects
            if plain and _may_name_file(seen, each.target)
        ),
        is_withheld=not plain,
        ledger_entries=index,
    )


def _may_name_file(seen: Discretion, target: str) -> bool:
    """Return whether a file may be named: it is of no dataset, or of one that nothing restricts."""
    root, slash, rest = target.partition("/")
    name, below, _ = rest.partition("/")
    return not slash or root not in ("datasets", "catalog") or not below or seen.is_plain(name)


def _moved(move: RefMove) -> MovedRef:
    return MovedRef(ref=move.ref, before=move.before or NOTHING, after=move.after or NOTHING)


def _is_plain(session: Session, seen: Discretion, dataset: str, moves: tuple[RefMove, ...] | list[RefMove]) -> bool:
    """Return whether nothing restricts a dataset, nor any that these moves are about."""
    names: dict[str, set[str]] = {dataset: set()}
    for move in moves:
        names.setdefault(refs.parse(move.ref).dataset or dataset, set()).update((move.before, move.after))
    ledger = session.state.ledger
    return all(
        name == EVERYTHING
        or seen.is_plain(name, *(v for at in versions if at and (v := ledger.version(name, at)) is not None))
        for name, versions in names.items()
    )


# -- change requests


def request_list(session: Session, seen: Discretion, index: int, *, everything: bool) -> RequestList:
    found = [
        answer
        for order in change_requests(session)
        if seen.may_name(order.request.dataset)
        and ((answer := _request(session, seen, order, index)).state in ("open", "approved") or everything)
    ]
    return RequestList(requests=tuple(sorted(found, key=lambda each: each.since, reverse=True)), ledger_entries=index)


def request_answer(session: Session, seen: Discretion, order: Order, index: int) -> RequestAnswer | None:
    """Return a change request; None if this person may not know of it."""
    return _request(session, seen, order, index) if seen.may_name(order.request.dataset) else None


def _request(session: Session, seen: Discretion, order: Order, index: int) -> RequestAnswer:
    request, found, keys = order.request, request_status(session, order), in_force(session)
    moves = _moves_of(request)
    plain = _is_plain(session, seen, request.dataset, moves)
    needs = awaited_words(request, order.acts, keys, now(session)) if keys is not None and found.state == "open" else []
    return RequestAnswer(
        id=request.id,
        action=request.action,
        dataset=request.dataset,
        state=found.state,
        requester=request.requester,
        since=request.created_at,
        until=request.expires_at,
        reason=shown_reason(session, request.purpose) if plain else "",
        digest=request.digest,
        request=request if plain else None,
        moves=tuple(map(_moved, moves)) if plain else (),
        signed=tuple(SignedBy(kind=kind, person=person, at=at) for kind, person, at in found.signed),
        missing=tuple(found.missing),
        needs=tuple(needs),
        at=now(session),
        is_withheld=not plain,
        see="" if plain else WITHHELD.replace("ID", request.id),
        ledger_entries=index,
    )


def _moves_of(request: ApprovalRequest) -> list[RefMove]:
    before, after = ("" if each == NOTHING else each for each in (request.before, request.after))
    return [RefMove(ref=request.params["ref"], before=before, after=after), *also_named(request.params.get("also", ""))]


# -- triggers


def accepted(trigger_id: str, change_request: str, note: str = "") -> Accepted:
    return Accepted(
        trigger_id=trigger_id,
        see=f"/v1/triggers/{trigger_id}",
        change_request=change_request,
        carried_out_by=CARRIED_OUT.replace("ID", trigger_id),
        note=note,
    )


def change_request_of(trigger: Trigger) -> str:
    """Return the id of the change request that a trigger stores, signs or carries out; empty if there is none."""
    if SIGNED in trigger.params:
        return read_order(trigger.params[SIGNED].encode()).request.id
    ref = trigger.params.get("ref", "")
    return ref.removeprefix(ORDERS) if ref.startswith(ORDERS) else ""


def stored_trigger(session: Session, trigger_id: str) -> Trigger | EndedTrigger | None:
    """Return a trigger that waits or has ended."""
    waiting = (each for each in session.state.inbox.waiting() if each.trigger_id == trigger_id)
    return next(waiting, None) or session.state.inbox.ended(trigger_id)


def trigger_answer(session: Session, seen: Discretion, trigger_id: str, index: int) -> TriggerAnswer | None:
    """Return a trigger; None if there is none, or if this person may not know of it."""
    found = stored_trigger(session, trigger_id)
    if found is None:
        return None
    ended = isinstance(found, EndedTrigger)
    trigger, run_id = (found.trigger, found.run_id) if isinstance(found, EndedTrigger) else (found, "")
    if not seen.may_name(trigger.dataset):
        return None
    state = "done"
    if not ended:
        unfinished = session.state.runs.unfinished(trigger.dataset)
        run_id = next((run.run_id for run in unfinished if run.trigger.trigger_id == trigger_id), "")
        state = "running" if run_id else "waiting"
    receipt = session.state.ledger.receipt(run_id) if ended and run_id else None
    plain = is_plain(session, seen, trigger.dataset)
    waits_for = ""
    if state == "waiting":
        is_up = is_led(session)
        waits_for = (
            "`kfm up`, which runs" if is_up else f"`kfm up`, which does not run; or `kfm triggers retry {trigger_id}`"
        )
    return TriggerAnswer(
        trigger_id=trigger_id,
        dataset=trigger.dataset,
        kind=trigger.kind,
        asks=requested_move_of(trigger),
        state=state,
        received_at=trigger.received_at,
        actor=trigger.actor,
        change_request=change_request_of(trigger),
        run_id=run_id,
        outcome=receipt.outcome if receipt is not None else "",
        exit_code=_exit_code(receipt) if receipt is not None else None,
        words=_words(receipt, plain=plain) if receipt is not None else "",
        waits_for=waits_for,
        is_withheld=not plain,
        ledger_entries=index,
    )


def _exit_code(receipt: Receipt) -> int:
    problem = problem_of(receipt)
    return 0 if problem is None else problem.exit_code


def _words(receipt: Receipt, *, plain: bool) -> str:
    problem = problem_of(receipt)
    return "" if problem is None else str(problem) if plain else problem.code
