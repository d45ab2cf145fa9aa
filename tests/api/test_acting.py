"""Acting over HTTP: what is requested, signed elsewhere and carried out by `kfm up`, exactly once."""

from __future__ import annotations

import pytest

from tests.api.desk import GAUGES, OPERATIONS, Desk
from tests.api.listed import Listed
from tests.kept import once


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


def test_a_login_alone_is_refused_and_ledgered(desk: Desk) -> None:
    at = desk.published()
    body = {"operation": "rollback", "dataset": GAUGES, "to": "nothing", "reason": "a test"}
    answer = desk.post(OPERATIONS, "olli", body)
    assert (answer.status, answer.data["code"]) == (403, "signature.missing"), answer.body
    assert "dry_run" in answer.data["detail"]
    last = desk.ledger()[-1]
    assert (last.kind, last.outcome) == ("rollback", "denied") and "a login is none" in last.message
    assert desk.up() == [] and desk.published() == at
