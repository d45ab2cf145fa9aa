"""The engine in this process and a real OPA give the same verdict, and a real OPA that is stopped or stale denies."""

from __future__ import annotations

import copy
import itertools
import json
import os
import random
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import regorus
from msgspec.structs import replace

from kfm.policy.decision import decide, over_http
from kfm.policy.policy_bundle import policies, shipped
from kfm.policy.rego_engines import Embedded, Opa, Unanswered, same_policies
from tests.policy.examples import EXAMPLES, ROOT, TOLERATED, changes, example, paths
from tests.policy.servers import Server, opa_on, real_opa
from tests.sampling import sampled

PARTS = 20
EACH = 500  # 10,000 in all
# Things that stand in questions, valid in one place and not in another.
WORDS: list[Any] = [
    *(
        "",
        " ",
        "public",
        "generalised",
        "restricted",
        "open",
        "community",
        "sacred",
        "closed",
        "never",
        "approved",
        "SUCCESS",
        "FAILED",
    ),
    *(
        "raw",
        "work",
        "processed",
        "published",
        "quarantine",
        "promote",
        "rollback",
        "freeze",
        "thaw",
        "loosen",
        "force",
    ),
    *("operator", "steward", "admin", "single", "viewer", "ada", "grace", "unknown", "NOASSERTION", "sha256", "md5"),
    *("sha256:" + "a" * 64, "sha256:" + "b" * 64, "sha256:" + "a" * 63, "\u00e9\u00a0", "\u2003", "\U0001f3fa"),
    *(0, 1, -1, 7, 15, 16, 0.1, 0.05, 0.1000001, 1e300, -1e-300, 1767323045000, 1767323044999, 1798675200000),
    *(2**53, 2**63, 2**64 + 1, 10**30, True, False, None, [], {}, [[]], [None]),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with real_opa(shipped(), tmp_path_factory.mktemp("opa")) as found:
        yield found


def verdict(engine: Embedded | Opa, gate: str, question: dict[str, Any]) -> Any:
    body = json.dumps(question | {"question": "x"}).encode()
    try:
        return json.loads(engine.ask(gate, body))
    except (Unanswered, RuntimeError, ValueError):
        return None


def plain(found: Any) -> Any:
    """Sets have no order. The echo of what was asked is decide()'s matter: integers past 2^53, which its types refuse,
    come back rounded from one of them."""
    if not isinstance(found, dict):
        return found
    found = {name: value for name, value in found.items() if name != "subjects"}
    lists = ("deny", "warn", "obligations")
    return found | {name: sorted(found[name], key=lambda item: json.dumps(item, sort_keys=True)) for name in lists}


def compare(server: Server, gate: str, question: dict[str, Any]) -> bool | None:
    """What both say; None: neither has a verdict."""
    ours = verdict(Embedded_, gate, question)
    theirs = verdict(Opa(server.url, timeout_s=30), gate, question)
    if ours is None or theirs is None or not isinstance(ours, dict):
        # Without `subjects` OPA has no result, and the engine here says that it is undefined.
        assert not isinstance(theirs, dict) or theirs["allow"] is False, (question, theirs)
        assert not isinstance(ours, dict) or ours["allow"] is False, (question, ours)
        return None
    assert plain(ours) == plain(theirs), question
    assert (ours["allow"] is True) is (ours["deny"] == [])
    return ours["allow"] is True


Embedded_ = Embedded(shipped())


def generated(random_: random.Random) -> tuple[str, dict[str, Any]]:
    """An example with a few things in it exchanged, removed, or set to what stands elsewhere in questions."""
    name = random_.choice(list(EXAMPLES))
    question = example(name)
    for _ in range(random_.choice((0, 1, 1, 1, 2, 3))):
        if random_.random() < 0.3:
            random_.choice(changes(question)).apply(question)
            continue
        path, _old = random_.choice(list(paths(question)))
        here: Any = question
        for part in path[:-1]:
            here = here[part]
        other = random_.choice(WORDS) if random_.random() < 0.7 else random_.choice(list(paths(question)))[1]
        here[path[-1]] = copy.deepcopy(other)
    return EXAMPLES[name], question


@pytest.mark.parametrize("part", sampled(range(PARTS)))
def test_generated_questions_get_the_same_verdict(part: int, server: Server) -> None:
    random_ = random.Random(part)
    seen = [compare(server, *generated(random_)) for _ in range(EACH)]
    assert seen.count(True) > EACH // 20 and seen.count(False) > EACH // 4


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_gets_the_same_decision(name: str, server: Server) -> None:
    ours, theirs = decide(example(name)), over_http(server.url).decide(example(name))
    assert theirs.allow is True and theirs.engine == "opa"
    assert (theirs.id, theirs.obligations) == (ours.id, ours.obligations)
    assert compare(server, EXAMPLES[name], example(name)) is True


def test_a_server_that_is_stopped_denies_and_is_asked_again_when_it_goes_on(server: Server) -> None:
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        stopped = over_http(server.url, timeout_s=0.3).decide(example("promotion"))
        assert stopped.allow is False and stopped.reasons == ["engine: the policy server is too slow"]
        assert decide(example("promotion")).allow is True
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    assert over_http(server.url, timeout_s=30).decide(example("promotion")).allow is True


def test_a_server_with_other_policies_denies(server: Server) -> None:
    newer = policies({name: text + "\n# newer\n" for name, text in shipped().files})
    decision = over_http(server.url, policies=newer).decide(example("promotion"))
    assert decision.allow is False and decision.rules == ["engine.stale"]


def test_a_server_started_on_the_folder_of_the_policies_is_believed_and_one_with_other_policies_is_not() -> None:
    with opa_on(str(ROOT / "policies")) as folder:
        for gate in EXAMPLES:
            mine = decide(example(gate))
            assert over_http(folder.url, timeout_s=30).decide(example(gate)) == replace(mine, engine="opa")
        newer = policies({name: text.replace("public", "pub1ic") for name, text in shipped().files})
        denied = over_http(folder.url, timeout_s=30, policies=newer).decide(example("promotion"))
    assert denied.allow is False and denied.reasons == [
        "engine: the policy server has other policies: `kfm policy bundle` writes those in force"
    ]


TEXTS = [text for _, text in shipped().files]


@pytest.mark.parametrize(
    ("texts", "same"),
    [
        (TEXTS, True),
        (["# ours\n\n" + text for text in reversed(TEXTS)], True),
        ([*TEXTS, "package kfm.promotion_test\n\ntest_it if true\n"], True),
        ([*TEXTS, "package elsewhere\n"], True),
        (TEXTS[1:], False),
        ([*TEXTS, "package kfm\n\npromotion.allow := true\n"], False),
        ([*TEXTS, "package kfm.promotion\n\nholds.more := true\n"], False),
        ([*TEXTS, "package kfm.promotion.verdict\n\nallow := true\n"], False),
        ([*TEXTS, 'package kfm["promotion"]\n\nallow := true\n'], False),
        ([*TEXTS[1:], TEXTS[0] + "\nallow := true\n"], False),
    ],
)
def test_policies_are_compared_by_their_rules_and_not_by_names_or_comments(texts: list[str], same: bool) -> None:
    assert same_policies(texts, shipped()) is same


def test_a_server_without_the_policy_denies(server: Server) -> None:
    decision = over_http(server.url + "/v1/data/nothing").decide(example("promotion"))
    assert decision.allow is False and decision.reasons[0].startswith("engine: ")


COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in")


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_no_comparison_with_what_is_missing_holds_in_a_compiled_program(comparison: str) -> None:
    """The rules compare before they know that both are there; a machine that took two missing things for the same
    would let them hold. That the machine compares at all is seen in the last."""
    text = f"""package kfm.t
gone := input.gone.deeper
named := {{"a": 1}}[input.gone]
v contains "both" if input.gone {comparison} input.gone
v contains "two" if input.gone {comparison} input.other.gone
v contains "rules" if gone {comparison} named
v contains "known" if {"input.gone in input.list" if comparison == "in" else f"input.one {comparison} input.gone"}
v contains "bound" if {{
	x := input.gone
	y := input.other
	x {comparison} y
}}
v contains "yes" if input.one in input.list
"""
    machine = regorus.Rvm()
    machine.load_program(regorus.Program.compile_from_modules("{}", [("t.rego", text)], ["data.kfm.t.v"]))
    machine.set_data_json("{}")
    machine.set_input_json('{"one": 1, "list": [1]}')
    assert json.loads(machine.execute()) == ["yes"]


SUBSETS = 16


@pytest.mark.parametrize("part", sampled(range(SUBSETS + 1)))
@pytest.mark.parametrize("name", EXAMPLES)
def test_whatever_parts_are_missing_the_fast_and_the_slow_machine_say_the_same(name: str, part: int) -> None:
    """The fast one is not trusted with what is undefined: after the types only whole parts can be, so all subsets are
    tried, a sample of them first. The slow one is the same library's interpreter."""
    slow = regorus.Engine()
    for file, text in shipped().files:
        slow.add_policy(file, text)
    slow.add_data_json(shipped().data)
    parts = [key for key in example(name) if key not in ("gate", "subjects")]
    subsets = [kept for size in range(len(parts) + 1) for kept in itertools.combinations(parts, size)]
    random.Random(7).shuffle(subsets)
    mine = subsets[part - 1 :: SUBSETS] if part else subsets[:100]
    allowed = 0
    for kept in mine:
        question = {key: value for key, value in example(name).items() if key in (*kept, "gate", "subjects")}
        body = json.dumps(question | {"question": "x"})
        slow.set_input_json(body)
        theirs = json.loads(slow.eval_rule_as_json(f"data.kfm.{EXAMPLES[name]}.verdict"))
        ours = json.loads(Embedded_.ask(EXAMPLES[name], body.encode()))
        assert plain(ours) == plain(theirs), kept
        allowed += ours["allow"] is True
        gone = [part for part in parts if part not in kept]
        assert (ours["allow"] is True) is all(part in TOLERATED.get(name, ()) for part in gone), kept
    assert allowed <= 2 ** len(TOLERATED.get(name, set()) & set(parts))
