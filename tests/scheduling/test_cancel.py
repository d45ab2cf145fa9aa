"""`kfm runs cancel`: a run ends at its next step, with a receipt, and everything it held is free."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

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
        return Plan([Step(id=f"s{n}", key=(f"s{n}",), needs=(f"s{n-1}",) if n else ()) for n in range(50)])
    def perform(self, step, read):
        with open(os.environ["SEEN"], "a") as file:
            file.write(step.id + "\\n")
        time.sleep(float(os.environ.get("PACE", "0.1")))
        return Output(step.id.encode(), media_type="text/plain")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(CODE)
    (tmp_path / "body.txt").write_text("x")
    (tmp_path / "kfm.yml").write_text(
        "publish: noop\nexecute: {lease_s: 1}\n"
        "datasets:\n  slow:\n    updater: slow.py:Slow\n    sensitivity: public\n"
        "    sources: {body: {uri: body.txt, format: text}}\n"
    )
    return tmp_path


def environment(site: Path, **more: str) -> dict[str, str]:
    said = {"SEEN": str(site / "seen"), "KFM_ACCEPT_WEAK_STORAGE": "true", "KFM_ACTOR": "tester", "KFM_REASON": "test"}
    return {**{key: value for key, value in os.environ.items() if not key.startswith("KFM_")}, **said, **more}


def kfm(site: Path, *arguments: str, **more: str) -> tuple[int, Any, str]:
    command = [sys.executable, "-m", "kfm", *arguments, "--json"]
    done = subprocess.run(command, cwd=site, env=environment(site, **more), capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def at_work(site: Path, steps: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kfm", "run", "slow"]
    process = subprocess.Popen(
        command, cwd=site, env=environment(site), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(600):
        if (site / "seen").exists() and len((site / "seen").read_text().split()) >= steps:
            return process
        time.sleep(0.05)
    raise AssertionError("it never came to a step")


def held(site: Path) -> list[str]:
    from kfm import config
    from kfm.app.session.session import open_session

    with open_session(config.load(str(site / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"}), mode="read") as session:
        assert not any(session.state.runs.unfinished()) and not any(session.state.inbox.waiting())
        lease = session.state.leases.of("slow/slow")
        return [lease.scope] if lease is not None and lease.expires_ms else []


def test_a_run_at_work_elsewhere_ends_at_its_next_step(site: Path) -> None:
    process = at_work(site, 3)
    code, found, _ = kfm(site, "runs", "cancel", "last", "--reason", "wrong day")
    assert code == 0 and [run["outcome"] for run in found["receipts"]] == ["cancelled"]
    assert process.wait(20) == 1
    seen = (site / "seen").read_text().split()
    assert 3 <= len(seen) < 50
    _, receipt, _ = kfm(site, "runs", "receipt", "last")
    assert (receipt["status"], receipt["outcome"], receipt["errors"][0]["code"]) == (
        "FAILED",
        "cancelled",
        "run.cancelled",
    )
    assert "tester" in receipt["errors"][0]["message"]
    assert held(site) == []


def test_a_run_without_a_worker_is_ended_here(site: Path) -> None:
    process = at_work(site, 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1.1)  # its lease
    code, found, _ = kfm(site, "runs", "cancel", "last", "--reason", "not any more")
    assert code == 0
    assert [run["outcome"] for run in found["receipts"]] == ["cancelled"]
    assert held(site) == []


def test_what_was_finished_is_kept_for_the_next_run(site: Path) -> None:
    process = at_work(site, 5)
    kfm(site, "runs", "cancel", "last", "--reason", "wrong day")
    process.wait(20)
    before = (site / "seen").read_text().split()
    code, _, _ = kfm(site, "run", "slow", PACE="0")
    assert code == 0
    after = (site / "seen").read_text().split()[len(before) :]
    assert set(before) | set(after) == {f"s{n}" for n in range(50)}
    assert len(set(before) & set(after)) <= 1  # at most the one that was in doubt


def test_one_that_ended_is_not_cancelled(site: Path) -> None:
    assert kfm(site, "run", "slow", PACE="0")[0] == 0
    code, _, err = kfm(site, "runs", "cancel", "last", "--reason", "too late")
    assert code == 3 and "has ended already" in err
