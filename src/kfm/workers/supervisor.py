"""Several workers: a process for each, started again when it dies, and stopped with the supervisor."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from kfm.app.daemon.worker_health import JobCounts, added, look, metric_lines
from kfm.clock import from_environment
from kfm.errors import EXIT_CODES
from kfm.workers.drain import Drain
from kfm.workers.health import Health, serving
from kfm.workers.process import STALE_S, readiness
from kfm.workers.sampler import Sampler
from kfm.workers.screen import say

if TYPE_CHECKING:
    import argparse

    from kfm.config import Resolved

LOOK_S = 0.2  # between two looks at the children
FIRST_S, MOST_S = 0.5, 60.0  # before a child that died is started again
LONG_S = 60.0  # a child that lived so long was well
FINAL = frozenset(EXIT_CODES[name] for name in ("usage", "refused", "denied"))  # the same would happen again
MOST_REPORT = 1 << 16  # bytes of a line from a child


class Report(msgspec.Struct):
    """What a child last said about itself."""

    counts: JobCounts = JobCounts()
    state: bool = True
    broker: bool | None = None


class Child:
    """One worker process, and those that were in its place before."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self.pipe = -1
        self._half = b""
        self.report = Report()
        self.before = JobCounts()  # the counts of the processes that ended
        self.began = 0.0
        self.next = 0.0  # when to start it again
        self.pause_s = 0.0
        self.code: int | None = None  # of the last one that ended

    def start(self, now: float) -> None:
        """Start the process. It is in a process group of its own, so that a Ctrl-C reaches it once, through us."""
        self.pipe, theirs = os.pipe()
        os.set_blocking(self.pipe, False)
        self._process = subprocess.Popen(
            [*self._command, "--report-to", str(theirs)], pass_fds=(theirs,), process_group=0, stdin=subprocess.DEVNULL
        )
        os.close(theirs)
        self.began, self.code, self.report, self._half = now, None, Report(), b""

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def counts(self) -> JobCounts:
        return added(self.before, self.report.counts)

    def read(self) -> None:
        """Take what the process has reported. Lines of another form are left out."""
        while True:
            try:
                data = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            *whole, self._half = (self._half + data).split(b"\n")
            self._half = self._half[-MOST_REPORT:]
            for line in whole:  # each holds everything
                with suppress(msgspec.DecodeError):
                    self.report = msgspec.json.decode(line, type=Report)

    def ended(self, now: float) -> bool:
        """Return whether the process has just ended; then its counts are kept, and the time to start it again is
        set."""
        if self._process is None or (code := self._process.poll()) is None:
            return False
        self.read()
        os.close(self.pipe)
        self.before, self.report = self.counts, Report()
        self._process, self.code = None, code
        self.pause_s = FIRST_S if now - self.began > LONG_S else min(max(2 * self.pause_s, FIRST_S), MOST_S)
        self.next = now + self.pause_s
        return True

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)


