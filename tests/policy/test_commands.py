"""kfm policy and kfm policy gates, and policies that an installation adds, typed as a person types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.policy.policy_bundle import bundle, read_files, shipped, with_own
from tests.cli.conftest import Answer, Kfm
from tests.cli.conftest import kfm as kfm
from tests.cli.conftest import place as place
from tests.cli.conftest import plain_environment as plain_environment
from tests.policy.examples import example
from tests.policy.servers import free_port, opa_on, pretending, real_opa, saying

NAME = "rain-gauges"
OWN = """package main

deny contains "not on Fridays" if {
	input.step.to == "published"
	input.asked.who == "friday"
}

warn contains {"msg": "it is looked at"} if input.step.to == "published"
"""
TEST = """package main_test

import data.main

test_friday if {
	count(main.deny) == 1 with input as {"step": {"to": "published"}, "asked": {"who": "friday"}}
}

test_monday if count(main.deny) == 0 with input as {"step": {"to": "published"}, "asked": {"who": "monday"}}
"""


@pytest.fixture
def site(kfm: Kfm) -> Kfm:
    assert kfm("init").code == 0
    assert kfm("run", NAME).code == 0
    return kfm


def say(line: str) -> None:
    with Path("kfm.yml").open("a") as file:
        file.write("\n" + line + "\n")


def own(text: str = OWN) -> None:
    Path("own").mkdir(exist_ok=True)
    Path("own/friday.rego").write_text(text)
    Path("own/friday_test.rego").write_text(TEST)
    say("policy: {folder: own}")


def undeclare(word: str) -> None:
    lines = [line for line in Path("kfm.yml").read_text().splitlines() if not line.startswith(f"    {word}:")]
    Path("kfm.yml").write_text("\n".join(lines) + "\n")


def test_the_gates_are_asked_and_nothing_changes(site: Kfm) -> None:
    before = sorted((str(path), path.stat().st_size) for path in Path(".kfm").rglob("*"))
    answer = site("policy", "gates", NAME, "--json")
    assert answer.code == 0
    assert [one["gate"] for one in answer.data] == ["work.checklist", "processed.checklist", "promotion.checklist"]
    assert all(one["allow"] and one["id"] for one in answer.data) and len({one["id"] for one in answer.data}) == 3
    assert [one["gate"] for one in site("policy", "gates", NAME, "--to", "processed", "--json").data][-1:] == [
        "processed.checklist"
    ]
    assert sorted((str(path), path.stat().st_size) for path in Path(".kfm").rglob("*")) == before
    assert site("refs", "list", "published/", "--json").data == []


def test_a_denial_is_predicted_with_its_rule_and_exit_code(site: Kfm) -> None:
    undeclare("license")
    answer = site("policy", "gates", NAME)
    assert answer.code == 4 and "licence.declared" in answer.out and "license is not declared" in answer.out
    assert site("policy", "gates", NAME, "--to", "processed").code == 0
    (row,) = [one for one in site("policy", "explain", NAME, "--json").data if one["rule"] == "licence.declared"]
    assert row["holds"] == "no" and f"datasets.{NAME}: license" in row["remedy"]
    assert site("promote", NAME).code == 4


def test_every_rule_of_the_step_is_explained(site: Kfm) -> None:
    told = site("policy", "explain", NAME, "--json").data
    assert {one["gate"] for one in told} == {"zone", "promotion", "faircare", "telemetry", "graph", "catalog"} and len(
        told
    ) > 40
    assert all(bool(one["remedy"]) is (one["holds"] != "yes") for one in told)


def test_a_question_in_a_file_is_answered(site: Kfm) -> None:
    Path("question.json").write_text(json.dumps(example("zone")))
    assert site("policy", "check", "question.json").code == 0
    Path("question.json").write_text(json.dumps({**example("zone"), "label": {"sensitivity": "public"}}))
    assert site("policy", "check", "question.json").code == 7
    for text in ("{", "[]", '{"gate": "zone"}', '{"gate": "nothing", "subjects": []}'):
        Path("question.json").write_text(text)
        answer = site("policy", "check", "question.json")
        assert answer.code in (3, 4), text
        assert "Traceback" not in answer.err


def test_policies_of_an_installation_close_and_never_open(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    own()
    monkeypatch.setenv("KFM_ACTOR", "friday")
    denied = site("promote", NAME)
    assert denied.code == 4 and "not on Fridays" in denied.err
    monkeypatch.setenv("KFM_ACTOR", "monday")
    undeclare("title")
    assert site("promote", NAME).code == 4
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("    license:", "    title: Rain\n    license:"))
    assert site("promote", NAME).code == 0
    receipt = site("runs", "receipt", "last", "--json").data
    (decision,) = receipt["policy_decisions"]
    assert decision["warnings"][-1] == "it is looked at"
    assert decision["policy_digest"] == with_own(read_files("own")).digest != shipped().digest
    assert decision["policy_digest"] == site("policy", "check", "--json").data["policy_digest"]


@pytest.mark.parametrize(
    "text",
    [
        OWN.replace("package main", "package kfm.zone"),
        OWN.replace("package main", "package kfm"),
        'package main\n\nwarn contains "w" if true\n',
        "package main\n\ndeny := true\n",
        'deny contains "x" if true\n',
        OWN + "\npackage kfm.zone\n",
    ],
    ids=["a package of ours", "our root", "nothing denies", "no set", "no package", "two packages"],
)
def test_policies_that_could_open_or_cannot_close_are_refused(site: Kfm, text: str) -> None:
    own(text)
    for words in (("policy", "check"), ("promote", NAME)):
        answer = site(*words)
        assert answer.code != 0 and "Traceback" not in answer.err
    assert site("refs", "list", "published/", "--json").data == []


def test_policies_that_cannot_be_compiled_deny(site: Kfm) -> None:
    own(OWN + "\ndeny contains x if {\n")
    assert site("promote", NAME).code == 4
    assert site("policy", "check").code == 4


@pytest.mark.parametrize("with_opa", [False, True])
def test_the_tests_of_own_policies_are_run(site: Kfm, with_opa: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.policy.servers import tool

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if with_opa:
        Path("bin").mkdir()
        Path("bin/opa").symlink_to(tool("opa"))
        monkeypatch.setenv("PATH", f"{Path('bin').resolve()}:/usr/bin:/bin")
    own()
    answer = site("policy", "test", "--json")
    assert answer.code == 0 and answer.data["engine"] == ("opa" if with_opa else "embedded")
    assert {one["name"] for one in answer.data["tests"]} == {"main_test.test_friday", "main_test.test_monday"}
    Path("own/friday_test.rego").write_text(TEST.replace("== 0", "== 5"))
    broken = site("policy", "test", "--json")
    assert broken.code == 1 and [one["name"] for one in broken.data["tests"] if not one["ok"]] == [
        "main_test.test_monday"
    ]


ODD = [b"{}", b'{"result": "true"}', b'{"result": 1}', b'{"result": true}', b'{"result": {"allow": true}}', b"", b"yes"]


@pytest.mark.parametrize("said", ODD, ids=repr)
def test_an_odd_server_denies_every_step_and_stops_nothing_else(site: Kfm, said: bytes) -> None:
    asked: list[bytes] = []
    answer = saying(said)
    with pretending(lambda handler, body: (asked.append(body), answer(handler, body))[1]) as url:
        say(f"policy: {{url: '{url}'}}")
        assert site("run", NAME).code == 0 and asked == []  # nothing to do: nobody is asked
        promoted = site("promote", NAME)
        assert promoted.code == 4 and "engine: " in promoted.err and asked
        assert site("run", NAME, "--force", "--reason", "again").code == 4
    assert site("refs", "list", "published/", "--json").data == []


def test_the_bundle_that_a_command_writes_is_served_and_believed(site: Kfm, tmp_path: Path) -> None:
    path = tmp_path / "policies.tar.gz"
    answer = site("policy", "bundle", "--out", str(path), "--json")
    assert answer.code == 0 and answer.data["digest"] == shipped().digest, answer.err
    assert path.read_bytes() == bundle(shipped())
    assert "opa run --server -b" in site("policy", "bundle").err
    assert site("policy", "bundle", "--out", ".").code == 3
    with opa_on("-b", str(path)) as server:
        say(f"policy: {{url: '{server.url}', timeout_s: 30}}")
        assert site("policy", "gates", NAME).code == 0


def test_a_server_that_is_down_denies_with_a_reason_that_the_receipt_has(site: Kfm) -> None:
    say(f"policy: {{url: 'http://127.0.0.1:{free_port()}'}}")
    assert site("promote", NAME).code == 4
    (decision,) = site("runs", "receipt", "last", "--json").data["policy_decisions"]
    assert decision["rules"] == ["engine.unanswered"] and decision["engine"] == "opa"
    assert "engine" in site("policy", "check").err


@pytest.fixture(scope="module")
def opa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    with real_opa(shipped(), tmp_path_factory.mktemp("opa")) as found:
        yield found


def test_a_server_stopped_in_the_middle_of_a_promotion_denies_it_and_another_run_returns(
    site: Kfm, opa: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "  plain:\n    title: T\n    license: CC0-1.0\n    sensitivity: public\n    version: 1.0.0\n"
    made += "    outputs: {all: {from: rain}}\n    sources:\n      rain: {uri: data/rain.csv, format: csv}\n"
    Path("data/rain.csv").write_text("a\n1\n")
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("datasets:\n", "datasets:\n" + made, 1))
    say(f"policy: {{url: '{opa.url}', timeout_s: 4}}")  # type: ignore[attr-defined]
    pid = opa.process.pid  # type: ignore[attr-defined]
    assert site("policy", "gates", NAME).code == 0  # it answers
    os.kill(pid, signal.SIGSTOP)
    try:
        words = [sys.executable, "-m", "kfm.cli.main", "promote", NAME]
        waiting = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(600):
            if site("runs", "list", "--json").data[0]["status"] == "RUNNING":
                break
        else:
            raise AssertionError("the promotion never began")
        monkeypatch.setenv("KFM_POLICY__URL", "")
        other: Answer = site("run", "plain")
        assert other.code == 0, other.err
        assert waiting.poll() is None, "the promotion did not wait: nothing was shown"
        _, told = waiting.communicate(timeout=300)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert waiting.returncode == 4 and "engine: the policy server is too slow" in told
    assert site("refs", "list", "published/", "--json").data == []
    monkeypatch.delenv("KFM_POLICY__URL")
    assert site("promote", NAME).code == 0
    (decision,) = site("runs", "receipt", "last", "--json").data["policy_decisions"]
    assert decision["engine"] == "opa" and decision["allow"] is True


def test_who_has_nothing_to_do_loads_no_policies(site: Kfm) -> None:
    code = (
        "import sys; from kfm.cli.main import main; code = main(['run', 'rain-gauges', '--quiet'])\n"
        "print(code, *sorted(name for name in sys.modules if name == 'regorus' or name.startswith('kfm.policy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0", done.stdout
    code = code.replace("'--quiet'", "'--quiet', '--force', '--reason', 'again'")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "regorus" in done.stdout
