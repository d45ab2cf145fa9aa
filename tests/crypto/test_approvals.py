"""Who may do what: the whole matrix, and every way around it."""

from __future__ import annotations

import itertools
from base64 import b64encode

import msgspec
import pytest

from kfm.crypto.approvals import RULES, Act, ApprovalRequest, ApprovalVerdict, decide, sign_act
from kfm.crypto.key_list import Keys
from tests.crypto.world import END, FIRST, KAW, LATER, MUSEUM, NOW, STAFF, acts, changed, key, request, signer, trusted

KEYS = trusted()
replace = msgspec.structs.replace
LESS_SAFE = ("label.lower", "mask.refine", "consent.renew")
STEPS_UP = ("promote", "rollback")
COMMUNITY = ("kim-own", "kai-own")


def judged(
    wanted: ApprovalRequest, signed: list[Act], keys: Keys | None = KEYS, now: str = NOW, used: tuple[str, ...] = ()
) -> ApprovalVerdict:
    return decide(wanted, signed, keys, now=now, used=used)


def answer(action: str, requester: str, *approvers: str, custodian: str = MUSEUM) -> list[str]:
    wanted = request(action, requester=requester, custodian=custodian)
    verdict = judged(wanted, acts(wanted, *approvers))
    assert verdict.allow == (not verdict.reasons)
    return verdict.reasons


# Who may do it alone, and who may ask for what others must approve.
ALONE = {
    "freeze": {"ada", "amy", "olli", "otto", "stu", "sue", "sam"},
    "withdraw": {"olli", "otto", "stu", "sue", "sam"},
    "label.tighten": {"sue", "sam", "stu"},
    "mask.coarsen": {"sue", "sam", "stu"},
    "review.raise": {"olli", "otto", "stu", "sue", "sam"},
    "override": {"sue", "sam", "stu"},
}


@pytest.mark.parametrize("action", ALONE)
def test_what_one_person_may_do_alone_every_other_may_not(action: str) -> None:
    for person in STAFF:
        allowed = not answer(action, person)
        assert allowed == (person in ALONE[action]), person


def test_every_other_action_takes_one_more_person() -> None:
    for action in set(RULES) - set(ALONE):
        for person in STAFF:
            assert answer(action, person), f"{action} by {person} alone"
            assert answer(action, person, person), f"{action} by {person}, approved by the same"


@pytest.mark.parametrize("action", [*LESS_SAFE, *STEPS_UP])
def test_a_custodians_data_take_two_of_its_stewards_and_no_other_pair_will_do(action: str) -> None:
    stewards = {"sue", "sam", "stu"}
    for pair in itertools.combinations(STAFF, 2):
        allowed = not answer(action, "olli", *pair)
        assert allowed == (set(pair) <= stewards), pair
    for one in STAFF:
        assert "approvals.too-few" in answer(action, "olli", one)
    assert not answer(action, "olli", "sue", "sam", "stu", "vic"), "more than enough is enough"


@pytest.mark.parametrize("action", [*LESS_SAFE, *STEPS_UP])
def test_a_communitys_data_take_its_own_keys_too(action: str) -> None:
    assert answer(action, "olli", "sue", "sam", custodian=KAW) == ["community.too-few"]
    assert answer(action, "olli", *COMMUNITY, custodian=KAW) == ["approvals.too-few"]
    assert answer(action, "olli", "sue", "sam", "kim-own", custodian=KAW) == ["community.too-few"]
    two_keys_of_one = ("kim-own", "kim-own-2")
    assert answer(action, "olli", "sue", "sam", *two_keys_of_one, custodian=KAW) == ["community.too-few"]
    assert not answer(action, "olli", "sue", "sam", *COMMUNITY, custodian=KAW)
    assert answer(action, "olli", "sue", "sam", *COMMUNITY, custodian=MUSEUM) == [], "others' keys are as none"
    assert answer(action, "olli", "sue", *COMMUNITY, custodian=MUSEUM) == ["approvals.too-few"]


def test_public_data_take_one_steward_and_what_is_less_safe_two() -> None:
    for action in STEPS_UP:
        assert not answer(action, "olli", "eve", custodian="")
        assert answer(action, "olli", "otto", custodian="")
        assert answer(action, "eve", "sue", custodian="") == ["requester.role"]
    for action in LESS_SAFE:
        assert answer(action, "olli", "eve", custodian="") == ["approvals.too-few"]
        assert not answer(action, "olli", "eve", "sue", custodian="")


def test_a_thaw_takes_two_people_of_whom_one_is_a_steward() -> None:
    assert not answer("thaw", "olli", "sue") and not answer("thaw", "sue", "olli") and not answer("thaw", "sue", "sam")
    assert answer("thaw", "olli", "otto") == ["approvals.no-steward"]
    assert answer("thaw", "olli", "ada") == ["approvals.too-few", "approvals.no-steward"]
    assert answer("thaw", "ada", "sue") == ["requester.role"]


