"""The routes that change something: operations, signatures under change requests, and what became of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from kfm.api.changes.acceptance import Aside, accept, body_of, discreet
from kfm.api.problems import not_found
from kfm.api.routes import JSON, STAFF, Answer, ApiRoute, Call, Parameter, View
from kfm.api.run_routes import seen_by
from kfm.app.runs.operation_preview import predicted_run
from kfm.app.runs.requested_operations import (
    QuarantineReview,
    RequestedOperation,
    RequestedSignature,
    accepted_operation,
    accepted_run,
    accepted_signature,
    kept_order,
)
from kfm.app.serving.act_answers import (
    Accepted,
    Preview,
    RequestAnswer,
    RequestList,
    TriggerAnswer,
    preview,
    preview_of_run,
    request_answer,
    request_list,
    trigger_answer,
)
from kfm.app.serving.discretion import own_mistakes
from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import dataset_id

if TYPE_CHECKING:
    from kfm.app.runs.execution import Outcome
    from kfm.app.runs.requested_operations import Kept, Order

EVERYTHING = "global"
OF_ROWS = "no request releases a row: this run reads the source and its contract again, and they decide"


def operate(view: View, call: Call) -> Answer:
    """Accept an operation, or answer what it would do."""
    wanted = body_of(call, RequestedOperation)
    if wanted.dataset != EVERYTHING and not seen_by(view).may_name(dataset_id(wanted.dataset)):
        raise not_found()
    if wanted.dry_run:
        return _preview(view, wanted)

    def judge() -> Kept:
        if wanted.operation == "run":
            return accepted_run(view.session, wanted, view.person)
        return accepted_operation(view.session, wanted, view.person)

    return accept(
        view, call, "operations", judge, operation=wanted.operation, dataset=wanted.dataset, reason=wanted.reason
    )


def _preview(view: View, wanted: RequestedOperation) -> Answer:
    if wanted.operation != "run":
        with discreet(view, wanted.dataset):
            return Answer(preview(view.session, seen_by(view), wanted, view.person, view.entries))

    def then(later: View, outcome: Outcome) -> Answer:
        return Answer(preview_of_run(outcome, later.session, seen_by(later), wanted.dataset, later.entries))

    work = partial(predicted_run, view.session.resolved, view.session.clock, wanted, view.person)
    return Answer(Aside(work, then))


def requests(view: View, call: Call) -> Answer:
    with own_mistakes():
        return Answer(request_list(view.session, seen_by(view), view.entries, everything=call.query["all"] == "yes"))


def _order(view: View, call: Call) -> Order:
    found = kept_order(view.session, call.path["request"])
    if found is None or not seen_by(view).may_name(found.request.dataset):
        raise not_found()
    return found


def request(view: View, call: Call) -> Answer:
    found = request_answer(view.session, seen_by(view), _order(view, call), view.entries)
    if found is None:
        raise not_found()
    return Answer(found)


def _sign(kind: Literal["approve", "reject"], view: View, call: Call) -> Answer:
    wanted = body_of(call, RequestedSignature)
    order = _order(view, call)
    return accept(
        view,
        call,
        f"{kind} {order.request.id}",
        lambda: accepted_signature(view.session, kind, order, wanted, view.person),
        operation=kind,
        dataset=order.request.dataset,
        reason=wanted.reason,
        request_id=order.request.id,
    )


def approve(view: View, call: Call) -> Answer:
    return _sign("approve", view, call)


def reject(view: View, call: Call) -> Answer:
    return _sign("reject", view, call)


def review_quarantine(view: View, call: Call) -> Answer:
    """Accept the run that decides about quarantined rows."""
    wanted, name = body_of(call, QuarantineReview), call.path["name"]
    if name == EVERYTHING or not seen_by(view).may_name(dataset_id(name)):
        raise not_found()
    run = RequestedOperation(
        operation="run",
        dataset=name,
        reason=wanted.reason,
        force=wanted.force,
        allow_deletions=wanted.allow_deletions,
    )

    def judge() -> Kept:
        if not view.session.state.refs.at(refs.quarantine(name)):
            raise Refused(f"nothing of {name} is quarantined", hint="see /v1/review")
        return accepted_run(view.session, run, view.person)

    return accept(
        view, call, f"quarantine {name}", judge, operation="run", dataset=name, reason=wanted.reason, note=OF_ROWS
    )


def trigger(view: View, call: Call) -> Answer:
    found = trigger_answer(view.session, seen_by(view), call.path["trigger"], view.entries)
    if found is None:
        raise not_found()
    return Answer(found)


_PROBLEMS = (400, 403, 404, 409, 422)
ROUTES = (
    ApiRoute(
        "POST", "/v1/operations", "operate", "Request an operation, or see what it would do", operate, Preview,
        tag="changes", problems=_PROBLEMS, body=JSON, takes=RequestedOperation, successes=(200, 202), accepted=Accepted,
        changes=True, audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/requests", "requests", "Change requests, the newest first", requests, RequestList,
        (Parameter("all", "used, rejected and expired ones, too", "choice", "no", choices=("no", "yes")),),
        tag="changes", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/requests/{request}", "request", "One change request, as it is to be signed", request,
        RequestAnswer, tag="changes", audiences=STAFF,
    ),
    ApiRoute(
        "POST", "/v1/requests/{request}/approve", "approve", "Sign a change request, exactly as it was made", approve,
        Accepted, tag="changes", problems=_PROBLEMS, body=JSON, takes=RequestedSignature, successes=(202,),
        accepted=Accepted, changes=True, audiences=STAFF,
    ),
    ApiRoute(
        "POST", "/v1/requests/{request}/reject", "reject", "Reject a change request, for good", reject, Accepted,
        tag="changes", problems=_PROBLEMS, body=JSON, takes=RequestedSignature, successes=(202,), changes=True,
        audiences=STAFF,
    ),
    ApiRoute(
        "POST", "/v1/quarantine/{name}/review", "reviewQuarantine", "Request the run that decides quarantined rows",
        review_quarantine, Accepted, tag="changes", problems=_PROBLEMS, body=JSON, takes=QuarantineReview,
        successes=(202,), accepted=Accepted, changes=True, audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/triggers/{trigger}", "trigger", "A trigger, and what became of it", trigger, TriggerAnswer,
        tag="changes", audiences=STAFF,
    ),
)  # fmt: skip
