"""The decision point: only a literal yes, about these digests, under these policies, to this question, is one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.errors import BadInput
from kfm.model import labels
from kfm.policy.decision import Decider, decide, over_http
from kfm.policy.policy_bundle import bundle, policies, read_policies, shipped
from kfm.policy.questions import Mask, PolicyDecision, PolicyQuestion, Throttle, Withhold, label_of
from kfm.policy.rego_engines import Embedded, Opa
from tests.policy.examples import EXAMPLES, ROOT, example
from tests.policy.servers import free_port, pretending, saying

VERSION = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_allowed_for_exactly_its_digests(name: str) -> None:
    decision = decide(example(name))
    assert decision.allow is True and decision.reasons == [] and decision.rules == []
    assert decision.is_yes(VERSION) and not decision.is_yes() and not decision.is_yes(VERSION, OTHER)
    assert decision.policy_digest == shipped().digest and decision.engine == "embedded"


def test_a_typed_question_and_the_same_in_json_are_one_question() -> None:
    typed = msgspec.convert(example("zone"), PolicyQuestion)
    assert decide(typed) == decide(example("zone"))


def test_obligations_are_data() -> None:
    question = example("zone")
    question["label"] |= {"withhold": ["trinomial", "lab_id"], "per_minute": 60}
    found = decide(question)
    assert found.allow is True
    assert Mask(resolution=7) in found.obligations and Throttle(per_minute=60) in found.obligations
    assert {duty.field for duty in found.obligations if isinstance(duty, Withhold)} == {"trinomial", "lab_id"}
    question["identity"]["title"] = ""
    assert decide(question).obligations == []


def test_a_decision_has_an_id_that_says_nothing_of_what_was_asked() -> None:
    first, second = example("promotion"), example("promotion")
    assert decide(first).id == decide(second).id
    second["identity"]["title"] = "Other sites"
    assert decide(first).id == decide(second).id
    second["asked"]["when"] += 1
    second["identity"]["title"] = ""
    assert len({decide(first).id, decide(second).id}) == 2


@pytest.mark.parametrize("question", [{}, [], None, "true", 1, True, {"gate": "promotion"}, {"gate": "other"}], ids=str)
def test_what_is_no_question_is_denied(question: Any) -> None:
    decision = decide(question)
    assert decision.allow is False and decision.rules == ["question.malformed"] and decision.reasons


def test_a_record_that_was_put_together_wrongly_is_denied_too() -> None:
    typed = msgspec.convert(example("promotion"), PolicyQuestion)
    odd = msgspec.structs.replace(typed, subjects=[VERSION, 7])
    assert decide(odd).rules == ["question.malformed"]
    assert decide(msgspec.structs.replace(typed, subjects=object())).rules == ["question.malformed"]


def test_a_question_without_end_is_denied() -> None:
    question = example("promotion")
    question["receipt"]["outputs"] = [VERSION] * 20_000
    assert decide(question).rules == ["question.large"]


def test_each_thread_gets_the_same_answer() -> None:
    decider = Decider(Embedded(shipped()), shipped())
    found: list[PolicyDecision] = []
    threads = [
        threading.Thread(target=lambda: found.extend(decider.decide(example(name)) for name in EXAMPLES))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 * len(EXAMPLES) and all(decision.allow is True for decision in found)


def test_an_engine_that_is_not_installed_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "regorus", None)
    decision = Decider(Embedded(shipped()), shipped()).decide(example("promotion"))
    assert decision.allow is False and decision.reasons == ["engine: the policy engine is not installed"]


class Panic(BaseException):
    """As an extension raises it: not an Exception."""


@pytest.mark.parametrize(
    "problem", [RuntimeError("secret"), Panic("secret"), MemoryError(), RecursionError()], ids=repr
)
def test_an_engine_that_fails_denies_and_is_not_quoted(problem: BaseException) -> None:
    class Failing:
        name = "failing"

        def ask(self, gate: str, body: bytes) -> bytes:
            raise problem

    decision = Decider(Failing(), shipped()).decide(example("promotion"))
    assert decision.allow is False and decision.rules == ["engine.failed"]
    assert "secret" not in repr(decision)


def test_an_engine_is_called_again_after_it_failed() -> None:
    engine = Embedded(shipped())
    decider = Decider(engine, shipped())
    with pytest.raises(RuntimeError):
        engine.ask("promotion", b"no json")
    assert decider.decide(example("promotion")).allow is True


def test_policies_that_do_not_compile_deny() -> None:
    broken = policies({"promotion.rego": "package kfm.promotion\nverdict := nothing_here"})
    assert Decider(Embedded(broken), broken).decide(example("promotion")).allow is False
    assert Decider(Embedded(broken), broken).decide(example("zone")).allow is False


class Answering:
    """Takes the true answer and changes it on its way."""

    name = "answering"

    def __init__(self, change: Callable[[dict[str, Any]], Any]) -> None:
        self._engine, self._change = Embedded(shipped()), change

    def ask(self, gate: str, body: bytes) -> bytes:
        return json.dumps(self._change(json.loads(self._engine.ask(gate, body)))).encode()


def test_an_answer_that_is_handed_on_as_it_is_is_a_yes() -> None:
    assert Decider(Answering(lambda verdict: verdict), shipped()).decide(example("zone")).allow is True


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"allow": "true"}, "engine.odd"),
        ({"allow": 1}, "engine.odd"),
        ({"allow": None}, "engine.odd"),
        ({"allow": [True]}, "engine.odd"),
        ({"allow": False}, "engine.silent"),
        ({"deny": [{"rule": "a", "msg": "b"}]}, "engine.torn"),
        ({"deny": {}}, "engine.odd"),
        ({"subjects": [OTHER]}, "engine.other"),
        ({"subjects": []}, "engine.other"),
        ({"subjects": [VERSION, OTHER]}, "engine.other"),
        ({"question": "0" * 64}, "engine.other"),
        ({"policy": OTHER}, "engine.stale"),
        ({"policy": ""}, "engine.stale"),
        ({"obligations": [{"do": "burn"}]}, "engine.odd"),
        ({"obligations": [{"do": "mask", "resolution": "7"}]}, "engine.odd"),
        ({"obligations": [{"do": "mask", "resolution": 16}]}, "engine.odd"),
        ({"more": 1}, "engine.odd"),
    ],
    ids=str,
)
def test_an_odd_answer_is_a_no(change: dict[str, Any], rule: str) -> None:
    decision = Decider(Answering(lambda verdict: verdict | change), shipped()).decide(example("zone"))
    assert decision.allow is False and decision.rules == [rule] and decision.reasons and decision.obligations == []


@pytest.mark.parametrize("missing", ["allow", "deny", "warn", "obligations", "subjects", "question", "policy"])
def test_an_answer_that_lacks_something_is_a_no(missing: str) -> None:
    def less(verdict: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in verdict.items() if name != missing}

    assert Decider(Answering(less), shipped()).decide(example("zone")).rules == ["engine.odd"]


@pytest.mark.parametrize("answer", [{}, "true", 1, True, None, [], [True], "<undefined>"], ids=repr)
def test_an_answer_that_is_no_verdict_is_a_no(answer: Any) -> None:
    decision = Decider(Answering(lambda _: answer), shipped()).decide(example("zone"))
    assert decision.allow is False and decision.rules == ["engine.odd"]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{}", b'"true"', b"1", b"true", b"null", b"[]", b"no json", b'{"result":{}}', b'{"result":true}'),
        *(b'{"result":"true"}', b'{"result":1}', b'{"result":{"allow":true}}', b'{"result":null}'),
        b'{"result":{}' + b" " * (1 << 20) + b"}",
    ],
    ids=lambda content: content[:30].decode(),
)
def test_what_a_server_says_that_is_no_verdict_is_a_no(content: bytes) -> None:
    with pretending(saying(content)) as url:
        decision = over_http(url).decide(example("promotion"))
    assert decision.allow is False and decision.reasons[0].startswith("engine: ") and decision.engine == "opa"


@pytest.mark.parametrize("status", [201, 204, 302, 400, 404, 500, 503])
def test_a_true_verdict_under_another_status_is_a_no(status: int) -> None:
    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        true = Embedded(shipped()).ask("promotion", msgspec.json.encode(json.loads(body)["input"]))
        saying(b'{"result":' + true.encode() + b"}", status)(handler, body)

    with pretending(answer) as url:
        assert over_http(url).decide(example("promotion")).allow is False


def test_a_server_that_hands_on_the_true_verdict_is_believed() -> None:
    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        true = Embedded(shipped()).ask("promotion", msgspec.json.encode(json.loads(body)["input"]))
        saying(b'{"result":' + true.encode() + b',"decision_id":"x"}')(handler, body)

    with pretending(answer) as url:
        decision = over_http(url).decide(example("promotion"))
    assert decision.allow is True and decision.id == decide(example("promotion")).id


def test_yesterdays_answer_is_no_answer() -> None:
    kept: list[bytes] = []

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if not kept:
            true = Embedded(shipped()).ask("promotion", msgspec.json.encode(json.loads(body)["input"]))
            kept.append(b'{"result":' + true.encode() + b"}")
        saying(kept[0])(handler, body)

    with pretending(answer) as url:
        assert over_http(url).decide(example("promotion")).allow is True
        later = example("promotion")
        later["checksums"]["damaged"] = 1
        assert over_http(url).decide(later).rules == ["engine.other"]


def _never(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    threading.Event().wait(20)


def _dripping(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    for _ in range(400):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n"[:1])
        handler.wfile.flush()
        threading.Event().wait(0.05)


@pytest.mark.parametrize("answer", [_never, _dripping])
def test_a_slow_server_denies_and_stops_no_other_run(
    answer: Callable[[BaseHTTPRequestHandler, bytes], None],
) -> None:
    with pretending(answer) as url:
        decision = over_http(url, timeout_s=0.2).decide(example("promotion"))
    assert decision.allow is False and decision.reasons == ["engine: the policy server is too slow"]


def test_a_server_that_is_down_denies() -> None:
    decision = over_http(f"http://127.0.0.1:{free_port()}").decide(example("promotion"))
    assert decision.allow is False and decision.reasons == ["engine: the policy server does not answer"]


@pytest.mark.parametrize(
    "url", ["", "opa", "ftp://x", "http://", "http://user:secret@x", "http://x?y=1", "http://x:y", "http://["]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        Opa(url)


def test_the_digest_is_of_every_policy_and_of_no_test(tmp_path: Path) -> None:
    (tmp_path / "a.rego").write_text("package a")
    (tmp_path / "a_test.rego").write_text("package a_test")
    first = read_policies(str(tmp_path))
    (tmp_path / "a_test.rego").write_text("package other")
    assert read_policies(str(tmp_path)) == first
    (tmp_path / "a.rego").write_text("package a ")
    assert read_policies(str(tmp_path)).digest != first.digest
    (tmp_path / "b.rego").symlink_to(tmp_path / "a.rego")
    with pytest.raises(BadInput):
        read_policies(str(tmp_path))
    with pytest.raises(BadInput):
        read_policies(str(tmp_path / "nowhere"))
    with pytest.raises(BadInput):
        policies({})


def test_a_bundle_has_the_same_bytes_each_time() -> None:
    assert bundle(shipped()) == bundle(read_policies(str(ROOT / "policies")))


def test_no_bytes_of_an_answer_are_kept_for_the_next_one() -> None:
    decider = Decider(Embedded(shipped()), shipped())
    bad = example("zone")
    bad["subjects"] = [OTHER]
    for _ in range(20):
        assert decider.decide(example("zone")).allow is True
        assert decider.decide(bad).allow is False


def test_what_labels_mean_is_what_a_policy_is_asked_about() -> None:
    """The whole way from a steward's words to a verdict."""

    def verdict(today: str = "2026-01-02", **changed: object) -> PolicyDecision:
        said = {"sensitivity": "generalised", "care": "community", "custodian": "state-museum"}
        said |= {"authority": "the nation", "public_resolution": 7, "expires": "2026-12-31"}
        label = msgspec.convert({"of": {"dataset": "sites"}, **said, **changed}, labels.Label)
        asked = msgspec.convert(example("faircare"), PolicyQuestion)
        return decide(msgspec.structs.replace(asked, label=label_of(labels.label_classification(label, today))))

    assert verdict().allow is True
    assert verdict().obligations == [Mask(resolution=7)]
    for changed in (
        {"sensitivity": "restricted"},
        {"sensitivity": "masked"},
        {"care": "sacred"},
        {"access_rights": "embargoed"},
        {"community_labels": ["TK CL"]},
        {"public_resolution": 8},
        {"expires": "2026-01-01"},
        {"expires": ""},
        {"custodian": ""},
        {"authority": ""},
    ):
        assert verdict(**changed).allow is False, changed


