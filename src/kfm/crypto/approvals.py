"""Approvals: a request, the signatures under it, and whether they suffice.

One person may make things safer. To make them less safe, two stewards of that custodian must approve, who are different
people and not the requester; if the data has a community, its own keys must sign too. All sign the digest of the exact
request: a changed word invalidates every signature. A request expires within a week and is used once.

The functions are pure: the caller passes the key list in force, the time, and the used requests. Inside the commit the
caller checks only that the list is still the same (`ApprovalVerdict.keys`) and the request still unused.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from kfm.crypto.envelopes import pae
from kfm.crypto.key_list import WHEN, Key, Keys, Role
from kfm.crypto.signatures import Signer, is_signed
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Record

TYPE = "application/vnd.kfm.act+json"
LONGEST = timedelta(days=7)
Kind = Literal["request", "approve", "reject"]


class ApprovalRequest(Record, frozen=True):
    """A request for an action, in full: everything that matters is in it."""

    id: str
    action: str
    requester: str  # a person of the key list
    dataset: str
    purpose: str
    created_at: str
    expires_at: str
    custodian: str = ""  # empty: the data is public; several are separated by spaces, and each must approve
    subject: str = ""  # digest of the version, label file or policy it is about
    records: list[str] = []  # ids, if it is about single records
    before: str = ""  # the level, label or ref now
    after: str = ""  # the level, label or ref afterwards
    params: dict[str, str] = {}

    @property
    def digest(self) -> str:
        return digest(canonical(self))


class Act(Record, frozen=True):
    """One signature over a request."""

    kind: Kind
    request: str  # its digest
    request_id: str
    key: str  # id
    signed_at: str
    signature: str = ""  # base64


class ApprovalVerdict(Record, frozen=True):
    """The decision about a request. Reasons are rule ids, never values; `people` approved it if it is allowed."""

    allow: bool
    action: str
    request: str
    keys: str  # digest of the key list that was used; empty: none
    reasons: list[str] = []
    people: list[str] = []


class ApprovalRule(NamedTuple):
    """Who may request an action, and who else must approve it."""

    ask: frozenset[Role]
    approvals: int = 0  # count of approvals by stewards, or by `approvers`
    approvers: Role = "steward"
    guarded: int = 0  # count of approvals by stewards if the data has a custodian
    community: bool = False  # the community's keys must sign too, if there is one
    a_steward: bool = False  # one of the signers must be a steward


_OPERATOR = frozenset[Role]({"operator"})
_STEWARD = frozenset[Role]({"steward"})
_KEEPERS = frozenset[Role]({"operator", "steward"})
_LESS_SAFE = ApprovalRule(_KEEPERS, approvals=2, guarded=2, community=True)
_STEP_UP = ApprovalRule(_OPERATOR, approvals=1, guarded=2, community=True)

RULES: dict[str, ApprovalRule] = {
    # safer, or as safe as before: one person
    "freeze": ApprovalRule(frozenset({"operator", "steward", "admin"})),
    "withdraw": ApprovalRule(_KEEPERS),
    "label.tighten": ApprovalRule(_STEWARD),
    "mask.coarsen": ApprovalRule(_STEWARD),
    "review.raise": ApprovalRule(_KEEPERS),
    "override": ApprovalRule(_STEWARD),  # of an objective, for a time; it publishes nothing by itself
    # another person approves
    "promote": _STEP_UP,
    "rollback": _STEP_UP,
    "hotfix": _STEP_UP,
    "thaw": ApprovalRule(frozenset({"operator", "steward"}), approvals=1, approvers="operator", a_steward=True),
    "policy.deploy": ApprovalRule(frozenset({"admin"}), approvals=1, approvers="admin"),
    # less safe: two people and the community
    "label.lower": _LESS_SAFE,
    "mask.refine": _LESS_SAFE,
    "consent.renew": _LESS_SAFE,
    "review.lower": _LESS_SAFE,
}


def _message(act: Act) -> bytes:
    content = {
        "kind": act.kind,
        "request": act.request,
        "request_id": act.request_id,
        "key": act.key,
        "at": act.signed_at,
    }
    return pae(TYPE, canonical(content))


def sign_act(kind: Kind, request: ApprovalRequest, signer: Signer, now: str) -> Act:
    act = Act(kind=kind, request=request.digest, request_id=request.id, key=signer.key_id, signed_at=now)
    return Act(
        kind=kind,
        request=act.request,
        request_id=act.request_id,
        key=act.key,
        signed_at=now,
        signature=b64encode(signer.sign(_message(act))).decode(),
    )


def decide(
    request: ApprovalRequest, acts: Iterable[Act], keys: Keys | None, *, now: str, used: Collection[str]
) -> ApprovalVerdict:
    """Return whether the request is allowed. `used` holds the ids of requests that were executed or finally
    rejected."""
    people: set[str] = set()
    named = request.custodian.split()
    rule = RULES.get(request.action)
    reasons = _about(request, now, used)
    if rule is None:
        reasons.append("action.unknown")
    elif keys is None:
        if request.custodian or rule is _LESS_SAFE:
            reasons.append("keys.none")  # without a key list only public data may be handled
    elif request.custodian != " ".join(named) or not set(named) <= set(keys.custodians):
        reasons.append("custodian.unknown")
    else:
        acts = list(acts)
        for custodian in named or [""]:
            signed = _signed_by(request, custodian, acts, keys, now)
            found = signed.reasons + _missing(request, custodian, rule, keys, signed)
            reasons += [reason for reason in found if reason not in reasons]
            people |= signed.approved | signed.community
    return ApprovalVerdict(
        allow=not reasons,
        action=request.action,
        request=request.digest,
        keys=keys.digest if keys else "",
        reasons=reasons,
        people=[] if reasons else sorted(people),
    )


def not_counted(request: ApprovalRequest, act: Act, before: Iterable[Act], keys: Keys, now: str) -> list[str]:
    """Return the reasons why a signature under this request can never count; empty if it counts."""
    reasons = _about(request, now, ())
    rule = RULES.get(request.action)
    key = _good_key(act, request, keys, now)
    if rule is None or key is None:
        return [*reasons, "action.unknown" if rule is None else "signature.bad"]
    named = request.custodian.split()
    community = {member for each in named if each in keys.custodians for member in keys.custodians[each].community}
    belongs = key.purpose == "community" and key.id in community
    steward = key.purpose == "act" and any(keys.is_steward(key.person, each) for each in named or [""])
    other = act.kind == "approve" and key.purpose == "act" and keys.has_role(key.person, rule.approvers)
    if not (belongs or steward or (other and rule.approvers != "steward")):
        reasons.append("signature.role")
    if act.kind == "approve" and key.person == request.requester:
        reasons.append("approval.own")
    signed = (keys.keys[each.key] for each in before if each.kind == act.kind == "approve" and each.key in keys.keys)
    if any((each.person, each.purpose) == (key.person, key.purpose) for each in signed):
        reasons.append("approval.again")
    return reasons


def _about(request: ApprovalRequest, now: str, used: Collection[str]) -> list[str]:
    reasons = []
    if not all(map(WHEN.match, (request.created_at, request.expires_at, now))):
        return ["request.times"]
    try:
        lasts = datetime.fromisoformat(request.expires_at) - datetime.fromisoformat(request.created_at)
    except ValueError:
        return ["request.times"]
    if not timedelta(0) < lasts <= LONGEST:
        reasons.append("request.too-long")
    if not request.created_at <= now < request.expires_at:
        reasons.append("request.expired")
    if not request.id or request.id in used:
        reasons.append("request.used")
    if not request.purpose.strip():
        reasons.append("request.no-purpose")
    return reasons


class _Signers(NamedTuple):
    asked: bool
    approved: set[str]  # people who signed with keys for acts
    community: set[str]  # people who signed with keys of this community
    reasons: list[str]  # reasons that no approval can overcome


def _signed_by(request: ApprovalRequest, whose: str, acts: Iterable[Act], keys: Keys, now: str) -> _Signers:
    """Return who requested, approved and rejected. An invalid signature is ignored, or else anyone could block
    anything."""
    asked = False
    approved: set[str] = set()
    community: set[str] = set()
    reasons: list[str] = []
    custodian = keys.custodians.get(whose)
    own = custodian.community if custodian else []
    for act in acts:
        key = _good_key(act, request, keys, now)
        if key is None:
            continue
        belongs = key.purpose == "community" and key.id in own
        if key.purpose == "community" and not belongs:
            continue
        if act.kind == "reject":
            if belongs or keys.is_steward(key.person, whose):
                reasons.append("request.rejected")
        elif act.kind == "request":
            asked |= key.purpose == "act" and key.person == request.requester
        elif key.person != request.requester:
            (community if belongs else approved).add(key.person)
    return _Signers(asked, approved, community, sorted(set(reasons)))


def _good_key(act: Act, request: ApprovalRequest, keys: Keys, now: str) -> Key | None:
    """Return the key of a valid act over exactly this request, if the key is valid now and was when it signed; else
    None."""
    key = keys.live(act.key, "act", now) or keys.live(act.key, "community", now)
    if key is None or act.request != request.digest or act.request_id != request.id:
        return None
    if not max(request.created_at, key.valid_from) <= act.signed_at <= now:
        return None
    try:
        raw = b64decode(act.signature, validate=True)
    except ValueError:
        return None
    return key if is_signed(bytes.fromhex(key.public), raw, _message(act)) else None


def _missing(request: ApprovalRequest, whose: str, rule: ApprovalRule, keys: Keys, signed: _Signers) -> list[str]:
    reasons = []
    if not signed.asked:
        reasons.append("requester.unsigned")
    asks = {role for role in rule.ask if keys.has_role(request.requester, role)}
    if asks == {"steward"} and not keys.is_steward(request.requester, whose):
        asks = set()
    if not asks:
        reasons.append("requester.role")
    stewards = {person for person in signed.approved if keys.is_steward(person, whose)}
    if request.params.get("review") == "two" and len(stewards) < 2:
        reasons.append("approvals.too-few")
    elif whose and rule.guarded:
        if len(stewards) < rule.guarded:
            reasons.append("approvals.too-few")
    elif rule.approvals and len(_counted(rule, keys, signed, stewards)) < rule.approvals:
        reasons.append("approvals.too-few")
    if rule.a_steward and not (stewards or keys.is_steward(request.requester, whose)):
        reasons.append("approvals.no-steward")
    custodian = keys.custodians.get(whose)
    if rule.community and custodian and custodian.community and len(signed.community) < custodian.threshold:
        reasons.append("community.too-few")
    return reasons


class Awaited(NamedTuple):
    """Signatures that a request still needs: how many, in which role, and the people who could give them."""

    number: int
    role: str
    people: list[str]


def awaited(request: ApprovalRequest, acts: Iterable[Act], keys: Keys, *, now: str) -> list[Awaited]:
    """Return the signatures that are missing, and who has a valid key to give them. Empty if none is missing."""
    rule, acts = RULES.get(request.action), list(acts)
    if rule is None:
        return []
    found = []
    for whose in request.custodian.split() or [""]:
        signed = _signed_by(request, whose, acts, keys, now)
        count, roles = _approvals_left(request, whose, rule, keys, signed)
        if count > 0:
            people = {key.person for key in keys.keys.values() if keys.live(key.id, "act", now)}
            others = people - signed.approved - {request.requester}
            able = {each for each in others if any(_may_act(keys, each, role, whose) for role in roles)}
            found.append(Awaited(count, " or ".join(sorted(roles)), sorted(able)))
        custodian = keys.custodians.get(whose)
        left = custodian.threshold - len(signed.community) if rule.community and custodian else 0
        if custodian and custodian.community and left > 0:
            members = {keys.keys[each].person for each in custodian.community if keys.live(each, "community", now)}
            able = members - signed.community - {request.requester}
            found.append(Awaited(left, f"member of the community of {whose}", sorted(able)))
    return found


def _approvals_left(
    request: ApprovalRequest, whose: str, rule: ApprovalRule, keys: Keys, signed: _Signers
) -> tuple[int, set[Role]]:
    """Return how many approvals are missing, and the roles of which one is enough for each."""
    stewards = {person for person in signed.approved if keys.is_steward(person, whose)}
    if request.params.get("review") == "two":
        return 2 - len(stewards), {"steward"}
    if whose and rule.guarded:
        return rule.guarded - len(stewards), {"steward"}
    left = rule.approvals - len(_counted(rule, keys, signed, stewards))
    if rule.a_steward and not (stewards or keys.is_steward(request.requester, whose)):
        return max(left, 1), {"steward"}
    return left, {rule.approvers, "steward"} if rule.a_steward else {rule.approvers}


def _may_act(keys: Keys, person: str, role: Role, whose: str) -> bool:
    return keys.is_steward(person, whose) if role == "steward" else keys.has_role(person, role)


def _counted(rule: ApprovalRule, keys: Keys, signed: _Signers, stewards: set[str]) -> set[str]:
    if rule.approvers == "steward":
        return stewards
    return {person for person in signed.approved if keys.has_role(person, rule.approvers)} | (
        stewards if rule.a_steward else set()
    )
