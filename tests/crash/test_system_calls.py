"""Promise 3, F02: the real command in a real process, with faults put between it and the kernel by strace."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash import counts
from tests.crash.trial import STATES, Trial
from tests.crash.typing_it import STORAGE, Typed, check_manners, words
from tests.crash.updaters import NOW, SMALLEST, lay_out
from tests.engine.system_calls import need_strace
from tests.sampling import sampled

ROOT = Path(__file__).resolve().parents[2]
CHANGING = "write,pwrite64,fsync,fdatasync,ftruncate,link,linkat,rename,renameat,renameat2,unlink,unlinkat,mkdir"
_CALL = re.compile(r"\d+ +(\w+)\((?:(\d+)<([^>]*)>)?")  # process, name, descriptor, what it is open on


def traced(trial: Trial, trace: str, inject: str) -> tuple[Typed, list[str]]:
    """Type the one command of the script under strace; gives the answer and the calls that were seen."""
    need_strace()
    command = SMALLEST.commands[0]
    log = os.path.join(os.path.dirname(trial.folder), "calls")
    lay_out(trial.folder, command, 0)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "KFM_NOW": NOW,
    }
    line = ["strace", "-f", "-y", "-qq", "-o", log, "-e", f"trace={trace}", "-e", f"inject={inject}"]
    line += [sys.executable, "-m", "kfm.cli.main", *words(trial.folder, command)]
    ran = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, cwd=trial.folder)
    with open(log, encoding="utf-8", errors="replace") as file:
        return Typed(ran.returncode, ran.stdout, ran.stderr), file.read().splitlines()


def injected(calls: list[str]) -> int:
    """Where in the list the fault is; -1 if it was not had."""
    return next((n for n, call in enumerate(calls) if "(INJECTED)" in call), -1)


@pytest.mark.parametrize("part", sampled(range(3)))
@pytest.mark.parametrize("call", ["fsync", "fdatasync"])
@pytest.mark.parametrize("state", STATES)
def test_after_a_failed_sync_nothing_is_acknowledged_and_nothing_synced_again(
    scratch: str, state: str, call: str, part: int
) -> None:
    trial = Trial(scratch, state, SMALLEST)
    stopped = 0
    for n in range(1 + part, 200, 3):
        trial.empty()
        typed, calls = traced(trial, "fsync,fdatasync,close,write", f"{call}:error=EIO:when={n}")
        at = injected(calls)
        if at < 0:
            assert typed.code == 0, typed
            break
        counts.add("faults")
        story = f"{state}: {call} number {n} failed"
        check_manners(typed, story)
        seen = [found.groups() for each in calls if (found := _CALL.match(each))]
        assert len(seen) == len(calls), calls
        told_before = any(name == "write" and fd == "1" for name, fd, _ in seen[:at])
        # SQLite makes the name of its log durable itself, and does not mind if it cannot.
        within_sqlite = call == "fdatasync" and os.path.isdir(seen[at][2])
        assert typed.code == STORAGE or told_before or within_sqlite, f"{story} ({calls[at]}): {typed}"
        stopped += typed.code == STORAGE
        # A database that is only being made holds nothing yet: there SQLite undoes what it began, and syncs that.
        being_made = not any(str(path).endswith("-wal") for _, _, path in seen[: at + 1]) and state == "sqlite"
        for name, fd, _ in seen[at + 1 :]:
            if fd == seen[at][1] and not (being_made and not typed.acks()):
                assert name == "close", f"{story}: {name} of the same descriptor again"
                break
        trial.judge(story, typed.acks())
    assert stopped, "no sync that failed stopped anything"


def kill_everywhere(scratch: str, state: str, step: int) -> None:
    """The kernel kills it on entry to the n-th call that changes anything; no marker of ours is involved."""
    trial = Trial(scratch, state, SMALLEST)
    killed = 0
    for name in CHANGING.split(","):
        for n in range(1, 2000, step):
            trial.empty()
            typed, _ = traced(trial, name, f"{name}:signal=KILL:when={n}")
            if typed.code == 0:
                break
            assert typed.code in (-9, 137), f"{name} number {n}: {typed}"
            killed += 1
            counts.add("singles")
            trial.judge(f"{state}: killed at {name} number {n}", typed.acks())
    assert killed > 5


@pytest.mark.parametrize("state", sampled(STATES))
def test_a_kill_by_the_kernel_at_a_system_call_changes_nothing_in_the_end(scratch: str, state: str) -> None:
    kill_everywhere(scratch, state, {"sqlite": 211, "jsonl": 67}[state])


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
def test_a_kill_by_the_kernel_at_any_system_call_changes_nothing_in_the_end(scratch: str, state: str) -> None:
    kill_everywhere(scratch, state, 1)


def full_from(scratch: str, state: str, step: int) -> None:
    trial = Trial(scratch, state, SMALLEST)
    stopped = 0
    for name in ("pwrite64", "ftruncate", "mkdir"):
        for n in range(1, 2000, step):
            trial.empty()
            typed, calls = traced(trial, name, f"{name}:error=ENOSPC:when={n}+")
            if injected(calls) < 0:
                assert typed.code == 0
                break
            counts.add("faults")
            story = f"{state}: no room from {name} number {n} on"
            check_manners(typed, story)
            assert typed.code in (0, STORAGE), f"{story}: {typed}"
            stopped += typed.code == STORAGE
            trial.judge(story, typed.acks())
    assert stopped > 2


@pytest.mark.parametrize("state", STATES)
def test_a_disk_that_is_full_from_some_call_on_loses_nothing(scratch: str, state: str) -> None:
    full_from(scratch, state, {"sqlite": 61, "jsonl": 7}[state])


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
def test_a_disk_that_is_full_from_any_call_on_loses_nothing(scratch: str, state: str) -> None:
    full_from(scratch, state, 1)
