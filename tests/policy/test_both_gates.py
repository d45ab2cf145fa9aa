"""The gates before Work and Processed are decided in one evaluation, each about its own digest, and any doubt sends
both questions to be asked alone."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kfm.model.records import Decision
from kfm.model.zone_requests import StepUp
from kfm.policy.decision import Decider
from kfm.policy.policy_bundle import shipped
from kfm.policy.promotion_gate import both_gates, step_gate
from kfm.policy.questions import PolicyQuestion
from kfm.policy.rego_engines import Embedded, Unanswered
from tests.engine.site_under_test import Lines, MemorySite
from tests.policy.examples import example, paths

WORK, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def work(subject: str = WORK) -> dict[str, Any]:
    """The question about Work that belongs to the example about Processed."""
    question = example("to_processed")
    question["subjects"], question["step"] = [subject], {"from": "raw", "to": "work", "sealed": True}
    question["identity"]["version"] = question["checksums"]["manifest"] = subject
    return question


def typed(question: dict[str, Any]) -> PolicyQuestion | None:
    try:
        return msgspec.convert(question, PolicyQuestion)
    except msgspec.ValidationError:
        return None


def of(question: dict[str, Any]) -> PolicyQuestion:
    return msgspec.convert(question, PolicyQuestion)


def spoil(question: dict[str, Any], random_: random.Random) -> None:
    """Remove a part of a question, or put another text or number in a place of it."""
    path, old = random_.choice([item for item in paths(question) if item[0] != ("gate",)])
    here: Any = question
    for part in path[:-1]:
        here = here[part]
    if isinstance(old, str):
        here[path[-1]] = random_.choice(("", " ", "closed", "public", "never", "FAILED", "raw", WORK, OTHER))
    elif isinstance(old, int | float):
        here[path[-1]] = random_.choice((0, 1, 7))
    elif len(path) == 1 and path[0] != "subjects":
        del here[path[0]]


class Watched(Embedded):
    """The embedded engine; `change` may replace its answers about both gates."""

    def __init__(self, change: Callable[[Any], Any] = lambda answer: answer) -> None:
        super().__init__(shipped())
        self.change, self.asked = change, list[str]()

    def ask(self, gate: str, body: bytes) -> str:
        self.asked.append(gate)
        answer = super().ask(gate, body)
        return json.dumps(self.change(json.loads(answer))) if gate == "both" else answer


def test_generated_questions_are_a_yes_together_only_if_each_alone_is_a_yes() -> None:
    decider, random_ = Decider(Embedded(shipped()), shipped()), random.Random(27)
    seen = []
    for _ in range(300):
        pair = [work(), example("to_processed")]
        for question in pair:
            for _ in range(random_.choice((0, 0, 1, 2))):
                spoil(question, random_)
        both = [typed(question) for question in pair]
        if both[0] is None or both[1] is None:
            continue
        alone = [decider.decide(question) for question in both if question is not None]
        found = decider.allows_both(both[0], both[1])
        assert (found is not None) is all(one.allow and not one.obligations for one in alone), pair
        assert found is None or found == msgspec.structs.replace(alone[1], warnings=[])
        seen.append(found is not None)
    assert seen.count(True) > 30 and seen.count(False) > 30


def test_a_decision_is_never_reused_for_another_digest() -> None:
    answers: list[Any] = []

    def repeat(answer: Any) -> Any:
        answers.append(answer)
        return answers[0]

    decider = Decider(Watched(repeat), shipped())
    assert decider.allows_both(of(work()), of(example("to_processed"))) is not None
    for pair in ((of(work(OTHER)), of(example("to_processed"))), (of(work()), of(processed(OTHER)))):
        assert decider.allows_both(*pair) is None
    assert Decider(Embedded(shipped()), shipped()).allows_both(of(work(OTHER)), of(processed(OTHER))) is not None


def processed(subject: str) -> dict[str, Any]:
    question = example("to_processed")
    (old,) = question["subjects"]
    found: dict[str, Any] = json.loads(json.dumps(question).replace(old, subject))
    return found


BROKEN: dict[str, Callable[[Any], Any]] = {
    "the answer about Work is missing": lambda answer: {"processed": answer["processed"]},
    "the answer about Processed is missing": lambda answer: {"work": answer["work"]},
    "the answers are exchanged": lambda answer: {"work": answer["processed"], "processed": answer["work"]},
    "Work is refused": lambda answer: answer | {"work": answer["work"] | refused},
    "Processed is refused": lambda answer: answer | {"processed": answer["processed"] | refused},
    "yes and no at once": lambda answer: answer | {"work": answer["work"] | {"deny": refused["deny"]}},
    "a yes that is not literal": lambda answer: answer | {"work": answer["work"] | {"allow": 1}},
    "other policies": lambda answer: answer | {"work": answer["work"] | {"policy": "sha256:" + "0" * 64}},
    "an obligation": lambda answer: (
        answer | {"work": answer["work"] | {"obligations": [{"do": "mask", "resolution": 5}]}}
    ),
    "no object": lambda _answer: [],
}
refused = {"allow": False, "deny": [{"rule": "zone.step", "msg": "no"}]}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_an_answer_that_is_not_two_clean_yeses_opens_neither_gate(change: Callable[[Any], Any]) -> None:
    assert Decider(Watched(change), shipped()).allows_both(of(work()), of(example("to_processed"))) is None


class Failing(Watched):
    """Fails for questions about one zone, asked alone or with the other."""

    def __init__(self, zone: str) -> None:
        super().__init__()
        self.zone = zone.encode()

    def ask(self, gate: str, body: bytes) -> str:
        if gate == "both" or b'"to":"' + self.zone + b'"' in body:
            self.asked.append(gate)
            raise Unanswered("it is broken")
        return super().ask(gate, body)


@pytest.mark.parametrize("zone", ["work", "processed"])
def test_an_error_in_one_question_does_not_open_the_other(zone: str) -> None:
    site, engine = MemorySite(), Failing(zone)
    decider = Decider(engine, shipped())
    site.guards.step_gate = lambda step: step_gate(step, decider=decider)
    site.guards.both_gates = lambda work, made: both_gates(work, made, decider=decider)
    receipt = site.run(Lines())
    assert receipt.status == "FAILED" and site.state.refs.at("processed/demo") == ""
    assert f"nothing may go on to {zone.capitalize()}: engine: it is broken" in receipt.errors[0].message
    assert engine.asked == (["both", "zone"] if zone == "work" else ["both", "zone", "zone"])


def test_a_yes_about_another_version_does_not_open_processed() -> None:
    site, asked = MemorySite(), list[StepUp]()

    def both(_work: StepUp, made: StepUp) -> Decision:
        return Decision(gate="x", allow=True, subject=OTHER, policy_digest="")

    def alone(step: StepUp) -> Decision:
        asked.append(step)
        return step_gate(step)

    site.guards.both_gates, site.guards.step_gate = both, alone
    assert site.run(Lines()).outcome == "done"
    assert [step.to for step in asked] == ["work", "processed"]


def test_policies_of_an_installation_are_always_asked_alone() -> None:
    engine = Watched()
    own = msgspec.structs.replace(shipped(), has_own=True)
    assert Decider(engine, own).allows_both(of(work()), of(example("to_processed"))) is None
    assert engine.asked == []
