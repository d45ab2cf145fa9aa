"""One worker process: it opens the installation, does jobs, and reports its counts to its supervisor, if it has one."""

from __future__ import annotations

import os
import select
import sys
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kfm import config
from kfm.app.daemon.worker_health import look, metric_lines, metrics_of_worker
from kfm.app.daemon.worker_loop import WorkerLoop
from kfm.app.jobs.job_pools import PROTECTED
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.runs.execution import problem_of
from kfm.app.session.backends import open_log
from kfm.app.session.session import open_session
from kfm.clock import from_environment
from kfm.errors import BadInput, Denied, KfmError, Unavailable
from kfm.parsing.characters import printable
from kfm.workers.drain import Drain
from kfm.workers.health import Health, check_listen, serving
from kfm.workers.sampler import Sampler
from kfm.workers.screen import receipt_line, say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from kfm.app.daemon.worker_health import JobCounts, WorkerMetrics
    from kfm.app.jobs.job_worker import JobResult
    from kfm.config import Resolved
    from kfm.model.ports import Log

STALE_S = 60.0  # a loop that neither works nor came by for so long is dead


def settings(options: argparse.Namespace) -> Resolved:
    """Return the configuration. BadInput with all its mistakes, or if its state is one that no other process sees."""
    try:
        resolved = config.load(options.config, os.environ)
    except BadInput as problem:
        from kfm.app.maintenance.config_check import with_others

        raise with_others(problem, options.config, os.environ) from None
    if resolved.location(resolved.config.state)[0] == "memory":
        raise BadInput("state: memory is seen by no other process", hint="use sqlite:PATH or postgresql://…")
    known = {*resolved.config.custodians, PROTECTED}
    unknown = sorted(set(options.pool) - known)
    if unknown:
        raise BadInput(
            f"--pool {printable(unknown[0])[:80]} is no custodian of the configuration",
            hint=f"there are: {', '.join(sorted(known))}",
        )
    return resolved


def check(options: argparse.Namespace, resolved: Resolved) -> None:
    """Raise what would stand against working: the state, secrets, libraries. A broker that does not answer or refuses
    the password is no reason: the worker says so, and looks into the inbox until the broker can be used."""
    if options.listen is not None:
        check_listen(options.listen[0], behind_proxy=options.behind_proxy)
    with open_session(resolved) as session:
        if not resolved.config.queue:
            return
        try:
            session.wake_up.messages()
        except (Unavailable, Denied) as problem:
            every_s = resolved.config.workers.sweep_s
            say(f"kfm: {problem}; until it can be used, workers look into the inbox every {every_s:g} s")