def test_a_policy_takes_two_admins() -> None:
    assert not answer("policy.deploy", "ada", "amy", custodian="")
    for pair in (("ada",), ("ada", "ada"), ("ada", "sue"), ("sue", "ada")):
        assert answer("policy.deploy", *pair, custodian="")


WANTED = request("label.lower")
ENOUGH = acts(WANTED, "sue", "sam")


def test_the_same_request_with_enough_signatures_is_granted_and_says_by_whom() -> None:
    verdict = judged(WANTED, ENOUGH)
    assert verdict.allow is True and verdict.people == ["sam", "sue"]
    assert verdict.request == WANTED.digest and verdict.keys == KEYS.digest


def test_nobody_approves_what_they_ask_for_themselves() -> None:
    wanted = request("label.lower", requester="stu")
    assert judged(wanted, acts(wanted, "stu", "sue")).reasons == ["approvals.too-few"]
    assert judged(wanted, acts(wanted, "sue", "sam")).allow
    kims = request("label.lower", requester="kim", custodian=KAW)
    assert not judged(kims, acts(kims, "sue", "sam", *COMMUNITY, requester="kim-own")).allow


def test_two_keys_of_one_person_are_one_person() -> None:
    assert judged(WANTED, acts(WANTED, "sue", "sue-2")).reasons == ["approvals.too-few"]
    assert judged(WANTED, acts(WANTED, "sue", "sue-2", "sam")).allow


def test_one_signature_given_twice_is_one() -> None:
    assert judged(WANTED, [*acts(WANTED, "sue"), *acts(WANTED, "sue")]).reasons == ["approvals.too-few"]


def test_a_request_is_used_once() -> None:
    assert judged(WANTED, ENOUGH, used=("req-1",)).reasons == ["request.used"]
    assert judged(request("label.lower", id=""), acts(request("label.lower", id=""), "sue", "sam")).reasons == [
        "request.used"
    ]
    again = replace(WANTED, id="req-2")
    assert not judged(again, ENOUGH, used=("req-1",)).allow, "approvals of one request are none of another"


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "kfm://dataset/others"},
        {"action": "mask.refine"},
        {"custodian": KAW},
        {"subject": "sha256:" + "cd" * 32},
        {"records": ["r-1"]},
        {"before": "r7"},
        {"after": "r9"},
        {"purpose": "another"},
        {"expires_at": "2026-03-08T00:00:00.000Z"},
        {"created_at": "2026-03-01T00:00:01.000Z"},
        {"params": {"resolution": "9"}},
        {"requester": "otto"},
        {"id": "req-9"},
    ],
)
def test_a_changed_request_has_no_approvals(change: dict[str, object]) -> None:
    bent = replace(WANTED, **change)
    assert "approvals.too-few" in judged(bent, ENOUGH).reasons
    relabelled = [replace(act, request=bent.digest, request_id=bent.id) for act in ENOUGH]
    assert "approvals.too-few" in judged(bent, relabelled).reasons, "a signature does not fit what it was not made for"


def test_every_field_of_a_request_counts() -> None:
    tried = {"dataset", "action", "custodian", "subject", "records", "before", "after", "purpose", "expires_at"}
    assert set(ApprovalRequest.__struct_fields__) == tried | {"created_at", "params", "requester", "id"}


def test_what_has_expired_or_lasts_too_long_is_refused() -> None:
    assert judged(WANTED, ENOUGH, now="2026-03-07T00:00:00.000Z").reasons == ["request.expired"]
    assert "request.expired" in judged(WANTED, ENOUGH, now="2026-02-28T00:00:00.000Z").reasons
    for end, reason in (
        ("2026-03-08T00:00:00.001Z", "request.too-long"),
        (END, "request.too-long"),
        ("2026-02-28T00:00:00.000Z", "request.too-long"),
        ("never", "request.times"),
        ("2026-99-99T00:00:00.000Z", "request.times"),
        ("2026-03-07", "request.times"),
    ):
        wanted = request("label.lower", expires_at=end)
        assert reason in judged(wanted, acts(wanted, "sue", "sam")).reasons


def test_a_steward_who_is_revoked_between_approval_and_commit_does_not_count() -> None:
    for name, when in (("sue", LATER), ("sue", NOW)):
        keys = trusted(changed(FIRST, name, revoked_at=when), now=LATER)
        assert judged(WANTED, ENOUGH, keys, now=LATER).reasons == ["approvals.too-few"]
    later = trusted(changed(FIRST, "sue", revoked_at=LATER))
    assert judged(WANTED, ENOUGH, later, now=NOW).allow, "not revoked yet"
    people = [replace(p, steward_of=[KAW]) if p.id == "sue" else p for p in FIRST.people]
    assert judged(WANTED, ENOUGH, trusted(replace(FIRST, people=people))).reasons == ["approvals.too-few"]
    asks = trusted(changed(FIRST, "olli", revoked_at=NOW))
    assert judged(WANTED, ENOUGH, asks).reasons == ["requester.unsigned"]


