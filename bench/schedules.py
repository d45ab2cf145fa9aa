"""When things run: what it costs to look. Each case runs alone in a child process.

python schedules.py CASE N FOLDER
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from probe import Stopwatch, report

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger

ROWS = """\
from kfm import Output, Plan, Step, Updater


class Rows(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rows.csv")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output(read.bytes(0), media_type="text/csv")
"""
DATASETS = 100
DUE = 10  # of so many schedules one is due at the same instant
NOON_MS = 1_780_056_000_000
IDLE_S = 20


def laid_out(folder: str, schedules: int, datasets: int = DATASETS, *, aged: bool = False, hour: int = 13) -> str:
    """An installation whose schedules are in ten files."""
    path, place = os.path.join(folder, "kfm.yml"), os.path.join(folder, "pipelines", "schedules")
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(folder, "rows.csv"), "w") as file:
        file.write("id,n\na,1\n")
    with open(os.path.join(folder, "rows.py"), "w") as file:
        file.write(ROWS)
    with open(path, "w") as file:
        file.write("kfm: 1\naccept_weak_storage: true\npublish: noop\nwatch: {poll_s: 0}\ndatasets:\n")
        for n in range(datasets):
            file.write(
                f"  d{n}: {{updater: rows.py:Rows, freshness: {{max_age: 1h}}}}\n"
                if aged
                else f'  d{n}:\n    version: "1.0.0"\n    sources: {{rows: {{uri: rows.csv, format: csv}}}}\n'
                "    outputs: {rows: {from: rows}}\n"
            )
    for part in range(10):
        with open(os.path.join(place, f"{part}.yml"), "w") as file:
            file.write("version: 1\nschedules:\n")
            for n in range(part, schedules, 10):
                when = f"0 {hour} * * *" if n % DUE == 0 and hour else f"{n % 60} 3 {n % 28 + 1} 2 *"
                file.write(f'  s{n}: {{dataset: d{n % datasets}, cron: "{when}", timezone: America/Chicago}}\n')
            if not schedules:
                file.write("  {}\n")
    return path


def opened(path: str, clock: Any) -> Any:
    from kfm.app.session.session import open_session
    from kfm.config import load

    return open_session(load(path, {}), clock=clock)


def due(n: int, folder: str) -> None:
    """Of n schedules a tenth is due at one instant: from looking at the clock to triggers that are durable."""
    from kfm.app.runs.due_schedules import Ticker
    from kfm.clock import FixedClock

    clock, path = FixedClock(NOON_MS), laid_out(folder, n)
    begun = time.monotonic()
    with opened(path, clock) as session:
        ticker = Ticker(session, sorted(session.config.datasets))
        loaded = time.monotonic() - begun
        ticker.claim()  # followed from here on
        clock.advance(59_000)
        assert not ticker.claim()
        for _ in range(6 * 60 + 1):  # minute by minute, as one that is up does, until it is one o'clock in Chicago
            clock.advance(60_000 - (59_000 if _ == 0 else 0))
            with Stopwatch() as watch:
                claimed = ticker.claim()
            if claimed:
                break
        assert len(claimed) == n // DUE == sum(1 for _ in session.state.inbox.waiting()), len(claimed)
    watch.report(1, loaded_s=loaded)


def idle(n: int, folder: str) -> None:
    """`kfm up` with n schedules of which none is due: how long the processor works for it in a second, and
    what it holds in memory."""
    path = laid_out(folder, n, hour=0)
    command = [sys.executable, "-m", "kfm.cli.main", "up", "--config", path]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None and "up:" in process.stderr.readline()
    last = 0.0
    while (now := spent(process.pid)) - last > 0.1:  # it looks at all of them once
        last = now
        time.sleep(2)
    before, begun = spent(process.pid), time.monotonic()
    time.sleep(IDLE_S)
    share, peak = (spent(process.pid) - before) / (time.monotonic() - begun), held(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    report(1, share, None, peak_mib=peak)


def spent(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def held(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


def freshness(n: int, folder: str) -> None:
    """Of n datasets, each of which ran three times and has a target: how old it is, and whom to blame."""
    from kfm.app.runs.freshness import freshness as told
    from kfm.clock import FixedClock

    clock = FixedClock(NOON_MS)
    with opened(laid_out(folder, 0, n, aged=True), clock) as session:
        names = sorted(session.config.datasets)
        for _ in range(3):
            for name in names:
                run_trigger(session, new_trigger(session, name, actor="bench"))
            clock.advance(3_600_000)
        with Stopwatch() as watch:
            found = told(session, names)
        assert len(found) == n and all(each.verdict == "late" and each.blame for each in found)
    watch.report(1)


CASES: dict[str, Callable[[int, str], None]] = {"due": due, "idle": idle, "freshness": freshness}

if __name__ == "__main__":
    CASES[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
