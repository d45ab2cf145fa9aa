"""`kfm up` as an operator meets it: it drains, takes turns, takes webhooks and follows sinks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from kfm import config
from kfm.app.daemon.leader_election import LeaderLease
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock, SystemClock, rfc3339
from kfm.model.secret import Secret
from kfm.scheduling.triggers import keep
from kfm.scheduling.webhook_requests import signature

SECRET = "up-" + "0123456789abcdef" * 2
CODE = """\
import os, time
from kfm import Output, Plan, Step, Updater

class Slow(Updater):
    id = "slow"
    version = "1.0.0"
    dataset = "kfm://dataset/slow"
    def inputs(self, trigger, sources):
        return [sources.pin("body")]
    def plan(self, inputs):
        return Plan([Step(id=f"s{n}", key=(f"s{n}",), needs=(f"s{n-1}",) if n else ()) for n in range(10)])
    def perform(self, step, read):
        with open(os.environ["SEEN"], "a") as file:
            file.write(step.id + "\\n")
        time.sleep(float(os.environ.get("PACE", "0")))
        return Output(step.id.encode() + read.bytes(0), media_type="text/plain")
"""
SAID = """\
publish: noop
execute: {lease_s: 2}
watch: {poll_s: 0, debounce_s: 0}
openlineage: {file: lineage.jsonl}
datasets:
  slow:
    updater: slow.py:Slow
    sensitivity: public
    sources: {body: {uri: body.txt, format: text}}
    schedule: {cadence: annual}
webhooks:
  hook: {datasets: [slow], secrets: [env:KFM_SECRET_HOOK]}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(CODE)
    (tmp_path / "body.txt").write_text("x")
    (tmp_path / "kfm.yml").write_text(SAID)
    return tmp_path


def environment(site: Path, **more: str) -> dict[str, str]:
    said = {"SEEN": str(site / "seen"), "KFM_ACCEPT_WEAK_STORAGE": "true", "KFM_ACTOR": "tester", "KFM_REASON": "test"}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("KFM_")}
    return {**inherited, **said, "KFM_SECRET_HOOK": SECRET, **more}


