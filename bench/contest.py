"""Runs contestants in turn and keeps what they say of themselves.

The order of a round is: yardstick, contestant, yardstick, contestant, …, yardstick. A contestant is
held against the yardsticks just before and just after it (their geometric mean), so that a machine
that is slow for a minute is slow for both.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import shim

HERE = Path(__file__).resolve().parent
Measure = Literal["rate", "ms", "mib"]  # units a second; milliseconds a unit; peak resident MiB
Sample = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One program doing one piece of work. `argv` is a script of this folder and its case."""

    name: str
    argv: tuple[str, ...]
    n: int
    durable: str = ""  # what is durable, and when
    peer: str = ""  # whose environment it runs in; empty: ours
    rounds: int = 99  # at most so many of the rounds
    tail: tuple[str, ...] = ()  # arguments after the folder
    traced: bool = False  # syncs are counted once more under strace: the shim does not reach it


@dataclass(frozen=True, slots=True)
class Work:
    """One thing to do, who does it, and what it is measured in."""

    id: str
    title: str
    unit: str
    measure: Measure
    contestants: tuple[Contestant, ...]
    yardstick: Contestant | None = None
    delay_us: int = 0
    per: str = "step"
    big: bool = False
    note: str = ""


@dataclass(slots=True)
class Row:
    """All samples of one contestant at one work."""

    contestant: Contestant
    n: int
    samples: list[Sample] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    absent: str = ""
    traced_syncs: float | None = None


@dataclass(slots=True)
class Setting:
    """How this contest is run."""

    room: Path
    python_of: Callable[[Contestant], str | None]  # None: the peer is not installed
    rounds: int = 5
    scale: float = 1.0
    peers: bool = True
    library: Path | None = None  # the built shim
    timeout_s: float = 300
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)


_adopting = False


def adopt_orphans() -> None:
    """From now on whatever a contestant leaves running becomes our child, and is ended after its turn.

    For a process whose only children are contestants.
    """
    global _adopting
    if sys.platform == "linux":
        _adopting = ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER


def _end_orphans() -> None:
    if not _adopting:
        return
    try:
        left = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return
    for pid in map(int, left):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


class ChildFailed(Exception):
    """A contestant gave no result; the message is its last line."""


def run_child(setting: Setting, contestant: Contestant, n: int, delay_us: int = 0, *, traced: bool = False) -> Sample:
    """One sample: a process of its own in an empty folder of its own."""
    python = setting.python_of(contestant)
    if python is None:
        raise ChildFailed("not installed")
    folder = setting.room / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("KFM_", "PYTHON"))}
    if setting.library is not None:
        environ |= shim.environment(setting.library, setting.room / "counts", delay_us)
        (setting.room / "counts").unlink(missing_ok=True)
    if traced:
        environ["BENCH_STRACE"] = "1"
    script, *case = contestant.argv
    command = [python, str(HERE / script), *case, str(n), str(folder), *contestant.tail]
    with open(setting.room / "out", "w+") as out, open(setting.room / "err", "w+") as err:
        child = subprocess.Popen(command, cwd=folder, env=environ, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        try:
            code = child.wait(setting.timeout_s)
        except subprocess.TimeoutExpired:
            code = None
            child.kill()
            child.wait()
        finally:
            _end_orphans()
        out.seek(0)
        err.seek(0)
        results = [line for line in out if line.startswith("RESULT ")]
        if code != 0 or not results:
            last = [line.strip() for line in err if line.strip()][-1:] or ["no message"]
            raise ChildFailed(f"{'timed out' if code is None else f'exit {code}'}: {last[0][:200]}")
    shutil.rmtree(folder, ignore_errors=True)
    sample: Sample = json.loads(results[-1].removeprefix("RESULT "))
    if setting.library is not None and delay_us and sample.get("syncs") == 0 and contestant.durable:
        raise ChildFailed("the delay reached no sync of it")
    return sample


def value_of(measure: Measure, sample: Sample) -> float:
    if measure == "mib":
        return float(sample["peak_mib"])
    seconds, units = float(sample["seconds"]), float(sample["units"])
    return units / seconds if measure == "rate" else 1000 * seconds / units


def contest(work: Work, setting: Setting) -> list[Row]:
    """All rounds of one work."""
    rows = [
        Row(contestant, scaled(contestant, work, setting))
        for contestant in work.contestants
        if setting.peers or not contestant.peer
    ]
    ruler = Row(work.yardstick, scaled(work.yardstick, work, setting)) if work.yardstick else None
    started = time.monotonic()
    for turn in range(setting.rounds):
        entered = [row for row in rows if turn < row.contestant.rounds and not row.absent]
        before = _take(work, setting, ruler)
        for row in entered:
            value = _take(work, setting, row)
            after = _take(work, setting, ruler)
            if value is not None and before is not None and after is not None:
                row.ratios.append(value / (before * after) ** 0.5)
            before = after
    for row in rows:
        if row.contestant.traced and not row.absent and shutil.which("strace"):
            with contextlib.suppress(ChildFailed):
                sample = run_child(setting, row.contestant, row.n, traced=True)
                if sample.get("traced_syncs") is not None:
                    row.traced_syncs = sample["traced_syncs"] / sample["units"]
    setting.say(f"  {work.id}: {time.monotonic() - started:.0f} s")
    if ruler is not None:
        ruler.ratios = [1.0]
        rows.insert(0, ruler)
    return rows


def scaled(contestant: Contestant, work: Work, setting: Setting) -> int:
    """How much of it to do; a quick contest does less, never less than one."""
    if work.id in ("resume", "cold", "memory"):
        return contestant.n if setting.scale == 1 else max(1, min(contestant.n, 5 if work.id == "cold" else 10_000))
    return max(1, round(contestant.n * setting.scale))


def _take(work: Work, setting: Setting, row: Row | None) -> float | None:
    if row is None or row.absent:
        return None
    try:
        sample = run_child(setting, row.contestant, row.n, work.delay_us)
    except ChildFailed as problem:
        if not row.samples:
            row.absent = str(problem)
        setting.say(f"  {work.id}: {row.contestant.name}: {problem}")
        return None
    row.samples.append(sample)
    return value_of(work.measure, sample)


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1]) if found else None
