"""Authorizes operations under a key list, before they commit.

The result is a warrant: the change request that the commit uses up, and the key list that must still be in force then.
Nothing else authorizes: not an actor's name, not the resumption of a killed run, not a trigger that waited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kfm.app.authority.effective_levels import LEVELS_PARAM, as_param, version_levels
from kfm.app.authority.keyring import in_force, now
from kfm.app.authority.label_change import weigh as weigh_labels
from kfm.app.authority.labels_in_force import check_untouched, read_bytes
from kfm.app.authority.labels_in_force import labelled as labelled
from kfm.app.authority.mask_change import weigh as weigh_rule
from kfm.app.authority.review_rules import check_possible, review_of
from kfm.app.authority.signed_policies import current
from kfm.app.session.session import Session
from kfm.clock import parse_instant
from kfm.crypto.access_tokens import not_allowed, read_token
from kfm.crypto.approvals import ApprovalRequest, decide, not_counted
from kfm.crypto.change_request import MAY_COME, Order, identified, read_order
from kfm.crypto.key_list import Keys, first_list, next_list
from kfm.engine.stage_results import Warrant
from kfm.errors import BadInput, Corrupt, Denied
from kfm.model import refs
from kfm.model.keys import digest
from kfm.model.records import RefMove, Trigger
from kfm.model.updater import Updater
from kfm.operations.move_updater import ALSO, NOTHING, MoveUpdater, also

# The fields that say what is requested; the others say by whom, why and when.
MATTER = ("action", "dataset", "custodian", "subject", "records", "before", "after", "params")


def warrant(session: Session, updater: Updater, trigger: Trigger, moves: list[RefMove]) -> Warrant:
    """Return the authorization of an operation. Denied unless the keys in force permit it."""
    assert isinstance(updater, MoveUpdater), "only operations are approved"
    if updater.approval == "none":
        return Warrant()
    if updater.approval == "key-list":
        return _listing(session, trigger, moves[0])
    keys = in_force(session)
    if updater.approval == "token":
        return _granting(session, keys, moves[0])
    if updater.approval == "signature":
        return _signing(session, updater.op, keys, moves[0])
    shown = publishing(session, updater, moves)
    if keys is None:
        if updater.approval == "rules":
            raise Denied("there is no key list to sign by", hint="make one: `kfm keys new --person NAME --role admin`")
        for move in shown:
            check_possible(session, refs.parse(move.ref).dataset)
        return Warrant()
    if shown and all(review_of(session, refs.parse(move.ref).dataset, move) == "none" for move in shown):
        return Warrant(held={refs.KEY_LIST: keys.digest, **_reviewed(session)})
    wanted = matter(session, updater, trigger, moves)
    at = now(session)
    refused: list[str] = []
    for order in _requests_about(session, wanted):
        verdict = decide(order.request, order.acts, keys, now=at, used=())
        if verdict.allow:
            using = _using(session, order, keys)
            return _lowering(session, using, moves[0]) if moves[0].ref == refs.LABELS else using
        refused += [f"{order.request.id}: {reason}" for reason in verdict.reasons]
    refused += [f"{order.request.id}: levels.changed" for order in _about_other_levels(session, wanted)]
    raise Denied(
        f"{wanted.action} of {wanted.dataset} has no signature of a person who may do it"
        if not refused
        else f"{wanted.action} of {wanted.dataset} may not be done: {'; '.join(refused[:20])}",
        hint="sign it with --key FILE; if others must sign too, this makes a change request, see `kfm review list`",
    )


def matter(session: Session, updater: MoveUpdater, trigger: Trigger, moves: Sequence[RefMove]) -> ApprovalRequest:
    """Return the approval request that describes this operation, still without requester and dates. The first move is
    what it is about; the moves that are made with it are parameters, so that everyone signs all of them."""
    move, *more = moves
    if updater.approval == "rules":
        return _rule_request(session, trigger, move)
    params = {"ref": move.ref, **({ALSO: also(more)} if more else {})}
    shown = publishing(session, updater, moves)
    looked_at = [*shown, *(each for each in moves if each.ref.startswith(refs.VERSIONS) and each not in shown)]
    whose: list[str] = []
    if updater.asks_custodians:
        found = (custodians(session, refs.parse(each.ref).dataset, each) for each in looked_at)
        whose = sorted({name for names in found for name in names})
    if not whose and any(review_of(session, refs.parse(each.ref).dataset, each) == "two" for each in shown):
        params["review"] = "two"
    return ApprovalRequest(
        id="",
        action=updater.action(move),
        requester="",
        dataset=trigger.dataset,
        purpose="",
        created_at="",
        expires_at="",
        custodian=" ".join(whose),
        subject=move.after,
        before=move.before or NOTHING,
        after=move.after or NOTHING,
        params={**params, **_levels(session, shown)},
    )


def _levels(session: Session, shown: Sequence[RefMove]) -> dict[str, str]:
    """Return the levels of the versions that an operation would publish, as a parameter of its request."""
    return as_param([each for move in shown for each in version_levels(session, refs.parse(move.ref).dataset, move)])


def publishing(session: Session, updater: MoveUpdater, moves: Sequence[RefMove]) -> list[RefMove]:
    """Return the moves that show something to the public, so that `review:` says who must approve them. The move of a
    hotfix stands for the published version that it corrects, as a move from itself to itself."""
    if not updater.asks_custodians:
        return []
    found = [move for move in moves if move.ref.startswith(refs.PUBLISHED)]
    published = {move.ref for move in found}
    for move in moves:
        ref = refs.published(refs.parse(move.ref).dataset)
        if move.ref.startswith(refs.HOTFIX) and ref not in published and (at := session.state.refs.at(ref)):
            found.append(RefMove(ref=ref, before=at, after=at))
    return [move for move in found if move.after]


def _reviewed(session: Session) -> dict[str, str]:
    """Return the signed review rules as a ref that must still be there in the commit."""
    at = session.state.refs.at(refs.REVIEW)
    return {refs.REVIEW: at} if at else {}


def _rule_request(session: Session, trigger: Trigger, move: RefMove) -> ApprovalRequest:
    """Return the approval request for a change of rules, classified by the present rules and bound to the file it was
    made from. Denied if that file has changed."""
    params = {"ref": move.ref}
    if move.ref == refs.LABELS:
        params["file"] = trigger.params.get("file", "")
        check_untouched(session, params["file"])
        found = weigh_labels(session, read_bytes(session.objects.read(move.after)))
        action, whose, levels = found.action, found.custodians, found.levels
    else:
        if digest(current(session, move.ref)) != move.after:
            raise Denied(
                "it was changed since this was signed", hint="look at it, and request it again", rule="rules.changed"
            )
        action, whose, levels = weigh_rule(session, move.ref, move.before)
    return ApprovalRequest(
        id="",
        action=action,
        requester="",
        dataset=trigger.dataset,
        purpose="",
        created_at="",
        expires_at="",
        custodian=" ".join(whose),
        subject=move.after,
        before=move.before or NOTHING,
        after=move.after,
        params={**params, **as_param(levels)},
    )


def custodians(session: Session, dataset: str, move: RefMove) -> list[str]:
    """Return the custodians who decide about a version: those of its sources, of the version it replaces, and of the
    present labels."""
    try:
        classifications = [labelled(session, dataset)]
    except BadInput:  # with unreadable labels nothing is published, but a withdrawal goes on
        if move.after:
            raise
        classifications = []
    for at in (move.before, move.after):
        version = session.state.ledger.version(dataset, at) if at else None
        classifications.append(version.standing if version is not None else None)
    return sorted({name for each in classifications if each is not None for name in each.custodians})


def is_about(order: Order, wanted: ApprovalRequest) -> bool:
    """Return whether a change request is for exactly the operation that `wanted` describes."""
    return all(getattr(order.request, name) == getattr(wanted, name) for name in MATTER)


def _about_other_levels(session: Session, wanted: ApprovalRequest) -> Iterator[Order]:
    """Yield the open change requests for this operation whose signatures name other levels than it would have now."""
    for order in change_requests(session):
        mine, own = ({**one.params, LEVELS_PARAM: ""} for one in (order.request, wanted))
        if order.state == "open" and mine == own and order.request.params != wanted.params:
            named = msgspec.structs.replace(order.request, params=wanted.params)
            if all(getattr(named, name) == getattr(wanted, name) for name in MATTER):
                yield order


def change_requests(session: Session) -> Iterator[Order]:
    """Yield all change requests in their present state. Corrupt if one is not what was signed."""
    with session.state.reading():  # one snapshot, because another person may sign meanwhile
        found = [read_order(body) for _, body in session.state.orders.all()]
        moved = [each for each in found if session.state.refs.at(refs.order(each.request.id)) != each.digest]
    if moved:
        raise Corrupt(
            f"change request {moved[0].request.id} is not what was signed", hint="restore the state from a copy"
        )
    yield from found


def approval(session: Session, dataset: str, subject: str) -> tuple[list[str], int] | None:
    """Return who approved the publication of exactly this version, and when the last of them signed; None if the
    approval is missing. A request that was used counts too."""
    keys = in_force(session)
    if keys is None:
        return None
    at = now(session)
    every = [*([session.offered] if session.offered is not None else []), *change_requests(session)]
    for order in every:
        request = order.request
        if (request.action, request.dataset, request.subject) != ("promote", dataset, subject):
            continue
        last = max((act.signed_at for act in order.acts), default="")
        verdict = decide(request, order.acts, keys, now=last if order.state == "used" else at, used=())
        if order.state in ("open", "used") and verdict.allow and verdict.people:
            return verdict.people, parse_instant(last, "a signature")
    return None


def signed_since(session: Session, dataset: str, subject: str, since: str) -> bool:
    """Return whether all required people have approved, after this moment, that exactly this version is published."""
    keys = in_force(session)
    every = [*([session.offered] if session.offered is not None else []), *change_requests(session)]
    for order in every if keys is not None else ():
        request = order.request
        later = [act for act in order.acts if act.signed_at > since]
        is_about_this = (request.action, request.dataset, request.subject) == ("promote", dataset, subject)
        if is_about_this and order.state == "open" and decide(request, later, keys, now=now(session), used=()).allow:
            return True
    return False


def _requests_about(session: Session, wanted: ApprovalRequest) -> Iterator[Order]:
    """Yield the change requests for the operation that `wanted` describes: first the one that the caller just signed,
    then open ones."""
    if session.offered is not None and is_about(session.offered, wanted):
        yield session.offered
    yield from (each for each in change_requests(session) if each.state == "open" and is_about(each, wanted))


def _lowering(session: Session, using: Warrant, move: RefMove) -> Warrant:
    """Return the warrant with the remembered classifications that the signed labels lower."""
    return msgspec.structs.replace(
        using, lowered=weigh_labels(session, read_bytes(session.objects.read(move.after))).lowered
    )


def _using(session: Session, order: Order, keys: Keys) -> Warrant:
    used = order.became("used")
    ref = refs.order(order.request.id)
    before = "" if order is session.offered else order.digest
    move = RefMove(ref=ref, before=before, after=used.digest)
    return Warrant(
        moves=[move],
        rows=[(used.digest, used.body)],
        orders=[(used.request.digest, used.body)],
        held={refs.KEY_LIST: keys.digest},
    )


def _listing(session: Session, trigger: Trigger, move: RefMove) -> Warrant:
    """Return the warrant for the next key list. Denied unless everyone who must has signed it."""
    current = in_force(session)
    file = session.objects.read(trigger.params.get("file", ""))
    after = first_list(file, now(session)) if current is None else next_list(current, file, now(session))
    if after.digest != move.after:
        raise Denied("the key list that was signed is another one", hint="make it again with `kfm keys`")
    return Warrant()


def _signing(session: Session, op: str, keys: Keys | None, move: RefMove) -> Warrant:
    """Return the warrant to store a new change request, one more signature, or its end. Denied if the signature does
    not count."""
    if keys is None:
        raise Denied("there is no key list to sign by", hint="make one: `kfm keys new --person NAME --role admin`")
    old = read_order(session.objects.read(move.before)) if move.before else None
    new = read_order(session.objects.read(move.after))
    reasons = against(op, old, new, keys, now(session))
    if move.ref != refs.order(new.request.id) or identified(new.request) != new.request:
        reasons.append("request.changed")
    if reasons:
        raise Denied(
            f"{op} of change request {new.request.id} does not count: {'; '.join(reasons)}",
            hint="docs/guides/keys.md says what each of these means",
        )
    return Warrant(orders=[(new.request.digest, new.body)], held={refs.KEY_LIST: keys.digest})


def _granting(session: Session, keys: Keys | None, move: RefMove) -> Warrant:
    """Return the warrant to keep an access token, or its revocation. Denied unless an admin or its person signed it."""
    if keys is None:
        raise Denied("there is no key list to sign by", hint="make one: `kfm keys new --person NAME --role admin`")
    old = read_token(session.objects.read(move.before)) if move.before else None
    new = read_token(session.objects.read(move.after))
    reasons = not_allowed(old, new, keys, now(session))
    if move.ref != refs.token(new.signed.id):
        reasons.append("token.changed")
    if reasons:
        raise Denied(
            f"token {new.signed.id} may not be {'revoked' if old else 'made'}: {'; '.join(reasons)}",
            hint="an admin signs it, or the person whose it is; docs/guides/keys.md says what each of these means",
        )
    return Warrant(held={refs.KEY_LIST: keys.digest})


def against(op: str, old: Order | None, new: Order, keys: Keys, at: str) -> list[str]:
    """Return the reasons why a new change request, one more signature, or the end of a request does not count."""
    if op == "request":
        verdict = decide(new.request, new.acts, keys, now=at, used=())
        alone = old is None and new.state == "open" and len(new.acts) == 1
        return [reason for reason in verdict.reasons if reason not in MAY_COME] + ([] if alone else ["request.changed"])
    if old is None or old.state != "open":
        return [f"request.{old.state if old is not None else 'unknown'}"]
    if op == "expire":
        right = new == old.became("expired") and at >= old.request.expires_at
        return [] if right else ["request.not-expired"]
    if not new.acts or new.acts[-1].kind != op:
        return ["request.changed"]
    act = new.acts[-1]
    signed = old.signed(act) if op == "approve" else old.signed(act).became("rejected")
    reasons = [] if new == signed else ["request.changed"]
    return reasons + not_counted(new.request, act, old.acts, keys, at)


def may_be_done(order: Order, keys: Keys, at: str) -> bool:
    """Return whether a change request is open and has all signatures."""
    return order.state == "open" and decide(order.request, order.acts, keys, now=at, used=()).allow


def complete_request(wanted: ApprovalRequest, person: str, purpose: str, at: str, until: str) -> ApprovalRequest:
    """Return the request with its requester, purpose and dates."""
    return identified(
        msgspec.structs.replace(wanted, requester=person, purpose=purpose, created_at=at, expires_at=until)
    )