@contextmanager
def up(site: Path, *flags: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Its stderr goes to a file that is read as it grows."""
    name = site / f"told-{len(list(site.glob('told-*')))}"
    command = [sys.executable, "-m", "kfm", "up", "--json", *flags]
    with name.open("w") as told:
        process = subprocess.Popen(
            command, cwd=site, env=environment(site, **more), stdout=subprocess.PIPE, stderr=told, text=True
        )
    process.told = name.read_text  # type: ignore[attr-defined]
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str]) -> str:
    return str(process.told())  # type: ignore[attr-defined]


def until(holds: Callable[[], object], what: str) -> None:
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError(f"it never came to pass: {what}")


@contextmanager
def looked_at(site: Path, mode: str = "read") -> Iterator[Session]:
    resolved = config.load(str(site / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
    with open_session(resolved, mode=mode) as session:  # type: ignore[arg-type]
        yield session


def asks(site: Path) -> None:
    with looked_at(site, "write") as session:
        keep(session.state, new_trigger(session, "slow", actor="tester"))


def steps(site: Path) -> int:
    return len((site / "seen").read_text().split()) if (site / "seen").exists() else 0


def receipts(site: Path) -> list[Any]:
    with looked_at(site) as session:
        found = (session.state.ledger.receipt(entry.run_id) for entry in session.state.ledger.entries())
        return [each for each in found if each is not None]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_when_it_is_stopped_the_run_at_work_is_finished_first(site: Path, number: signal.Signals) -> None:
    with up(site, PACE="0.15") as process:
        asks(site)
        until(lambda: steps(site) >= 2, "a step")
        assert steps(site) < 10
        process.send_signal(number)
        assert process.wait(60) == 0, told(process)
        assert "the run at work is finished first" in told(process)
    assert [each.outcome for each in receipts(site)] == ["done"] and steps(site) == 10
    with looked_at(site) as session:
        assert not any(session.state.runs.unfinished()) and not any(session.state.inbox.waiting())


def test_stopped_twice_it_leaves_the_run_to_be_resumed(site: Path) -> None:
    with up(site, PACE="0.3") as process:
        asks(site)
        until(lambda: steps(site) >= 2, "a step")
        process.send_signal(signal.SIGINT)
        until(lambda: "finished first" in told(process), "it heard")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "left resumable" in told(process)
    with looked_at(site) as session:
        assert any(session.state.runs.unfinished())


def test_it_begins_nothing_more_once_it_is_stopped(site: Path) -> None:
    """Another trigger came for another window while the first was at work: it stays in the inbox."""
    with up(site, PACE="0.15") as process:
        asks(site)
        until(lambda: steps(site) >= 2, "a step")
        process.send_signal(signal.SIGTERM)
        (site / "body.txt").write_text("y")
        asks(site)
        assert process.wait(60) == 0
    assert len(receipts(site)) == 1
    with looked_at(site) as session:
        assert len(list(session.state.inbox.waiting())) == 1


def test_two_take_turns_and_the_second_takes_over_when_the_first_is_killed(site: Path) -> None:
    with up(site) as first:
        until(lambda: "up:" in told(first), "the first is up")
        with up(site) as second:
            until(lambda: "stands by" in told(second), "the second stands by")
            asks(site)
            assert first.stdout is not None and second.stdout is not None
            assert json.loads(first.stdout.readline())["outcome"] == "done"
            (site / "body.txt").write_text("y")
            first.kill()
            first.wait()
            asks(site)
            assert json.loads(second.stdout.readline())["outcome"] == "done"
            assert "took over" in told(second)
    assert [each.outcome for each in receipts(site)] == ["done", "done"]


def test_one_that_is_stopped_past_its_lease_stands_by_when_it_goes_on(site: Path) -> None:
    with up(site) as first:
        until(lambda: "up:" in told(first), "the first is up")
        with up(site) as second:
            until(lambda: "stands by" in told(second), "the second stands by")
            first.send_signal(signal.SIGSTOP)
            until(lambda: "took over" in told(second), "the second has the turn")
            first.send_signal(signal.SIGCONT)
            until(lambda: "stands by" in told(first), "the first stands by")


def test_once_leaves_it_to_one_that_is_up(site: Path) -> None:
    with up(site) as first:
        until(lambda: "up:" in told(first), "the first is up")
        with up(site, "--once") as once:
            assert once.wait(60) == 0
            assert "another `kfm up` has the leader lease" in told(once)


def test_a_leader_lease_that_is_not_renewed_is_free_after_its_time(site: Path) -> None:
    clock = FixedClock()
    resolved = config.load(str(site / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
    with open_session(resolved, clock=clock) as one, open_session(resolved, clock=clock) as other:
        mine, theirs = LeaderLease(one, ["slow"]), LeaderLease(other, ["slow"])
        assert mine.take() and mine.take() and not theirs.take()
        clock.advance(1_000)
        assert mine.take()  # renewed
        clock.advance(1_500)
        assert not theirs.take()
        clock.advance(600)
        assert theirs.take() and not mine.take()
        theirs.give_back()
        assert mine.take()


def posted(port: int, body: bytes) -> int:
    sealed = {"X-KFM-Signature": signature("kfm", Secret(SECRET.encode()), body)}
    with urlopen(Request(f"http://127.0.0.1:{port}/webhooks/hook", body, sealed)) as answer:
        return int(answer.status)


def test_webhooks_are_taken_and_answered_by_runs(site: Path) -> None:
    said = {
        "source_id": "hook",
        "trigger": "etag-change",
        "event_type": "update",
        "sent_at": rfc3339(SystemClock().now_ms()),
        "metadata": {"delivery_id": "1"},
        "integrity": {"version": "v1"},
    }
    body = json.dumps(said).encode()
    with up(site, "--listen", "127.0.0.1:0") as process:
        assert process.stdout is not None
        line = json.loads(process.stdout.readline())
        port = int(line["listening"].rpartition(":")[2])
        assert posted(port, body) == 202
        run = json.loads(process.stdout.readline())
        assert (run["trigger"], run["actor"], run["outcome"]) == ("webhook", "webhook:hook", "done")
        assert posted(port, body) == 200  # the same again begins nothing
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert len(receipts(site)) == 1


def test_a_sink_hears_of_what_another_process_did(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ran it died before it told anybody."""
    monkeypatch.setenv("SEEN", str(site / "seen"))
    with looked_at(site, "write") as session:
        run = run_trigger(session, new_trigger(session, "slow", actor="tester"))
        session.state.sync()
    assert not (site / "lineage.jsonl").exists()
    with up(site) as process:
        until(lambda: (site / "lineage.jsonl").exists(), "the sink was told")
        until(lambda: (site / "lineage.jsonl").read_text().count("\n") >= 1, "a line is in it")
        assert run.run_id in (site / "lineage.jsonl").read_text() or run.dataset in (site / "lineage.jsonl").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_where_others_could_hear_it_listens_only_with_tls(site: Path) -> None:
    with up(site, "--listen", "0.0.0.0:0") as process:
        assert process.wait(60) == 3 and "there is no TLS" in told(process)


@pytest.mark.parametrize("said", ["nowhere", "127.0.0.1:99999", "1.2.3.4:x", ":"])
def test_an_address_that_is_none_is_refused(site: Path, said: str) -> None:
    with up(site, "--listen", said) as process:
        assert process.wait(60) == 2 and "--listen" in told(process)
