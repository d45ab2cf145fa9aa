"""`kfm up` sends notices from a thread of its own: a receiver that hangs delays no run, and lateness is noticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from tests.app.notices.receivers import SAID, SECRET, Receiver, Site, receiver_lines, receiving

FAST = SAID + "watch: {{poll_s: 0.5, debounce_s: 0}}\n"


def until(holds: Callable[[], object]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def test_a_receiver_that_hangs_delays_neither_runs_nor_the_other_receiver(tmp_path: Path, receiver: Receiver) -> None:
    with receiving() as hanging:
        hanging.always = lambda _handler, _got: time.sleep(60)
        lines = receiver_lines(hanging.url, "hanging", more=", timeout_s: 50") + receiver_lines(receiver.url)
        site = Site(tmp_path, lines, FAST)
        site.settle()
        env = {**os.environ, "KFM_SECRET_HOOK": SECRET, "KFM_ACTOR": "tester"}
        command = [sys.executable, "-m", "kfm", "up", "rain"]
        with (tmp_path / "said").open("wb") as said:
            process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=said, stderr=said)
        try:
            until(lambda: hanging.got)
            until(lambda: receiver.kinds == ["version.pending"])
            site.source("n\n1\n2\n3\n")  # while the one hangs, the next source is taken up and run
            until(lambda: receiver.kinds == ["version.pending"] * 2)
            assert _runs(site) == 2 and len(hanging.got) == 1
        except AssertionError as problem:
            raise AssertionError((tmp_path / "said").read_text()) from problem
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def test_the_end_does_not_wait_for_a_receiver_that_hangs(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kfm.app.daemon import notice_thread

    monkeypatch.setattr(notice_thread, "STOP_S", 0.05)
    goes = threading.Event()
    receiver.always = lambda _handler, _got: goes.wait(30)
    site = Site(tmp_path, receiver_lines(receiver.url, more=", timeout_s: 30"))
    site.settle()
    thread = notice_thread.NoticeThread("ops", site.open, lambda: False, lambda _line: None, pause_s=0.01)
    thread.start()
    with site.open() as session:
        run_trigger(session, new_trigger(session, "rain"))
    until(lambda: receiver.got)
    notice_thread.end_all([thread])
    assert thread.is_alive()
    goes.set()
    thread.join(30)
    assert not thread.is_alive()


def _runs(site: Site) -> int:
    with site.open("read") as session:
        return sum(entry.outcome == "done" for entry in session.state.ledger.entries())


def test_a_dataset_that_becomes_late_while_nothing_runs_is_noticed(tmp_path: Path, receiver: Receiver) -> None:
    from kfm.app.daemon.notice_thread import NoticeThread, end_all

    site = Site(tmp_path, receiver_lines(receiver.url))
    site.run()
    receiver.take()
    said: list[str] = []
    thread = NoticeThread("ops", site.open, lambda: False, said.append, pause_s=0.01)
    thread.start()
    try:
        time.sleep(0.1)
        assert receiver.got == []
        site.advance(hours=27)
        until(lambda: receiver.kinds == ["dataset.late"])
    finally:
        end_all([thread])
    assert receiver.take() == ["dataset.late"] and said == []


def test_the_thread_sends_once_more_when_it_ends_and_not_while_another_process_leads(
    site: Site, receiver: Receiver
) -> None:
    from kfm.app.daemon.notice_thread import NoticeThread, end_all

    waits: list[str] = ["version.pending"]
    for stands_by, kinds in ((True, []), (False, waits)):
        thread = NoticeThread("ops", site.open, partial(bool, stands_by), lambda _line: None, pause_s=60)
        thread.start()
        with site.open() as session:
            run_trigger(session, new_trigger(session, "rain"))
        end_all([thread])
        assert receiver.kinds == kinds
