"""`kfm triggers watch`: polls sources on a timetable and runs waiting triggers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec

from kfm.app.authority.classification import declared_settings
from kfm.app.authority.run_setup import context_of
from kfm.app.runs.auto_promotion import promote_left, with_promotions
from kfm.app.runs.event_schedules import event_trigger, note_event
from kfm.app.runs.parallel_jobs import Report, Task, in_parallel, order_of, work_slots
from kfm.app.runs.parallel_runs import Advance, job_session
from kfm.app.runs.run_control import fetch_source, resume_runs, run_trigger
from kfm.app.runs.trigger_request import trigger_updater
from kfm.app.session.datasets import dataset_config
from kfm.app.session.session import Session
from kfm.app.session.work_slots import WorkSlots
from kfm.clock import parse_instant
from kfm.engine.receipt_stage import merge
from kfm.errors import Broken, Full, KfmError, Refused
from kfm.model.backfill_plan import PREFIX
from kfm.model.preview_records import preview_of
from kfm.model.records import Fetched, FetchRequest, Receipt, Trigger
from kfm.model.run_overrides import overrides_of
from kfm.scheduling.polling import Poll, Timetable, merge_polls, note

Tell = Callable[[str, KfmError], None]


def _ignore(_dataset: str, _stage: str, _done: int, _total: int) -> None:
    """Show no progress."""


class Watch:
    """Polls sources on a timetable and runs waiting triggers. Triggers of one dataset that wait together become one
    run.

    It keeps nothing that may not be lost. Another `kfm triggers watch` or `kfm run` at the same time does no harm.
    """

    def __init__(
        self,
        session: Session,
        datasets: Sequence[str],
        tell: Callable[[str, KfmError], None],
        *,
        polled: Callable[[str, str], bool] = lambda _dataset, _source: True,
        goes_on: Callable[[], bool] = lambda: True,
        jobs: int = 1,
        advanced: Callable[[str, str, int, int], None] = _ignore,
        answers: bool = True,
    ) -> None:
        """`goes_on` is called before every run, and says whether it may start here. `advanced` receives the progress of
        each dataset if there are several jobs. Without `answers` the triggers are left to workers."""
        self._session = session
        self._jobs = jobs
        self._advanced = advanced
        self._goes_on = goes_on
        self._tell = tell
        self._polled = polled
        self._answers = answers
        self._watched = frozenset(datasets)
        self._debounce_ms = round(session.config.watch.debounce_s * 1000)
        self._polls = merge_polls(self._sources(datasets))
        self._table = self._timetable()
        self._wait: dict[str, int] = {}  # the earliest next attempt of datasets that failed or are frozen
        self._failures: dict[str, int] = {}
        self.busy = False  # a run is executing
        self.waits = False  # a run of the last round waits for a slot of a pool
        self._unfinished: list[str] = []  # unfinished runs that wait for a slot

    def _timetable(self) -> Timetable:
        said = self._session.config.watch
        return Timetable(self._polls, self._now(), jitter=said.jitter, host_pause_ms=round(said.host_pause_s * 1000))

    def follow(self, polled: Callable[[str, str], bool]) -> None:
        """Poll the sources for which `polled` is true from now on. If they are the same as before, the timetable
        stays."""
        self._polled = polled
        polls = merge_polls(self._sources(sorted(self._watched)))
        if polls != self._polls:
            self._polls = polls
            self._table = self._timetable()

    def _now(self) -> int:
        return round(self._session.clock.monotonic() * 1000)

    def _sources(self, datasets: Sequence[str]) -> Iterator[tuple[str, FetchRequest, int]]:
        for name in datasets:
            declared = dataset_config(self._session, name).sources
            for source_name, (request, _) in declared_settings(self._session, name).sources.items():
                own = declared[source_name].poll_s
                interval = self._session.config.watch.poll_s if own is None else own
                if interval and self._polled(name, source_name):
                    yield name, request, round(interval * 1000)

    def take_up(self) -> Iterator[Receipt]:
        """Finish runs that an earlier process left unfinished; yield the receipts. Runs of branch previews are left to
        `kfm preview build`, which has their files."""
        state = self._session.state
        unfinished = [run for run in state.runs.unfinished() if not preview_of(run.trigger)]
        if not self._answers:  # a worker resumes the run of a trigger that waits
            unfinished = [run for run in unfinished if state.inbox.kept(run.trigger) is None]
        yield from self._finish([run.run_id for run in unfinished if run.dataset in self._watched])
        yield from promote_left(self._session, sorted(self._watched), self._tell, self._note)

    def _finish(self, runs: Sequence[str]) -> Iterator[Receipt]:
        def tell(run_id: str, problem: KfmError) -> None:
            if isinstance(problem, Full):
                self._unfinished.append(run_id)
            else:
                self._tell(run_id, problem)

        for run_id in runs:
            if not self._goes_on():
                return
            self.busy = True
            try:
                yield from self._followed(resume_runs(self._session, run_id, tell, patient=False))
            except Refused as problem:  # another worker ended it meanwhile
                self._session.log.event("run.ended", error=problem)
            self.busy = False

    def poll(self) -> list[Trigger]:
        """Poll a due source, or as many of different hosts as there are jobs, and return the triggers that this
        created."""
        polls = self._table.due_together(self._now(), self._jobs)
        if len(polls) < 2:
            return [trigger for poll in polls for trigger in self._noted(poll, self._fetched(poll))]
        slots = work_slots(self._jobs)
        tasks = [Task(frozenset(), lambda report, poll=poll: report(self._fetched(poll))) for poll in polls]  # type: ignore[misc]
        found = in_parallel(tasks, self._jobs, slots, goes_on=self._goes_on)
        return [trigger for at, fetched in found for trigger in self._noted(polls[at], fetched)]

    def _fetched(self, poll: Poll) -> Fetched | KfmError:
        """Return the source of a poll, or why it could not be fetched."""
        request = msgspec.structs.replace(poll.request, now_ms=self._session.clock.now_ms())
        try:
            return fetch_source(self._session, request, poll.datasets[0])
        except Broken:
            raise
        except KfmError as problem:
            return problem

    def _noted(self, poll: Poll, fetched: Fetched | KfmError) -> list[Trigger]:
        """Store the triggers of a poll, and return them."""
        if isinstance(fetched, KfmError):
            wait = fetched.fields.get("retry_after_s")
            self._table.failed(poll, self._now(), wait * 1000 if isinstance(wait, int) else 0)
            self._tell(", ".join(poll.datasets), fetched)
            return []
        session = self._session
        self._table.answered(poll, self._now())
        kept = note(session.state, poll, fetched, self._trigger, partial(note_event, session), self._tell)
        session.log.event(
            "source.polled",
            source=poll.request.name or "unnamed",
            not_modified=fetched.not_modified,
            triggers=len(kept),
        )
        return kept

    def _trigger(self, dataset: str) -> Trigger | None:
        return event_trigger(self._session, dataset, "poll", actor="kfm watch", reason="its source changed")

    def drain(self, *, patient: bool = True) -> Iterator[Receipt]:
        """Run the waiting triggers, as many datasets at a time as there are jobs; yield the receipts. If `patient`,
        triggers that still gather wait until none has come for a while."""
        left, self._unfinished = self._unfinished, []
        yield from self._finish(left)
        self.waits = bool(self._unfinished)
        now = self._now()
        wall = self._session.clock.now_ms()
        ready: list[tuple[str, list[Trigger]]] = []
        for dataset, group in self._groups().items():
            if self._wait.get(dataset, now) > now:
                continue
            ages = sorted(wall - parse_instant(each.received_at, "a trigger") for each in group if each.received_at)
            gathering = bool(ages) and ages[0] < self._debounce_ms and ages[-1] < 10 * self._debounce_ms
            if not (patient and gathering):
                ready.append((dataset, group))
        if self._jobs > 1 and len(ready) > 1:
            yield from self._answer_together(ready)
            return
        for dataset, group in ready:
            self.busy = True
            yield from self._answer(self._session, dataset, group, self._tell)
            self.busy = False

    def _answer_together(self, ready: Sequence[tuple[str, list[Trigger]]]) -> Iterator[Receipt]:
        """Answer the triggers of these datasets in jobs. Problems are reported in this thread, as the receipts are."""
        slots = work_slots(self._jobs)
        order = order_of(self._session.config, [dataset for dataset, _ in ready])
        tasks = [
            Task(after, partial(self._answer_in_job, slots, dataset, group))
            for after, (dataset, group) in zip(order, ready, strict=True)
        ]
        self.busy = True
        for at, result in in_parallel(tasks, self._jobs, slots, goes_on=self._goes_on):
            if isinstance(result, Receipt):
                yield result
            elif isinstance(result, Advance):
                self._advanced(ready[at][0], *result)
            else:
                self._tell(*result)
        self.busy = False

    def _answer_in_job(self, slots: WorkSlots, dataset: str, group: list[Trigger], report: Report) -> None:
        def tell(about: str, problem: KfmError) -> None:
            report((about, problem))

        try:
            for receipt in self._answer(job_session(self._session, slots, report), dataset, group, tell):
                report(receipt)
        finally:
            report(Advance("", 0, 0))

    def _groups(self) -> dict[str, list[Trigger]]:
        groups: dict[str, list[Trigger]] = {}
        if not self._answers:
            return groups
        jobs = {job.trigger.trigger_id for job in self._session.state.jobs.open()}  # a JobWorker does these
        for trigger in self._session.state.inbox.waiting():
            of_backfill = trigger.trigger_id.startswith(PREFIX)  # the backfill runs these itself
            is_ours = trigger.trigger_id not in jobs and trigger.kind != "operation" and not of_backfill
            if trigger.dataset in self._watched and is_ours:
                groups.setdefault(trigger.dataset, []).append(trigger)
        return groups

    def _answer(self, session: Session, dataset: str, group: list[Trigger], tell: Tell) -> Iterator[Receipt]:
        """Run the oldest trigger and, if it succeeds, merge those that wait for the same into it. Then run the others
        in order."""
        while group and self._goes_on():
            first, rest = group[0], group[1:]
            try:
                receipt = run_trigger(session, first, trigger_updater(session, first), patient=False)
            except Broken:
                raise
            except Full:  # its trigger stays in the queue with its place
                self.waits = True
                return
            except KfmError as problem:
                if session.state.inbox.kept(first) is not None:
                    tell(dataset, problem)
                    self._later(dataset)
                return
            yield from with_promotions(session, [receipt], tell, self._note)
            if receipt.outcome == "cancelled":  # the run that replaced it comes next
                return
            if receipt.status == "FAILED" or receipt.outcome == "frozen":
                self._later(dataset)
                return
            self._failures.pop(dataset, None)
            meant = (first.window, first.partition)
            same = [each for each in rest if (each.window, each.partition) == meant and not overrides_of(each)]
            for each in same:
                merged = merge(context_of(session, each, trigger_updater(session, each)), receipt)
                if merged is not None:
                    yield merged
            group = [each for each in rest if each not in same]

    def _followed(self, receipts: Iterable[Receipt]) -> Iterator[Receipt]:
        return with_promotions(self._session, receipts, self._tell, self._note)

    def _note(self, dataset: str, text: str) -> None:
        self._session.log.event("promotion.left", about=dataset, why=text)

    def _later(self, dataset: str) -> None:
        """Delay the next attempt to run this dataset: one second, then two, four, up to five minutes."""
        count = self._failures[dataset] = self._failures.get(dataset, 0) + 1
        self._wait[dataset] = self._now() + min(1000 << min(count, 20), 300_000)

    def more(self) -> bool:
        """Return whether a source was not polled yet."""
        return self._table.unseen()

    def pause_ms(self) -> int:
        """Return the time until the next poll, at most a second, because other processes may add triggers."""
        at = self._table.next_ms()
        return 1000 if at is None else min(max(at - self._now(), 0), 1000)
