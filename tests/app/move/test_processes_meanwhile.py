"""Processes that run while the state moves: none writes to the old place, and each says why it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kfm.app.session.session import open_session
from tests.app.move.carried import THERE, kfm, resolved_in
from tests.crash.harness import Voice, begin, end
from tests.project.bans import ROOT


@contextmanager
def running(house: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=house, env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def heard(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return
    raise AssertionError(f"it never said {words!r}: {lines}")


@pytest.mark.long
def test_a_worker_that_only_waits_ends_when_the_state_has_moved(house: str) -> None:
    with Path(house, "kfm.yml").open("a") as file:
        file.write("workers: {sweep_s: 0.2}\n")
    with running(house, "workers", "run") as worker:
        heard(worker, "ready")
        answer = kfm(house, "move", "--to", THERE)
        assert answer.code == 0, answer.err
        heard(worker, f"the state was moved to {THERE}")
        assert worker.wait(60) == 3


def test_a_move_waits_until_kfm_up_has_ended(house: str) -> None:
    with running(house, "kfm", "up") as up:
        heard(up, "Ctrl-C ends it")
        while not _has_leader(house):
            assert up.poll() is None
        answer = kfm(house, "move", "--to", THERE)
        assert answer.code == 6 and "1 worker is at work: up" in answer.err

        def work(voice: Voice) -> int:
            answer = kfm(house, "move", "--to", THERE, "--wait", "100")
            voice.say("said", answer.err)
            return answer.code

        mover = begin(work)
        up.send_signal(signal.SIGTERM)
        ended = end(*mover)
        assert ended.answer == 0, ended.said
        assert up.wait(60) == 0


def _has_leader(house: str) -> bool:
    with open_session(resolved_in(house), mode="read") as session:
        lease = session.state.leases.of("up")
        return lease is not None and lease.expires_ms > 0
