"""Pools: a run has a slot or waits for one, by hand or not; a slot is a live lease and comes back by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CODE = """\
import os, time
from kfm import Output, Plan, Step, Updater

class Slow(Updater):
    id = "NAME"
    version = "1.0.0"
    dataset = "kfm://dataset/NAME"
    def inputs(self, trigger, sources):
        return [sources.pin("body")]
    def plan(self, inputs):
        return Plan([Step(id=f"s{n}", key=(f"s{n}",), needs=(f"s{n-1}",) if n else ()) for n in range(40)])
    def perform(self, step, read):
        with open(os.environ["SEEN"], "a") as file:
            file.write("NAME\\n")
        while os.path.exists(os.environ["SEEN"] + ".NAME.hold"):
            time.sleep(0.02)
        return Output(step.id.encode(), media_type="text/plain")
"""
NAMES = ("one", "two")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    text = "publish: noop\nexecute: {lease_s: 2}\npools: {gpu: 1}\ndatasets:\n"
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(CODE.replace("NAME", name))
        text += f"  {name}:\n    updater: {name}.py:Slow\n    sensitivity: public\n    pool: gpu\n"
        text += "    sources: {body: {uri: body.txt, format: text}}\n"
    (tmp_path / "body.txt").write_text("x")
    (tmp_path / "kfm.yml").write_text(text)
    return tmp_path


def environment(site: Path) -> dict[str, str]:
    said = {"SEEN": str(site / "seen"), "KFM_ACCEPT_WEAK_STORAGE": "true", "KFM_ACTOR": "tester", "KFM_REASON": "test"}
    return {**{key: value for key, value in os.environ.items() if not key.startswith("KFM_")}, **said}


def kfm(site: Path, *arguments: str) -> tuple[int, Any, str]:
    command = [sys.executable, "-m", "kfm", *arguments, "--json"]
    done = subprocess.run(command, cwd=site, env=environment(site), capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def begun(site: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kfm", *arguments]
    return subprocess.Popen(
        command, cwd=site, env=environment(site), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def until(true: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError("it never came to that")


def seen(site: Path) -> list[str]:
    return (site / "seen").read_text().split() if (site / "seen").exists() else []


def hold(site: Path, name: str) -> Path:
    path = site / f"seen.{name}.hold"
    path.touch()
    return path


def test_a_run_by_hand_waits_for_a_slot(site: Path) -> None:
    held = hold(site, "one")
    first = begun(site, "run", "one")
    until(lambda: "one" in seen(site))
    second = begun(site, "run", "two")
    time.sleep(2.5)  # longer than a lease: who works keeps its slot
    assert second.poll() is None and "two" not in seen(site)
    held.unlink()
    assert first.wait(30) == 0 and second.wait(30) == 0
    assert seen(site) == ["one"] * 40 + ["two"] * 40


def test_who_is_stopped_past_its_lease_and_goes_on_commits_nothing(site: Path) -> None:
    held = hold(site, "one")
    first = begun(site, "run", "one")
    until(lambda: "one" in seen(site))
    first.send_signal(signal.SIGSTOP)
    assert kfm(site, "run", "two")[0] == 0  # takes the slot over once it ran out
    held.unlink()
    first.send_signal(signal.SIGCONT)
    assert first.wait(30) == 6
    assert "the lease on pool/gpu/0 was taken over" in first.communicate()[1]
    assert [each["status"] for each in kfm(site, "runs", "list")[1] if each["dataset"] == "one"] == ["RUNNING"]
    assert kfm(site, "resume")[0] == 0  # with a slot of its own


@pytest.mark.parametrize("where", ["dataset", "schedule", "file"])
def test_an_unknown_pool_is_refused_by_name_and_place(site: Path, where: str) -> None:
    text = (site / "kfm.yml").read_text()
    if where == "dataset":
        (site / "kfm.yml").write_text(text.replace("pool: gpu", "pool: gpus", 1))
    elif where == "schedule":
        (site / "kfm.yml").write_text(text.replace("pool: gpu", "schedule: {cadence: daily, pool: gpus}", 1))
    else:
        (site / "pipelines/schedules").mkdir(parents=True)
        (site / "pipelines/schedules/a.yml").write_text(
            "schedules:\n  nightly:\n    dataset: one\n    cadence: daily\n    pool: gpus\n"
        )
    code, _, err = kfm(site, "up", "--once")
    place = "pipelines/schedules/a.yml:5:" if where == "file" else "kfm.yml:8:"
    assert code == 3 and place in err and "there is no pool 'gpus'" in err and "did you mean gpu?" in err
    assert len(err.splitlines()) == 1


def test_kfm_pools_shows_which_run_has_a_slot_and_which_waits(site: Path) -> None:
    held = hold(site, "one")
    first = begun(site, "run", "one")
    until(lambda: "one" in seen(site))
    second = begun(site, "run", "two")
    (gpu,) = until(lambda: [each for each in kfm(site, "schedule", "pools")[1] if each["waiting"]])
    assert (gpu["pool"], gpu["slots"], gpu["free"]) == ("gpu", 1, 0)
    assert [(each["dataset"], each["slot"]) for each in gpu["held"]] == [("one", 0)]
    assert gpu["held"][0]["process"].endswith(f":{first.pid}")
    assert [(each["dataset"], each["slot"]) for each in gpu["waiting"]] == [("two", None)]
    assert gpu["waiting"][0]["process"].endswith(f":{second.pid}") and gpu["waiting"][0]["since"] <= now()
    second.send_signal(signal.SIGINT)  # who is stopped while it waits is forgotten at once
    assert second.wait(30) == 130
    (gpu,) = kfm(site, "schedule", "pools", "gpu")[1]
    assert gpu["waiting"] == [] and [each["dataset"] for each in gpu["held"]] == ["one"]
    first.kill()  # and so is one that is killed
    first.wait()
    (gpu,) = kfm(site, "schedule", "pools", "gpu")[1]
    assert gpu["held"] == [] and gpu["free"] == 1
    held.unlink()
    code, _, err = kfm(site, "schedule", "pools", "gpus")
    assert code == 3 and "there is no pool 'gpus'; did you mean gpu?" in err


def now() -> str:
    from kfm.clock import SystemClock, rfc3339

    return rfc3339(SystemClock().now_ms())


def test_a_run_that_waits_for_a_slot_can_be_cancelled(site: Path) -> None:
    held = hold(site, "one")
    killed = begun(site, "run", "one")
    until(lambda: "one" in seen(site))
    killed.kill()
    killed.wait()
    held.unlink()
    held = hold(site, "two")
    other = begun(site, "run", "two")
    until(lambda: "two" in seen(site))
    (run,) = [each["run"] for each in kfm(site, "runs", "list")[1] if each["dataset"] == "one"]
    waits = begun(site, "resume", run)
    until(lambda: kfm(site, "schedule", "pools")[1][0]["waiting"])
    code, found, _ = kfm(site, "runs", "cancel", run, "--reason", "not today")  # it needs no slot to end
    assert code == 0 and [each["outcome"] for each in found["receipts"]] == ["cancelled"]
    assert waits.wait(30) in (1, 6)  # it ended the run itself, or found it ended
    (gpu,) = kfm(site, "schedule", "pools")[1]
    assert gpu["waiting"] == [] and [each["dataset"] for each in gpu["held"]] == ["two"]
    held.unlink()
    assert other.wait(30) == 0


def test_up_once_waits_for_a_slot_too(site: Path) -> None:
    held = hold(site, "one")
    first = begun(site, "run", "one")
    until(lambda: "one" in seen(site))
    (site / "kfm.yml").write_text(
        (site / "kfm.yml").read_text().replace("  two:\n", "  two:\n    schedule: {cadence: static}\n")
    )
    up = begun(site, "up", "two", "--once")
    until(lambda: kfm(site, "schedule", "pools")[1][0]["waiting"])
    assert up.poll() is None
    held.unlink()
    assert first.wait(30) == 0 and up.wait(30) == 0
    assert seen(site) == ["one"] * 40 + ["two"] * 40
