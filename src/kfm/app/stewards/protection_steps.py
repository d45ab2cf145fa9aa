"""The way of a protected source to the public, step by step: what is done, and who does what next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.authorization import change_requests
from kfm.app.authority.keyring import in_force, now
from kfm.app.authority.mask_names import unsigned_masks
from kfm.app.runs.change_requests import request_status
from kfm.model import refs

if TYPE_CHECKING:
    from kfm.app.runs.change_requests import RequestStatus
    from kfm.app.session.session import Session

FEWEST = 2  # stewards who sign for a custodian


class Step(msgspec.Struct, frozen=True):
    """One step. `state` is done, next or later; `who` acts; `next` is what to type."""

    step: str
    state: str
    who: str
    next: str = ""


def steps(session: Session, dataset: str, source: str, custodian: str) -> list[Step]:
    """Return all steps after the files: withdrawal of an exposed version, people, description, signed masking, run,
    request, signatures, publication."""
    found = [
        *_withdrawal(session, dataset),
        _people(session, custodian),
        _metadata(session, dataset),
        _mask(session, dataset, source),
        _run(session, dataset),
        *_publication(session, dataset, custodian),
    ]
    out, is_next = [], True
    for step in found:
        if step.state != "done":
            step = msgspec.structs.replace(step, state="next" if is_next else "later")
            is_next = False
        out.append(step)
    return out


def _is_masked(session: Session, dataset: str, version: str) -> bool:
    made = session.state.ledger.version(dataset, version) if version else None
    return made is not None and made.standing is not None and made.standing.level == "generalised"


def _withdrawal(session: Session, dataset: str) -> list[Step]:
    """Return the first step where a version is public that was made before the source was protected."""
    public = session.state.refs.at(refs.published(dataset))
    if not public or _is_masked(session, dataset, public):
        return []
    return [
        Step("withdrawal", "", "you, now: it is public as it is", f"kfm rollback {dataset} --to nothing --reason …")
    ]


def _people(session: Session, custodian: str) -> Step:
    """Return whether an admin, an operator and two stewards have keys."""
    keys = in_force(session)
    new = "kfm keys new --person NAME"
    if keys is None:
        return Step("people", "", "an admin", f'{new} --role admin --out ../safe/NAME.key --reason "…"')
    people = {key.person for key in keys.listed.keys if key.purpose == "act" and key.is_live(now(session))}
    stewards = sum(keys.is_steward(person, custodian) for person in people)
    if not any(keys.has_role(person, "operator") for person in people):
        return Step("people", "", "an operator", f"{new} --role operator --out ../safe/NAME.key --key ADMIN.key")
    if stewards < FEWEST:
        lacks = f"{FEWEST - stewards} more steward{'s' * (stewards < FEWEST - 1)} of {custodian}"
        out = "--out ../safe/NAME.key --key ADMIN.key"
        return Step("people", "", lacks, f"{new} --role steward --custodian {custodian} {out}")
    return Step("people", "done", f"{stewards} stewards of {custodian}")


def _metadata(session: Session, dataset: str) -> Step:
    said = session.config.datasets[dataset]
    lacks = [name for name in ("title", "license") if not getattr(said, name)]
    if not lacks:
        return Step("description", "done", "")
    return Step("description", "", "a steward", f"write into kfm.yml, under datasets: {dataset}: {lacks[0]}: …")


def _mask(session: Session, dataset: str, source: str) -> Step:
    if source in unsigned_masks(session, dataset):
        return Step("mask", "", "two stewards", f"kfm mask deploy {dataset} {source} --key FILE --reason …")
    return Step("mask", "done", "")


def _run(session: Session, dataset: str) -> Step:
    if not _is_masked(session, dataset, session.state.refs.at(refs.processed(dataset)) or ""):
        return Step("run", "", "an operator", f"kfm run {dataset}")
    return Step("run", "done", "")


def _publication(session: Session, dataset: str, custodian: str) -> list[Step]:
    """Return request and signatures: those of the open request, or of the version that is public."""
    processed, public = (session.state.refs.at(ref(dataset)) for ref in (refs.processed, refs.published))
    if public and public == processed and _is_masked(session, dataset, public):
        return [Step("request", "done", ""), Step("signatures", "done", ""), Step("public", "done", "")]
    for order in change_requests(session):
        request = order.request
        if request.action == "promote" and request.dataset == dataset:
            status = request_status(session, order)
            if status.state in ("open", "approved"):
                return [
                    Step("request", "done", request.requester),
                    Step("signatures", "", _lacking(status, custodian), f"kfm review approve {request.id} --key FILE"),
                    Step("public", "", ""),
                ]
    return [
        Step("request", "", "an operator", f"kfm publish {dataset} --key FILE --reason …"),
        Step("signatures", "", f"2 stewards of {custodian}", "kfm review approve ID --key FILE"),
        Step("public", "", ""),
    ]


def _lacking(status: RequestStatus, custodian: str) -> str:
    """Return whose signatures a request lacks, and who signed."""
    requester = status.order.request.requester
    signed = sorted({person for kind, person, _ in status.signed if kind == "approve"} - {requester})
    lacks = []
    if any(rule.startswith("approvals.") for rule in status.missing):
        many = max(1, FEWEST - len(signed))
        lacks.append(f"{many} {'more ' * bool(signed)}steward{'s' * (many > 1)} of {custodian}")
    if any(rule.startswith("community.") for rule in status.missing):
        lacks.append("the community")
    return " and ".join(lacks) + (f" (signed: {', '.join(signed)})" if signed else "")
