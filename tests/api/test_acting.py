"""Acting over HTTP: what is requested, signed elsewhere and carried out by `kfm up`, exactly once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.app.authority.keyring import signer_at
from kfm.app.runs.change_requests import operate
from kfm.app.runs.queries import held_sources
from kfm.app.runs.run_control import resume_runs
from kfm.app.stewards import key_changes
from kfm.app.stewards.key_changes import KeyRequest
from kfm.crypto.approvals import ApprovalRequest, sign_act
from kfm.crypto.change_request import identified
from tests.api.asking import Reply
from tests.api.desk import GAUGES, OPERATIONS, Desk
from tests.api.listed import Listed
from tests.kept import once

DAY_MS = 86_400_000


@pytest.fixture
def desk(listed: Listed) -> Desk:
    once("desk", [listed.folder], lambda: Desk(listed))
    return Desk(listed)


def test_a_promotion_is_asked_for_signed_by_two_people_and_carried_out(desk: Desk) -> None:
    at = desk.published()
    shown = desk.preview("olli", "rollback", to="nothing")
    assert shown["moves"] == [{"ref": f"published/{GAUGES}", "before": at, "after": "nothing"}]
    assert shown["allowed"] and shown["needs"] == ["the signature of olli, who asks for it"]
    answer = desk.ask("olli", "rollback", to="nothing")
    assert answer.status == 202 and answer.headers["location"] == answer.data["see"], answer.body
    assert desk.published() == at and desk.get(answer.data["see"])["state"] == "waiting"
    assert [each.outcome for each in desk.up()] == ["done"] and not desk.published()
    done = desk.get(answer.data["see"])
    assert (done["state"], done["outcome"], done["exit_code"], done["actor"]) == ("done", "done", 0, "olli")

    shown = desk.preview("olli", "promote", to=at)
    assert shown["needs"] == ["the signature of olli, who asks for it", "one steward (sam, sue)"]
    asked = desk.ask("olli", "promote", to=at)
    assert asked.status == 202, asked.body
    order = asked.data["change_request"]
    assert [each.job_type for each in desk.up()] == ["operation.request"] and not desk.published()
    request = desk.get(f"/v1/requests/{order}", "sue")
    assert (request["state"], request["requester"], request["needs"]) == ("open", "olli", ["one steward (sam, sue)"])
    approved = desk.decide("sue", "approve", order)
    assert approved.status == 202, approved.body
    assert [each.job_type for each in desk.up()] == ["operation.approve", "operation.promote"]
    assert desk.published() == at and desk.get(f"/v1/requests/{order}")["state"] == "used"
    assert desk.get(approved.data["see"])["outcome"] == "done" and desk.up() == []


# -- what is refused, and stays in the ledger


def refused(desk: Desk, answer: Reply, code: str, kind: str, *, status: int = 403) -> None:
    """The answer says so, the ledger does, and nothing waits for `kfm up`."""
    assert (answer.status, answer.data["code"]) == (status, code), answer.body
    last = desk.ledger()[-1]
    assert last.kind == kind and last.outcome in ("denied", "failed") and last.message, last
    assert last.message.partition(";")[0] in answer.data["detail"]
    assert desk.up() == []


def test_a_login_alone_is_refused_and_ledgered(desk: Desk) -> None:
    at = desk.published()
    body = {"operation": "rollback", "dataset": GAUGES, "to": "nothing", "reason": "a test"}
    answer = desk.post(OPERATIONS, "olli", body)
    refused(desk, answer, "signature.missing", "rollback")
    assert "dry_run" in answer.data["detail"] and desk.published() == at


def test_a_signature_counts_once(desk: Desk) -> None:
    request = desk.preview("olli", "freeze")["to_sign"]["request"]
    assert desk.send("olli", "freeze", GAUGES, request).status == 202
    assert [each.outcome for each in desk.up()] == ["done"]
    refused(desk, desk.send("olli", "freeze", GAUGES, request), "request.used", "freeze")
    assert [each.kind for each in desk.ledger()].count("freeze") == 2


@pytest.mark.long
def test_an_approval_counts_once(desk: Desk) -> None:
    order = asked_for(desk)
    assert desk.decide("sue", "reject", order).status == 202
    desk.up()
    assert desk.get(f"/v1/requests/{order}")["state"] == "rejected"
    refused(desk, desk.decide("sam", "approve", order), "request.rejected", "approve")
    assert not desk.published()


def asked_for(desk: Desk) -> str:
    """A change request for the promotion of a version that was withdrawn: it needs one steward."""
    at = desk.published()
    assert desk.ask("olli", "rollback", to="nothing").status == 202
    order = ""
    assert desk.up()
    answer = desk.ask("olli", "promote", to=at)
    order = answer.data["change_request"]
    assert answer.status == 202 and order and desk.up()
    return str(order)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"purpose": "something else"}, "request.changed"),  # its id is that of other words
        pytest.param({"after": "sha256:" + "0" * 64}, "request.changed", marks=pytest.mark.long),
        pytest.param({"dataset": "elsewhere"}, "request.changed", marks=pytest.mark.long),
        pytest.param({"requester": "sue"}, "request.person", marks=pytest.mark.long),
    ],
)
def test_a_changed_request_is_refused(desk: Desk, changed: dict[str, str], code: str) -> None:
    request = desk.preview("olli", "rollback", to="nothing")["to_sign"]["request"]
    answer = desk.send("olli", "rollback", GAUGES, {**request, **changed}, to="nothing")
    refused(desk, answer, code, "rollback")
    assert desk.published()


def test_a_signature_over_other_words_than_were_sent_is_refused(desk: Desk) -> None:
    request = desk.preview("olli", "rollback", to="nothing")["to_sign"]["request"]
    other = desk.preview("olli", "rollback", to="nothing", reason="another one")["to_sign"]["request"]
    signed = {"request": other, **desk.signed("olli", request)}
    body = {"operation": "rollback", "dataset": GAUGES, "to": "nothing", "reason": "a test", "signed": signed}
    refused(desk, desk.post(OPERATIONS, "olli", body), "requester.unsigned", "rollback")


@pytest.mark.long
def test_a_key_that_was_revoked_signs_nothing(desk: Desk) -> None:
    with desk.site.session() as session:
        wanted = KeyRequest(person="olli", roles=["operator"], custodians=[], purpose="act", days=365)
        signers = [signer_at(desk.site.key("ada"))]
        made = key_changes.new_key(session, wanted, desk.site.key("olli-2"), signers, actor="x", reason="a test")
        assert made.receipt.status == "SUCCESS"
    request = desk.preview("olli", "rollback", to="nothing")["to_sign"]["request"]
    desk.site.revoke_key("olli")  # the token goes on, because olli has another key
    answer = desk.send("olli", "rollback", GAUGES, request, to="nothing")
    refused(desk, answer, "signature.key", "rollback")


def test_the_key_of_another_person_than_who_signed_in_signs_nothing(desk: Desk) -> None:
    request = desk.preview("olli", "rollback", to="nothing")["to_sign"]["request"]
    answer = desk.send("olli", "rollback", GAUGES, request, to="nothing", signer="sue")
    refused(desk, answer, "signature.person", "rollback")
    order = asked_for(desk)
    refused(desk, desk.decide("olli", "approve", order, signer="sue"), "signature.person", "approve")
    refused(desk, desk.decide("olli", "approve", order), "signature.role", "approve")


def test_a_request_that_has_expired_is_refused_and_ends(desk: Desk) -> None:
    order = asked_for(desk)
    request = desk.preview("olli", "freeze")["to_sign"]["request"]
    desk.site.clock.advance(8 * DAY_MS)
    refused(desk, desk.send("olli", "freeze", GAUGES, request), "request.expired", "freeze")
    answer = desk.decide("sue", "approve", order)
    assert (answer.status, answer.data["code"]) == (403, "request.expired")
    assert [each.kind for each in desk.ledger()[-2:]] == ["approve", "expire"]
    assert desk.get(f"/v1/requests/{order}")["state"] == "expired" and not desk.published()


def test_a_request_about_other_levels_is_refused(desk: Desk) -> None:
    desk_request = desk.preview("olli", "rollback", to="nothing")["to_sign"]["request"]
    params = {**desk_request["params"], "levels": f"{GAUGES}: restricted → public"}
    with_levels = identified_again({**desk_request, "params": params})
    refused(desk, desk.send("olli", "rollback", GAUGES, with_levels, to="nothing"), "levels.changed", "rollback")


def identified_again(request: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(identified(msgspec.convert(request, ApprovalRequest)))
    return found


@pytest.mark.long
def test_the_request_of_another_server_is_refused(desk: Desk, tmp_path: Path) -> None:
    """It has other people: their keys are not listed here, or their versions never were."""
    request = desk.preview("olli", "rollback", to="nothing")["to_sign"]["request"]
    foreign = identified_again({**request, "before": "sha256:" + "1" * 64})
    refused(desk, desk.send("olli", "rollback", GAUGES, foreign, to="nothing"), "ref.moved", "rollback", status=409)
    stranger = tmp_path / "stranger.key"
    stranger.write_text("11" * 32)
    stranger.chmod(0o600)
    made = sign_act(
        "request", msgspec.convert(request, ApprovalRequest), signer_at(str(stranger)), request["created_at"]
    )
    signed = {"request": request, "key": made.key, "at": made.signed_at, "signature": made.signature}
    body = {"operation": "rollback", "dataset": GAUGES, "to": "nothing", "reason": "a test", "signed": signed}
    refused(desk, desk.post(OPERATIONS, "olli", body), "signature.key", "rollback")


def test_who_is_no_operator_requests_no_run(desk: Desk) -> None:
    body = {"operation": "run", "dataset": GAUGES, "reason": "a test"}
    refused(desk, desk.post(OPERATIONS, "sue", body), "requester.role", "pull_source")
    assert desk.post(OPERATIONS, "vic", body).status == 404, "a viewer changes nothing"
    answer = desk.post(OPERATIONS, "olli", body)
    assert answer.status == 202 and desk.get(answer.data["see"])["kind"] == "manual"


def test_a_ref_that_moved_meanwhile_is_not_moved_again(desk: Desk) -> None:
    """By the dry run, by the signed request, and by what waited."""
    at = desk.published()
    first = desk.ask("olli", "rollback", to="nothing")
    desk.site.clock.advance(1000)
    waiting = desk.ask("olli", "rollback", to="nothing")
    assert first.status == waiting.status == 202
    desk.site.clock.advance(1000)
    request = desk.preview("olli", "rollback", to="nothing")["to_sign"]["request"]
    assert [(each.status, each.errors[0].code if each.errors else "") for each in desk.up()] == [
        ("SUCCESS", ""), ("FAILED", "ref.moved"),
    ]  # fmt: skip
    done = desk.get(waiting.data["see"])
    assert (done["outcome"], done["exit_code"]) == ("failed", 6) and "has moved since" in done["words"]
    refused(desk, desk.send("olli", "rollback", GAUGES, request, to="nothing"), "ref.moved", "rollback", status=409)
    body = {"operation": "promote", "dataset": GAUGES, "to": at, "reason": "a test", "before": at, "dry_run": True}
    answer = desk.post(OPERATIONS, "olli", body)
    assert (answer.status, answer.data["code"]) == (409, "ref.moved")


# -- one effect


def test_the_same_key_has_one_effect_and_one_answer(desk: Desk) -> None:
    request = desk.preview("olli", "rollback", to="nothing")["to_sign"]["request"]
    signed = {"request": request, **desk.signed("olli", request)}
    body = {"operation": "rollback", "dataset": GAUGES, "to": "nothing", "reason": "a test", "signed": signed}
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: desk.post(OPERATIONS, "olli", body, key="once"), range(20)))
    assert {each.status for each in found} == {202} and len({each.body for each in found}) == 1
    (receipt,) = desk.up()
    assert receipt.correlation_id in {each.headers["x-correlation-id"] for each in found}, "from request to receipt"
    again = desk.post(OPERATIONS, "olli", body, key="once")
    assert (again.status, again.body) == (202, found[0].body), "also after it was carried out"
    other = desk.post(OPERATIONS, "olli", {**body, "reason": "another"}, key="once")
    assert (other.status, other.data["code"]) == (422, "idempotency.reused")
    assert [each.kind for each in desk.ledger()].count("rollback") == 1 and desk.up() == []


@pytest.mark.long
def test_twenty_requests_at_once_for_one_move_have_one_effect(desk: Desk) -> None:
    request = desk.preview("olli", "freeze")["to_sign"]["request"]
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: desk.send("olli", "freeze", GAUGES, request), range(20)))
    assert {each.status for each in found} <= {202, 403, 409} and 202 in {each.status for each in found}
    ended = desk.up()
    assert [each.status for each in ended].count("SUCCESS") == 1
    with desk.site.session() as session:
        assert len(list(session.state.refs.history(f"switch/dataset/{GAUGES}"))) == 1


def test_a_key_is_needed_and_has_a_limit(desk: Desk) -> None:
    body = {"operation": "run", "dataset": GAUGES}
    for key in ("", " ", "x" * 256, "a\tb"):
        answer = desk.post(OPERATIONS, "olli", body, key=key)
        assert (answer.status, answer.data["code"]) == (400, "idempotency.key")
    assert desk.post(OPERATIONS, "olli", {**body, "dry_run": True}, key="").status == 200


@pytest.mark.long
def test_a_frozen_promotion_is_carried_out_after_the_thaw(desk: Desk) -> None:
    order = asked_for(desk)
    assert desk.ask("olli", "freeze").status == 202 and desk.up()
    assert desk.decide("sue", "approve", order).status == 202
    assert [each.outcome for each in desk.up()] == ["done", "frozen"] and not desk.published()
    with desk.site.session() as session:
        operate(session, "thaw", GAUGES, {"scope": GAUGES}, signer=signer_at(desk.site.key("olli")), reason="over")
    thaw = next(each for each in desk.get("/v1/requests")["requests"] if each["action"] == "thaw")
    assert desk.decide("sue", "approve", thaw["id"]).status == 202
    desk.site.clock.advance(DAY_MS // 24)
    ended = [(each.job_type, each.outcome) for _ in range(2) for each in desk.up()]
    assert ("operation.thaw", "done") in ended and ended[-1] == ("operation.promote", "done"), ended
    assert desk.published()


def test_a_body_with_a_mistake_is_told_where(desk: Desk) -> None:
    for body, said in (
        ({"operation": "promot", "dataset": GAUGES}, "promot"),
        ({"operation": "run"}, "dataset"),
        ({"operation": "run", "dataset": GAUGES, "too": 1}, "too"),
        ({"operation": "freeze", "dataset": GAUGES, "to": "x"}, "leave `to` out"),
        ({"operation": "promote", "dataset": "global", "reason": "x"}, "one dataset"),
        ({"operation": "rollback", "dataset": GAUGES, "to": "nothing"}, "reason"),
        ({"operation": "promote", "dataset": GAUGES, "force": True}, "run"),
        ({"operation": "run", "dataset": GAUGES, "force": True}, "reason"),
    ):
        answer = desk.post(OPERATIONS, "olli", body)
        assert answer.status == 400 and said in answer.data["detail"], answer.body
    assert desk.post(OPERATIONS, "olli", {"operation": "run", "dataset": "no-such"}).status == 404
    assert desk.get("/v1/requests", "sue")["requests"] == [] and desk.up() == []


def test_quarantined_rows_are_decided_by_a_run_that_reads_them_again(desk: Desk) -> None:
    path, body = f"/v1/quarantine/{GAUGES}/review", {"reason": "corrected"}
    source = desk.site.folder / "data" / "rain_gauges.csv"
    with desk.site.session() as session:
        assert [each["held_rows"] for each in held_sources(session, GAUGES)] == [1], "a row below zero"
    refused(desk, desk.post(path, "sue", body), "requester.role", "pull_source")
    source.write_text(source.read_text().replace(",-1\n", ",1\n"))
    answer = desk.post(path, "olli", body)
    assert answer.status == 202 and "no request releases a row" in answer.data["note"], answer.body
    with desk.site.session() as session:
        list(resume_runs(session))
        assert not held_sources(session, GAUGES)
    assert desk.get(answer.data["see"])["outcome"] == "done"
    again = desk.post(path, "olli", body)
    assert (again.status, again.data["code"]) == (422, "refused") and "quarantined" in again.data["detail"]


# -- what may be shown


def test_of_data_that_is_not_plainly_public_nothing_but_who_must_sign_is_shown(desk: Desk) -> None:
    config = desk.site.folder / "kfm.yml"
    assert "sensitivity: public" in config.read_text()
    at, order = desk.published(), asked_for(desk)
    config.write_text(config.read_text().replace("sensitivity: public", "sensitivity: restricted"))
    found = desk.get(f"/v1/requests/{order}", "sue")
    assert found["is_withheld"] and found["request"] is None and found["moves"] == [] and found["reason"] == ""
    assert f"kfm review show {order}" in found["see"] and found["needs"]
    body = {"operation": "promote", "dataset": GAUGES, "reason": "a test", "dry_run": True}
    answer = desk.post(OPERATIONS, "olli", body)
    assert answer.status == 422 and "withdrawn" not in answer.data["detail"], "nor what a command would say"
    shown = desk.preview("olli", "promote", to=at)
    assert shown["is_withheld"] and shown["to_sign"] is None and shown["files"] == [] and not shown["allowed"]
    assert all(" " not in reason for reason in shown["reasons"]), "rules, no texts"
    for path in ("/v1/requests", f"/v1/requests/{order}", "/v1/triggers/000000000001"):
        for who in ("vic", ""):
            assert desk.served.get(path, desk.site.tokens.get(who)).status == 404