def test_a_consent_runs_to_the_end_of_its_last_day_and_two_custodians_are_not_one() -> None:
    last = labels.Classification(level="public", expires="2026-12-31", custodians=("a", "b"))
    found = label_of(last)
    assert found.expires == 1798761600000
    assert found.custodian == "a, b", "which is the name of neither"
    assert label_of(labels.UNLABELLED).sensitivity == "restricted"


def test_the_shipped_programs_are_of_the_shipped_policies_and_say_what_they_say() -> None:
    from kfm.policy import rego_engines

    for gate in rego_engines.KEPT:
        assert rego_engines._kept(gate, shipped().digest) is not None
        assert rego_engines._kept(gate, "sha256:" + "0" * 64) is None
        fresh = rego_engines._program(shipped(), gate).serialize_binary()
        assert rego_engines._kept(gate, shipped().digest).serialize_binary() == fresh


@pytest.mark.parametrize("body", ["", "sha256:x\n\n", "DIGEST\n", "DIGEST\nAAAA\n", "DIGEST\n\u00e9\n"])
def test_a_program_that_cannot_be_read_is_compiled_again(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kfm.policy import rego_engines

    (tmp_path / "zone.txt").write_text(body.replace("DIGEST", shipped().digest))
    monkeypatch.setattr(rego_engines, "_FOLDER", str(tmp_path))
    assert rego_engines._kept("zone", shipped().digest) is None
    assert Decider(rego_engines.Embedded(shipped()), shipped()).decide(example("zone")).allow is True
