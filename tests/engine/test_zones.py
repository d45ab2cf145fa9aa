"""Every promotion to a higher zone passes a gate before anything is committed, and unsafe data stays below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kfm.errors import EXIT_CODES, Moved, Sovereignty
from kfm.model.records import Classification, Decision, Obligation, Receipt, SourceRef
from kfm.model.zone_requests import StepUp
from kfm.policy.policy_bundle import shipped
from kfm.policy.promotion_gate import step_gate
from kfm.telemetry.log import EventLog
from tests.engine.site_under_test import Lines, MemorySite

RESTRICTED = Classification(level="restricted", custodians=("museum",), rules=("label.sensitivity",))


class Labelled(Lines):
    """Its source has a standing, and is sealed or not."""

    def __init__(self, standing: Classification, sealed_with: str = "") -> None:
        super().__init__()
        self.said: dict[str, Any] = {"standing": standing, "sealed_with": sealed_with}

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [msgspec.structs.replace(source, **self.said) for source in super().inputs(trigger, sources)]


def watched(site: MemorySite) -> list[tuple[StepUp, Decision]]:
    found: list[tuple[StepUp, Decision]] = []

    def gate(step: StepUp) -> Decision:
        decision = step_gate(step)
        found.append((step, decision))
        return decision

    site.guards.step_gate = gate
    return found


def test_a_plain_run_is_asked_about_twice_and_its_receipt_is_as_before() -> None:
    site = MemorySite()
    asked = watched(site)
    receipt = site.run(Lines())
    assert receipt.outcome == "done" and receipt.policy_decisions == []
    assert [(step.to, decision.allow) for step, decision in asked] == [("work", True), ("processed", True)]
    assert asked[1][0].subject == site.state.refs.at("processed/demo")


def test_a_run_without_title_licence_or_sensitivity_goes_up_with_warnings_and_is_not_published() -> None:
    site = MemorySite()
    site.metadata = {}
    asked = watched(site)
    assert site.run(Lines()).outcome == "done"
    assert {"metadata: title is not declared", "licence: license is not declared"} <= set(asked[1][1].warnings)
    assert site.operate("promote").outcome == "denied"


@pytest.mark.parametrize(
    ("metadata", "updater"),
    [
        ({}, Labelled(RESTRICTED)),
        ({"sensitivity": "public"}, Labelled(Classification(level="closed"))),
    ],
    ids=["restricted and not sealed", "a closed source under a public name"],
)
def test_what_is_unsafe_does_not_go_up_and_the_ledger_says_so(metadata: dict[str, str], updater: Lines) -> None:
    site = MemorySite()
    site.metadata = metadata
    receipt = site.run(updater)
    assert receipt.outcome == "escalated" and receipt.errors[0].code == "denied.sovereignty"
    assert Sovereignty.exit_code == EXIT_CODES["sovereignty"] == 7 != EXIT_CODES["denied"]
    (decision,) = receipt.policy_decisions
    assert decision.allow is False and decision.id.startswith("decision-") and decision.rules
    assert decision.policy_digest == shipped().digest and decision.engine == "embedded"
    assert site.state.refs.at("processed/demo") == ""
    assert [entry.outcome for entry in site.state.ledger.entries()] == ["escalated"]


def test_what_is_restricted_and_sealed_goes_to_processed_and_its_decisions_are_kept() -> None:
    site = MemorySite()
    site.metadata = {}
    asked = watched(site)
    receipt = site.run(Labelled(RESTRICTED, sealed_with="key-1"))
    assert [(one.gate, one.allow) for one in receipt.policy_decisions][:1] == [("work.checklist", True)]
    assert asked[0][0].standing == RESTRICTED


def test_what_changed_while_it_was_decided_is_not_committed() -> None:
    for now in (("sha256:" + "0" * 64, 0), (shipped().digest, 7)):
        site = MemorySite()
        site.guards.rules = lambda now=now: now  # type: ignore[misc]
        with pytest.raises(Moved, match="policies or labels changed"):
            site.run(Lines())
        assert site.state.refs.at("processed/demo") == ""
    site = MemorySite()
    site.guards.rules = lambda: (shipped().digest, 0)
    assert site.run(Lines()).outcome == "done" and site.operate("promote").outcome == "done"


DUTIES: Sequence[Obligation] = (
    Obligation(do="mask", resolution=7),
    Obligation(do="withhold", field="trinomial"),
    Obligation(do="throttle", per_minute=60),
)


@pytest.mark.parametrize("duty", DUTIES, ids=lambda duty: duty.do)
def test_an_obligation_that_cannot_be_obeyed_denies(duty: Obligation) -> None:
    site = MemorySite()
    site.run(Lines())

    def gate(_state: Any, _objects: Any, move: Any, **_: Any) -> Decision:
        return Decision(gate="x", allow=True, subject=move.after, policy_digest="", obligations=[duty])

    site.guards.gate = gate
    receipt: Receipt = site.operate("promote")
    assert receipt.outcome == "escalated" and site.state.refs.at("published/demo") == ""


def test_the_log_line_and_the_receipt_name_the_same_decision() -> None:
    site = MemorySite()
    events: list[dict[str, Any]] = []
    site.world.log = EventLog(site.clock, events.append)
    site.run(Lines())
    (decision,) = site.operate("promote").policy_decisions
    (line,) = [event for event in events if event["event"] == "gate.decided"]
    assert (line["decision_id"], line["policy_digest"]) == (decision.id, decision.policy_digest)
    assert decision.id.startswith("decision-") and line["allow"] is True and decision.subjects == [decision.subject]