def test_a_key_counts_only_while_it_is_valid_and_only_from_when_it_was() -> None:
    ended = trusted(changed(FIRST, "sam", valid_until=NOW))
    assert judged(WANTED, ENOUGH, ended).reasons == ["approvals.too-few"]
    begun = trusted(changed(FIRST, "sam", valid_from="2026-03-02T12:00:00.001Z"))
    assert judged(WANTED, ENOUGH, begun, now=LATER).reasons == ["approvals.too-few"]
    early = [*ENOUGH[:2], sign_act("approve", WANTED, signer("sam"), "2026-02-01T00:00:00.000Z")]
    assert judged(WANTED, early).reasons == ["approvals.too-few"], "signed before there was a request"
    ahead = [*ENOUGH[:2], sign_act("approve", WANTED, signer("sam"), LATER)]
    assert judged(WANTED, ahead).reasons == ["approvals.too-few"], "signed in the future"


def test_forged_signatures_are_as_none() -> None:
    good = ENOUGH[2]
    mallory = sign_act("approve", WANTED, signer("mallory"), NOW)
    forged = [
        mallory,
        replace(mallory, key=good.key),
        replace(good, signature=""),
        replace(good, signature="!"),
        replace(good, signature=b64encode(bytes(64)).decode()),
        replace(good, key=signer("stu").key_id),
        replace(good, signed_at="2026-03-02T11:00:00.000Z"),
        sign_act("approve", WANTED, signer("ledger"), NOW),
        sign_act("approve", WANTED, signer("prover"), NOW),
    ]
    for act in forged:
        assert judged(WANTED, [*ENOUGH[:2], act]).reasons == ["approvals.too-few"]
    asked = replace(ENOUGH[0], signature=ENOUGH[1].signature)
    assert judged(WANTED, [asked, *ENOUGH[1:]]).reasons == ["requester.unsigned"], "a name proves nothing"
    assert judged(WANTED, ENOUGH[1:]).reasons == ["requester.unsigned"]
    as_approval = replace(sign_act("reject", WANTED, signer("sam"), NOW), kind="approve")
    assert judged(WANTED, [*ENOUGH[:2], as_approval]).reasons == ["approvals.too-few"]
    assert judged(WANTED, [*forged, *ENOUGH]).allow, "nobody stops others with rubbish"


def test_somebody_else_does_not_ask_in_the_name_of_another() -> None:
    for name in ("otto", "stu", "sue", "kim-own"):
        asked = sign_act("request", WANTED, signer(name), NOW)
        assert judged(WANTED, [asked, *ENOUGH[1:]]).reasons == ["requester.unsigned"]


def test_a_key_of_a_community_is_no_key_of_its_holder_as_a_steward() -> None:
    listed = replace(
        FIRST, keys=[*FIRST.keys, key("sue-own", "sue", "community"), key("olli-own", "olli", "community")]
    )
    keys = trusted(listed)
    assert judged(WANTED, acts(WANTED, "sue-own", "sam"), keys).reasons == ["approvals.too-few"]
    assert judged(WANTED, acts(WANTED, "sue", "sam", requester="olli-own"), keys).reasons == ["requester.unsigned"]


def test_one_steward_who_says_no_ends_it() -> None:
    for name in ("stu", "sue"):
        no = sign_act("reject", WANTED, signer(name), NOW)
        assert judged(WANTED, [*ENOUGH, no]).reasons == ["request.rejected"]
        assert judged(WANTED, [no, *ENOUGH]).reasons == ["request.rejected"]
    for name in ("eve", "ada", "olli", "kim-own"):
        assert judged(WANTED, [*ENOUGH, sign_act("reject", WANTED, signer(name), NOW)]).allow, "not theirs to refuse"
    kaws = request("label.lower", custodian=KAW)
    enough = acts(kaws, "sue", "sam", *COMMUNITY)
    assert judged(kaws, enough).allow
    assert not judged(kaws, [*enough, sign_act("reject", kaws, signer("koa-own"), NOW)]).allow


def test_an_action_without_a_rule_is_refused() -> None:
    for change, reason in (
        ({"action": "delete.everything"}, "action.unknown"),
        ({"custodian": "nobody"}, "custodian.unknown"),
        ({"purpose": "  "}, "request.no-purpose"),
        ({"requester": "nobody"}, "requester.role"),
    ):
        wanted = request(**{"action": "label.lower", **change})
        signed = acts(wanted, "sue", "sam", requester="olli")
        assert reason in judged(wanted, signed).reasons


def test_without_a_key_list_there_are_public_data_only() -> None:
    assert judged(request("promote", custodian=""), [], None).allow
    assert judged(request("promote"), [], None).reasons == ["keys.none"]
    for action in LESS_SAFE:
        assert judged(request(action, custodian=""), [], None).reasons == ["keys.none"]
    assert not judged(request("freeze", custodian=""), [], None, used=("req-1",)).allow
