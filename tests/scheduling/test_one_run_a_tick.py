"""Several processes, kills, stops and clocks that jump: every tick has one run, and none is missing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kfm import config
from kfm.app.daemon.daemon_loop import Daemon
from kfm.app.session.session import open_session
from kfm.clock import rfc3339
from tests.scheduling.clockwork import FileClock

BEGIN_MS = 1_767_225_600_000
STEP_MS = 60_000
INSTALLATION = """\
publish: noop
execute: {lease_s: 2}
datasets:
  plain:
    version: "1.0.0"
    sources:
      rows: {uri: rows.csv, format: csv}
    outputs:
      rows: {from: rows}
    schedule: {cron: "* * * * *", catch_up: CATCH_UP}
"""


def lay_out(folder: Path, catch_up: str) -> Path:
    (folder / "kfm.yml").write_text(INSTALLATION.replace("CATCH_UP", catch_up))
    (folder / "rows.csv").write_text("id,n\na,1\n")
    (folder / "now").write_text(str(BEGIN_MS))
    return folder / "kfm.yml"


def begun(path: Path, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.scheduling.clockwork", str(path), str(path.parent / "now"), str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def answered(path: Path) -> Counter[str]:
    """How often each tick was answered by a run that is in the ledger."""
    clock = FileClock(str(path.parent / "now"), random.Random(0))
    clock.now_ms = lambda: int((path.parent / "now").read_text())  # type: ignore[method-assign]
    resolved = config.load(str(path), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
    with open_session(resolved, clock=clock) as session:
        upkeep = Daemon(session, ["plain"], lambda _name, _problem: None)
        for _ in range(50):  # what a dead one held is free when its lease is over
            list(upkeep.begin())
            list(upkeep.turn(patient=False))
            if not any(session.state.inbox.waiting()) and not any(session.state.runs.unfinished()):
                break
            time.sleep(0.1)
        assert not any(session.state.inbox.waiting())
        found = Counter(
            receipt.reason.rpartition(", ")[2]
            for entry in session.state.ledger.entries()
            if (receipt := session.state.ledger.receipt(entry.run_id)) is not None and receipt.trigger == "schedule"
        )
        ticks = Counter(rfc3339(tick.at_ms) for tick in session.state.ticks.of("plain") if tick.trigger_id)
    assert found == ticks
    return found


def worn_out(path: Path, processes: int, ticks: int, seed: int) -> dict[str, int]:
    """Let time pass over processes that are killed, stopped and begun again."""
    pick = random.Random(seed)
    now = path.parent / "now"
    at_work = [begun(path, n) for n in range(processes)]
    did = {"kills": 0, "stops": 0}
    try:
        for process in at_work:
            assert process.stdout is not None and process.stdout.readline() == "up\n"
        for n in range(1, ticks + 1):
            fresh = now.with_name("now.new")
            fresh.write_text(str(BEGIN_MS + n * STEP_MS))
            os.replace(fresh, now)
            time.sleep(pick.random() * 0.03)
            if pick.random() < 0.3:
                unlucky = pick.randrange(processes)
                at_work[unlucky].kill()
                at_work[unlucky].wait()
                assert at_work[unlucky].stdout is not None
                at_work[unlucky].stdout.close()  # type: ignore[union-attr]
                at_work[unlucky] = begun(path, 1000 + n)
                did["kills"] += 1
            if pick.random() < 0.2:
                os.kill(pick.choice(at_work).pid, signal.SIGSTOP)
                did["stops"] += 1
            if pick.random() < 0.3:
                for process in at_work:
                    os.kill(process.pid, signal.SIGCONT)
    finally:
        for process in at_work:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    return did


def tried(folder: Path, processes: int, ticks: int, seed: int) -> None:
    path = lay_out(folder, "all")
    answered(path)  # followed from here on
    did = worn_out(path, processes, ticks, seed)
    assert did["kills"] and did["stops"]
    expected = {rfc3339(BEGIN_MS + n * STEP_MS): 1 for n in range(1, ticks + 1)}
    assert answered(path) == expected


def test_every_tick_has_one_run_whichever_process_is_killed(tmp_path: Path) -> None:
    tried(tmp_path, processes=3, ticks=60, seed=1)


@pytest.mark.long
def test_a_thousand_ticks_among_sixteen_processes(tmp_path: Path) -> None:
    tried(tmp_path, processes=16, ticks=1000, seed=2)


def test_only_the_last_is_made_up_for_where_that_is_declared(tmp_path: Path) -> None:
    path = lay_out(tmp_path, "last")
    answered(path)
    (tmp_path / "now").write_text(str(BEGIN_MS + 500 * STEP_MS))
    assert answered(path) == {rfc3339(BEGIN_MS + 500 * STEP_MS): 1}
