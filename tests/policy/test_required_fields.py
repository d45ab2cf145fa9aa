"""Every required field removed, nulled or retyped, singly and pairwise, is a no: at the decision point without
exception, and in the policies alone wherever the gate itself reads the field."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from kfm.policy.decision import decide
from kfm.policy.policy_bundle import shipped
from kfm.policy.rego_engines import Embedded
from tests.policy.examples import EXAMPLES, TOLERATED, Change, changes, example, is_tolerated
from tests.sampling import sampled

# What a part of a question holds for other gates: the types ask for it, this gate's rules do not look at it.
NOT_READ = {
    "serve": {"identity/title"},
    "faircare": {
        *("licence/known", "licence/checked", "licence/redistribution", "licence/checked_by"),
        *(f"provenance/{name}" for name in ("run_id", "updater", "updater_version", "plan_hash")),
        *(f"provenance/{name}" for name in ("input_hash", "code_hash", "attestation", "tools")),
    },
    "telemetry": {
        *("identity/dataset", "identity/title", "provenance/inputs", "provenance/updater"),
        *(
            f"provenance/{name}"
            for name in ("updater_version", "plan_hash", "input_hash", "code_hash", "attestation", "tools")
        ),
    },
    # Into Work goes what is known by its bytes, origin and label; the rest is asked of what is made from it.
    "from_quarantine": {
        *("identity/title", "review/at"),
        *(f"provenance/{name}" for name in ("run_id", "updater", "updater_version", "plan_hash")),
        *(f"provenance/{name}" for name in ("input_hash", "code_hash", "attestation", "tools")),
    },
}
NOT_READ["operation"] = NOT_READ["faircare"]
# The one thing neither asked for by the types nor read by the gate: that there are inputs is not telemetry's matter.
NOT_REQUIRED = {("telemetry", ("provenance", "inputs", 0), "removed")}
PARTS = 20


def _is_read(name: str, change: Change) -> bool:
    if is_tolerated(name, change.path):
        return False
    place = "/".join(map(str, change.path))
    return not any(place == other or place.startswith(f"{other}/") for other in NOT_READ.get(name, ()))


def required(name: str) -> list[Change]:
    return [
        change
        for change in changes(example(name))
        if (name, change.path, change.kind) not in NOT_REQUIRED and not is_tolerated(name, change.path)
    ]


def denied(question: dict[str, Any]) -> bool:
    decision = decide(question)
    assert bool(decision.reasons) is (decision.allow is not True)
    return decision.allow is False


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_required_field_that_is_missing_or_odd_denies(name: str) -> None:
    tried = required(name)
    open_ = []
    for change in tried:
        question = example(name)
        assert change.apply(question)
        if not denied(question):
            open_.append(change)
    assert not open_ and len(tried) > 40


@pytest.mark.parametrize("name", TOLERATED)
def test_what_may_be_missing_is_never_missing_in_silence(name: str) -> None:
    whole, warned = set(decide(example(name)).warnings), 0
    for change in changes(example(name)):
        if is_tolerated(name, change.path):
            question = example(name)
            change.apply(question)
            decision = decide(question)
            assert decision.allow is False or set(decision.warnings) - whole, change
            warned += decision.allow
    assert warned > (1 if name == "from_quarantine" else 5)


@pytest.mark.parametrize("part", sampled(range(PARTS + 1)))
@pytest.mark.parametrize("name", sampled(EXAMPLES, every=2))
def test_each_pair_of_them_denies(name: str, part: int) -> None:
    pairs = list(itertools.combinations(required(name), 2))
    random.Random(22).shuffle(pairs)
    mine = pairs[part - 1 :: PARTS] if part else pairs[:400]
    tried = 0
    for first, second in mine:
        question = example(name)
        # The deeper one first: what it changes may be gone with the other.
        for change in sorted((first, second), key=lambda change: -len(change.path)):
            change.apply(question)
        tried += 1
        assert denied(question), (first, second)
    assert tried >= 300


def allows(engine: Embedded, name: str, question: dict[str, Any]) -> bool:
    """What the policy alone says, whatever the types would say of the question."""
    try:
        verdict = json.loads(engine.ask(EXAMPLES[name], json.dumps(question | {"question": "x"}).encode()))
    except (RuntimeError, ValueError):
        return False
    return isinstance(verdict, dict) and verdict["allow"] is not False


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_policies_alone_deny_what_they_read(name: str) -> None:
    engine = Embedded(shipped())
    assert allows(engine, name, example(name))
    open_, tried = [], 0
    for change in changes(example(name)):
        if change.path == ("gate",) or not _is_read(name, change):
            continue
        question = example(name)
        change.apply(question)
        tried += 1
        if allows(engine, name, question):
            open_.append(change)
    assert not open_ and tried > 50


@pytest.mark.parametrize("name", sampled(EXAMPLES, every=2))
def test_every_rule_of_a_gate_is_broken_by_some_change(name: str) -> None:
    """A rule that no missing field breaks would be one that nobody needs, or that cannot say no."""
    engine = Embedded(shipped())
    broken: set[str] = set()
    for change in changes(example(name)):
        question = example(name)
        change.apply(question)
        try:
            verdict = json.loads(engine.ask(EXAMPLES[name], json.dumps(question | {"question": "x"}).encode()))
        except (RuntimeError, ValueError):
            continue
        if isinstance(verdict, dict):
            broken |= {reason["rule"] for reason in verdict["deny"]}
    text = dict(shipped().files)[f"{EXAMPLES[name]}.rego"]
    rules = {
        line.split('"')[1] for line in text.partition("rules := {")[2].partition("\n}")[0].splitlines() if '"' in line
    }
    unread = {
        "to_processed": {"zone.released"},
        "faircare": {"care.duties"},
        "zone": {"zone.released"},
        "minimum": {"metadata.public"},
    }
    assert rules - broken <= unread.get(name, set()) and len(rules) >= 4
