"""`kfm up`: runs an installation in one process: schedules, watched sources, waiting triggers, backfills and sinks.

With `queue` set it only makes triggers, and workers answer them; it still publishes what is pending, plans and runs
backfills, and notifies sinks.

It decides when work starts; each run does the work. It keeps nothing that may not be lost. A second process, a kill or
a changed clock does no harm, because each tick is claimed once and each run holds a lease.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from kfm.app.backfills.backfill_worker import Backfills
from kfm.app.daemon.leader_election import LeaderLease
from kfm.app.daemon.requested_acts import RequestedActs
from kfm.app.daemon.source_watch import Watch
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.previews.preview_expiry import DAYS, expired_previews, remove_expired
from kfm.app.runs.due_schedules import Ticker, read_again, schedules_of
from kfm.app.session.datasets import dataset_config
from kfm.app.session.protection_files import can_close
from kfm.app.session.session import Session
from kfm.config.schedule_files import stamp
from kfm.errors import BadInput, Broken, Busy, KfmError
from kfm.model import refs
from kfm.model.ports import Log
from kfm.model.records import Receipt

FILES_MS = 5_000  # between two checks of the schedule files
SWEEP_MS = 3_600_000  # between two searches for expired previews
SETTLE_MS = 10_000  # between two attempts at failed sinks and unfinished work of others


class Daemon:
    """The loop of `kfm up`: first due ticks, then waiting triggers."""

    def __init__(
        self,
        session: Session,
        datasets: Sequence[str],
        tell: Callable[[str, KfmError], None],
        *,
        goes_on: Callable[[], bool] = lambda: True,
        jobs: int = 1,
        advanced: Callable[[str, str, int, int], None] = lambda _dataset, _stage, _done, _total: None,
    ) -> None:
        self._session = session
        self._datasets = datasets
        self._tell = tell
        self._goes_on = goes_on
        self._files, self._config = stamp(session.resolved), _changed_at(session.resolved.path)
        self._protection: list[int] = []  # when the label file and the masking policies were changed
        self._files_at = session.clock.monotonic()
        self._swept_at: float | None = None
        self._news: list[str] = []
        self.readings = 0  # how often the schedules were read again
        self._ticker = Ticker(session, datasets, self._report_problem)
        self.watching = Watch(
            session,
            datasets,
            self._report_problem,
            polled=_is_polled(session),
            goes_on=self._may,
            jobs=jobs,
            advanced=advanced,
            answers=not session.config.queue,
        )
        self._jobs = None if session.config.queue else self._job_worker(datasets)
        self._turn = LeaderLease(session, datasets)
        self._takes_turns = False
        self._has_turn: bool | None = None
        self._settled = -1  # the last ledger entry that was reported to all sinks
        self._settled_at = 0.0
        self._backfills = Backfills(session, datasets, self._report_problem, goes_on=self._may)
        self.acting = threading.Lock()  # one thread at a time carries out what was requested
        self._acts = RequestedActs(session, datasets, self._report_problem, goes_on=self._may, alone=self.acting)

    def _job_worker(self, datasets: Sequence[str]) -> JobWorker:
        """Return the worker that does enqueued jobs in this process, which has all the rights of the installation."""
        return JobWorker(
            self._session,
            pools=None,
            datasets=datasets,
            tell=self._report_problem,
            goes_on=self._may,
            enqueued_only=True,
        )

    @property
    def schedules(self) -> int:
        return len(self._ticker)

    @property
    def log(self) -> Log:
        return self._session.log

    def lend(self, session: Session) -> None:
        """Share the updaters that this loop has loaded with another session."""
        session.updaters = self._session.updaters

    def _report_problem(self, about: str, problem: KfmError) -> None:
        """Report a problem. Busy is only logged, because another worker has the work and this loop will look again."""
        if self._takes_turns and isinstance(problem, Busy):
            self._session.log.event("run.awaited", about=about, error=problem)
        else:
            self._tell(about, problem)

    def _may(self) -> bool:
        return self._goes_on() and (not self._takes_turns or self._turn.take())

    def my_turn(self) -> bool | None:
        """Take or renew the leader lease. Return whether this process leads; None if that has not changed since the
        last call."""
        self._takes_turns = True
        has = self._turn.take()
        changed, self._has_turn = has != self._has_turn, has
        return has if changed else None

    @property
    def stands_by(self) -> bool:
        """Whether another process leads."""
        return self._has_turn is False

    def wait_for_turn(self) -> bool:
        """Wait for the leader lease and return True; False if another process renews it, which then does the work. For
        a process that ends by itself, such as `kfm up --once`."""
        seen = self._turn.holder()
        waited_ms = 0
        while not self._turn.take():
            now = self._turn.holder()
            if now is None:
                continue
            if seen is None or (now.token, now.expires_ms) != (seen.token, seen.expires_ms):
                return False
            if waited_ms > now.ttl_ms:  # the lease never expires, because the clock stands still
                return True
            self._session.clock.sleep(0.1)
            waited_ms += 100
        return True

    def end(self) -> None:
        self._turn.give_back()

    def begin(self) -> Iterator[Receipt]:
        """Finish runs that an earlier process left unfinished; yield the receipts."""
        return self.watching.take_up()

    def turn(self, *, patient: bool = True) -> Iterator[Receipt]:
        """Do one round: claim ticks, poll one due source, run waiting triggers and one partition of each backfill.
        Yields the receipts."""
        self._read_again()
        yield from self._sweep()
        yield from self._requested()
        self._ticker.claim()
        self.watching.poll()
        yield from self.watching.drain(patient=patient)
        yield from self._do_jobs()
        yield from self._backfills.turn()

    def _requested(self) -> Iterator[Receipt]:
        """Carry out the operations and signatures that servers accepted; yield the receipts."""
        self.watching.busy = True
        try:
            yield from self._acts.turn()
        finally:
            self.watching.busy = False

    def _do_jobs(self) -> Iterator[Receipt]:
        """Do the enqueued jobs that are ready; yield the receipts. With `queue` set, workers do them."""
        if self._jobs is None:
            return
        while True:
            self.watching.busy = True
            self._jobs.turn()
            self.watching.busy = False
            if self._jobs.last is None:
                return
            yield from self._jobs.last.receipts

    def _read_again(self) -> None:
        """Read the schedule files again if they changed. A mistake in them is reported, and the schedules read before
        stay."""
        now, session = self._session.clock.monotonic(), self._session
        if 0 <= (now - self._files_at) * 1000 < FILES_MS:
            return
        self._files_at = now
        self._withdraw_closed()
        if (config := _changed_at(session.resolved.path)) != self._config:
            self._config = config
            self._news.append("kfm.yml has changed: this process keeps the old settings; stop it and start it again")
        try:
            files, self._files = self._files, stamp(session.resolved)
            if files == self._files:
                return
            read_again(session.resolved)
        except BadInput as problem:
            self._report_problem("", problem)
            return
        self._ticker = Ticker(session, self._datasets, self._report_problem)
        self.watching.follow(_is_polled(session))
        self.readings += 1
        self._news.append(f"the schedule files have changed; number of schedules: {self.schedules}")
        session.log.event("schedules.changed", schedules=self.schedules)

    def _withdraw_closed(self) -> None:
        """Withdraw what the label file or a masking policy closes since it was changed."""
        resolved = self._session.resolved
        masks = [one.mask for dataset in resolved.config.datasets.values() for one in dataset.sources.values()]
        found = [_changed_at(resolved.at(path)) for path in (resolved.config.labels, *masks) if path]
        if found == self._protection:
            return
        self._protection = found
        if can_close(resolved, self._session.state):
            from kfm.app.authority.recall import recall, recalled_line

            try:
                self._news += [recalled_line(one) for one in recall(self._session)]
            except Broken:
                raise
            except KfmError as problem:
                self._report_problem("", problem)

    def news(self) -> list[str]:
        """Return new messages for the operator, each once."""
        said = []
        while self._news:  # another thread may add one meanwhile
            said.append(self._news.pop(0))
        return said

    def add_news(self, line: str) -> None:
        """Add a message for the operator; from any thread."""
        self._news.append(line)

    def _sweep(self) -> Iterator[Receipt]:
        """Remove previews that were not built for a long time; yield the receipts."""
        now = self._session.clock.monotonic()
        if self._swept_at is not None and 0 <= (now - self._swept_at) * 1000 < SWEEP_MS:
            return
        self._swept_at = now
        if not list(self._session.state.refs.all(refs.PREVIEW)):
            return
        for each in expired_previews(self._session, DAYS, by_age=True):
            if not self._goes_on():
                return
            try:
                yield remove_expired(self._session, each, reason="", actor="kfm up")
            except Broken:
                raise
            except KfmError as problem:  # a worker uses it; the next sweep tries again
                self._report_problem(f"preview {each.name}", problem)

    def more(self) -> bool:
        """Return whether a source was not polled yet."""
        return self.watching.more()

    def settles(self) -> bool:
        """Return whether to settle although this process ran nothing: other processes may have run, and a sink may
        answer again."""
        newest = next((entry.index for entry in self._session.state.ledger.entries(reverse=True, limit=1)), 0)
        now = self._session.clock.monotonic()
        if newest == self._settled and 0 <= (now - self._settled_at) * 1000 < SETTLE_MS:
            return False
        self._settled, self._settled_at = newest, now
        return True

    def waits(self) -> bool:
        """Return whether a run waits for a slot of a pool."""
        return self.watching.waits

    def pause_ms(self) -> int:
        """Return the time until the next work, at most a second, because other processes may add triggers."""
        if self.stands_by:
            return 1000
        if self._backfills.more:
            return 0
        at_ms = self._ticker.next_ms()
        soon = 1000 if at_ms is None else max(at_ms - self._session.clock.now_ms(), 0)
        return min(self.watching.pause_ms(), soon, 1000)


class TickThread(threading.Thread):
    """A thread that claims ticks while a run is executing, so that each is skipped, queued or replaces the run at its
    own time. It has a session of its own."""

    def __init__(
        self, opened: Callable[[], Session], upkeep: Daemon, datasets: Sequence[str], *, pause_s: float = 1.0
    ) -> None:
        super().__init__(name="beside", daemon=True)
        self._opened = opened
        self._upkeep = upkeep
        self._datasets = datasets
        self._pause_s = pause_s
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        with ExitStack() as stack:
            session: Session | None = None
            ticker: Ticker | None = None
            readings = 0
            while not self._ended.wait(self._pause_s):
                if not self._upkeep.watching.busy:
                    continue
                try:
                    if session is None:
                        session = stack.enter_context(self._opened())
                        self._upkeep.lend(session)
                    if ticker is None or readings != self._upkeep.readings:
                        readings = self._upkeep.readings
                        ticker = Ticker(session, self._datasets)
                    ticker.claim()
                except KfmError as problem:  # the next round claims the tick
                    self._upkeep.log.event("tick.unclaimed", error=problem)


def _is_polled(session: Session) -> Callable[[str, str], bool]:
    """Return a function that says whether a source is polled. A dataset with a schedule is polled only for sources that
    set `poll_s`."""
    schedules = schedules_of(session.resolved)
    scheduled = {each.dataset for each in schedules if each.on != "event" and not each.implied}

    def polled(dataset: str, source: str) -> bool:
        return dataset not in scheduled or dataset_config(session, dataset).sources[source].poll_s is not None

    return polled


def _changed_at(path: str) -> int:
    """Return when a file was changed; 0 if it is missing."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