class Supervisor:
    """Keeps so many workers alive."""

    def __init__(self, options: argparse.Namespace, resolved: Resolved) -> None:
        self._options = options
        self._resolved = resolved
        self._clock = from_environment()
        self._children = [Child(_command(options, resolved)) for _ in range(options.concurrency)]
        self._drain = Drain(self._told, ends_at=1 << 30)
        self._sent = 0  # signals that the children got
        self._beat = self._clock.monotonic()
        self._sampler = Sampler(partial(look, resolved, options.pool), resolved.config.workers.sweep_s, self._clock)
        self._final = 0  # an exit code that ends everything

    def run(self) -> int:
        """Work until told to stop, and all children have ended. Return the exit code."""
        options = self._options
        with ExitStack() as stack:
            stack.enter_context(self._drain.hearing())
            if options.listen is not None:
                stack.enter_context(self._sampler.sampling())
                port = stack.enter_context(serving(options.listen, Health(self._live, self._ready, self._text)))
                say(f"listening on {options.listen[0]} port {port}")
            selector = stack.enter_context(selectors.DefaultSelector())
            for child in self._children:
                self._start(child, selector)
            if not options.once:
                say(f"workers: {options.concurrency} processes; Ctrl-C ends them")
            while self._goes_on():
                self._turn(selector)
        return self._code()

    def _goes_on(self) -> bool:
        if any(child.alive for child in self._children):
            return True
        return self._drain.goes_on() and not self._final and any(self._again(child) for child in self._children)

    def _turn(self, selector: selectors.BaseSelector) -> None:
        for key, _ in selector.select(LOOK_S) if selector.get_map() else self._nap():
            key.data.read()
        now = self._beat = self._clock.monotonic()
        for child in self._children:
            pipe = child.pipe
            if child.ended(now):
                selector.unregister(pipe)
                self._bury(child)
            elif not child.alive and self._again(child) and now >= child.next:
                self._start(child, selector)
        while self._sent < self._drain.signals:
            self._sent += 1
            for child in self._children:
                child.signal(signal.SIGTERM)

    def _nap(self) -> list[NoReturn]:
        self._clock.sleep(LOOK_S)
        return []

    def _start(self, child: Child, selector: selectors.BaseSelector) -> None:
        child.start(self._clock.monotonic())
        selector.register(child.pipe, selectors.EVENT_READ, child)

    def _again(self, child: Child) -> bool:
        """Return whether to start this child again."""
        if not self._drain.goes_on() or self._final:
            return False
        return not (self._options.once and child.code is not None and child.code >= 0)

    def _bury(self, child: Child) -> None:
        if not self._drain.goes_on() or child.code is None or (self._options.once and child.code >= 0):
            return
        if child.code in FINAL:
            self._final = child.code
            self._drain.stop()
            return
        how = signal.Signals(-child.code).name if child.code < 0 else f"exit code {child.code}"
        say(f"a worker ended ({how}); another one starts in {child.pause_s:g} s")

    def _code(self) -> int:
        if self._final:
            return self._final
        codes = [child.code for child in self._children if child.code]
        if self._drain.signals == 1:  # it ended a child that had not begun to listen for signals, nor to work
            codes = [code for code in codes if code != -signal.SIGTERM]
        return 0 if not codes else codes[0] if codes[0] > 0 else 128 - codes[0]

    def _told(self, count: int) -> None:
        if count == 1:
            say("stopping: the jobs at work are finished first; once more leaves them to be resumed")

    # -- health

    def _live(self) -> tuple[bool, dict[str, Any]]:
        alive = self._clock.monotonic() - self._beat < STALE_S
        return alive, {"alive": alive, "workers": self._workers()}

    def _ready(self) -> tuple[bool, dict[str, Any]]:
        is_ready, body = readiness(self._sampler, draining=not self._drain.goes_on())
        workers = self._workers()
        return is_ready and workers > 0, {**body, "ready": is_ready and workers > 0, "workers": workers}

    def _workers(self) -> int:
        return sum(child.alive for child in self._children)

    def _text(self) -> str:
        counts = JobCounts()
        for child in self._children:
            counts = added(counts, child.counts)
        alive = [child.report for child in self._children if child.alive]
        broker = all(report.broker is not False for report in alive) if self._resolved.config.queue else None
        found = metric_lines(counts, self._sampler.last, self._options.pool, workers=self._workers(), broker=broker)
        return "".join(f"{line}\n" for line in found)


def _command(options: argparse.Namespace, resolved: Resolved) -> list[str]:
    """Return the command line of a child: the same, for one process, without a listener."""
    flags = ["--config", resolved.path]
    for pool in options.pool:
        flags += ["--pool", pool]
    flags += ["--once"] if options.once else []
    flags += ["--verbose"] if options.verbose else []
    return [sys.executable, "-m", "workers", "run", *flags]