class WorkerProcess:
    """A worker that runs in this process."""

    def __init__(self, options: argparse.Namespace, resolved: Resolved) -> None:
        self._options = options
        self._resolved = resolved
        self._clock = from_environment()
        self._metrics: WorkerMetrics = metrics_of_worker()
        self._pipe: int | None = options.report_to
        self.drain = Drain(_told if self._pipe is None else lambda _count: None)
        self._log = self._open_log()
        self._code = 0
        self._reported: tuple[bool, bool | None] = True, None
        self._poll = select.poll()
        if self._pipe is not None:
            self._poll.register(self._pipe, 0)
        self._loop = WorkerLoop(
            partial(open_session, resolved, log=self._log, clock=self._clock),
            self._worker_on,
            told=self._ended,
            goes_on=self._goes_on,
            clock=self._clock,
            log=self._log,
            pools=options.pool,
        )
        self._sampler = Sampler(partial(look, resolved, options.pool), resolved.config.workers.sweep_s, self._clock)

    def run(self) -> int:
        """Work until told to stop. Return the exit code."""
        options = self._options
        with ExitStack() as stack:
            stack.enter_context(self.drain.hearing())
            if options.listen is not None:
                stack.enter_context(self._sampler.sampling())
                port = stack.enter_context(serving(options.listen, Health(self._live, self._ready, self._text)))
                say(f"listening on {options.listen[0]} port {port}")
            if self._pipe is None and not options.once:
                say("worker: ready; Ctrl-C ends it")
            self._log.event("worker.started", pools=options.pool)
            self._report()
            self._loop.run(once=options.once)
            self._report()
            self._log.event("worker.stopped")
        if self._pipe is None and not options.once:
            say("stopped; nothing is at work")
        return self._code if options.once else 0

    def _worker_on(self, session: Any) -> JobWorker:
        return JobWorker(session, pools=self._options.pool, tell=self._problem, goes_on=self._goes_on)

    def _goes_on(self) -> bool:
        """Return whether to begin another job. A worker whose supervisor has died stops, because nobody could stop it
        later."""
        if self._pipe is not None:
            if self._is_orphan():
                self.drain.stop()
            elif self._answers() != self._reported:
                self._report()
        return self.drain.goes_on()

    def _is_orphan(self) -> bool:
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in self._poll.poll(0))

    def _ended(self, result: JobResult) -> None:
        for receipt in result.receipts:
            receipt_line(receipt)
            problem = problem_of(receipt)
            if problem is not None:
                self._problem(receipt.dataset or receipt.job_type, problem)
        self._report()

    def _problem(self, about: str, problem: KfmError) -> None:
        self._failed(problem)
        say(f"kfm: {about}: {problem}" if about else f"kfm: {problem}")

    def _failed(self, problem: KfmError) -> None:
        self._code = self._code or problem.exit_code

    def _open_log(self) -> Log:
        wanted = os.environ.get("KFM_LOG")
        return open_log(
            sys.stderr if self._options.verbose else None,
            service="workers",
            lines="jsonl" if wanted == "jsonl" else "human",
            causes=sys.stderr if wanted == "debug" else None,
            clock=self._clock,
            heard=self._hear,
        )

    def _hear(self, line: Mapping[str, Any]) -> None:
        before = self._metrics.changes
        self._metrics.hear(line)
        if self._metrics.changes != before:
            self._report()

    # -- health

    def _counts(self) -> JobCounts:
        return self._metrics.counts(self._loop.discarded)

    def _report(self) -> None:
        """Write the counts to the supervisor, if there is one."""
        if self._pipe is None:
            return
        self._reported = state, broker = self._answers()
        body = msgspec.json.encode({"counts": self._counts(), "state": state, "broker": broker})
        with suppress(OSError):  # it is gone: the next look notices
            os.write(self._pipe, body + b"\n")

    def _answers(self) -> tuple[bool, bool | None]:
        """Return whether state and broker answer."""
        return self._loop.problem is None, self._broker()

    def _broker(self) -> bool | None:
        return self._loop.broker_problem is None if self._resolved.config.queue else None

    def _live(self) -> tuple[bool, dict[str, Any]]:
        still_s = self._clock.monotonic() - self._loop.beat
        alive = self._loop.at_work or still_s < STALE_S
        return alive, {"alive": alive, "at_work": self._loop.at_work}

    def _ready(self) -> tuple[bool, dict[str, Any]]:
        return readiness(self._sampler, draining=not self.drain.goes_on())

    def _text(self) -> str:
        pools = self._options.pool
        found = metric_lines(self._counts(), self._sampler.last, pools, broker=self._broker())
        return "".join(f"{line}\n" for line in found)


def readiness(sampler: Sampler, *, draining: bool) -> tuple[bool, dict[str, Any]]:
    """Return whether a worker can take jobs, and why. A freeze is no failure: it is someone's decision."""
    seen = sampler.last
    body = {"ready": seen is not None and not draining, "draining": draining, "state": seen is not None}
    if seen is not None:
        body["frozen"] = seen.frozen
    return bool(body["ready"]), body


def _told(count: int) -> None:
    if count == 1:
        say("stopping: the job at work is finished first; once more leaves it to be resumed")
