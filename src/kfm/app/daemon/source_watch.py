"""`kfm triggers watch`: polls sources on a timetable and runs waiting triggers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec

from kfm.app.authority.classification import declared_settings
from kfm.app.authority.run_setup import context_of
from kfm.app.runs.auto_promotion import promote_left, with_promotions
from kfm.app.runs.event_schedules import event_trigger, note_event
from kfm.app.runs.run_control import fetch_source, resume_runs, run_trigger
from kfm.app.runs.trigger_request import trigger_updater
from kfm.app.session.datasets import dataset_config
from kfm.app.session.session import Session
from kfm.clock import parse_instant
from kfm.engine.receipt_stage import merge
from kfm.errors import Broken, Full, KfmError, Refused
from kfm.model.backfill_plan import PREFIX
from kfm.model.preview_records import preview_of
from kfm.model.records import FetchRequest, Receipt, Trigger
from kfm.model.run_overrides import overrides_of
from kfm.scheduling.polling import Timetable, merge_polls, note


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
    ) -> None:
        """`goes_on` is called before every run, and says whether it may start here."""
        self._session = session
        self._goes_on = goes_on
        self._tell = tell
        self._polled = polled
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
        unfinished = [run for run in self._session.state.runs.unfinished() if not preview_of(run.trigger)]
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
        """Poll one due source, if any, and return the triggers that this created."""
        poll = self._table.due(self._now())
        if poll is None:
            return []
        session = self._session
        request = msgspec.structs.replace(poll.request, now_ms=session.clock.now_ms())
        try:
            fetched = fetch_source(session, request, poll.datasets[0])
        except Broken:
            raise
        except KfmError as problem:
            wait = problem.fields.get("retry_after_s")
            self._table.failed(poll, self._now(), wait * 1000 if isinstance(wait, int) else 0)
            self._tell(", ".join(poll.datasets), problem)
            return []
        self._table.answered(poll, self._now())
        kept = note(session.state, poll, fetched, self._trigger, partial(note_event, session), self._tell)
        session.log.event(
            "source.polled", source=request.name or "unnamed", not_modified=fetched.not_modified, triggers=len(kept)
        )
        return kept

    def _trigger(self, dataset: str) -> Trigger | None:
        return event_trigger(self._session, dataset, "poll", actor="kfm watch", reason="its source changed")

    def drain(self, *, patient: bool = True) -> Iterator[Receipt]:
        """Run the waiting triggers, one dataset at a time; yield the receipts. If `patient`, triggers that still gather
        wait until none has come for a while."""
        left, self._unfinished = self._unfinished, []
        yield from self._finish(left)
        self.waits = bool(self._unfinished)
        now = self._now()
        wall = self._session.clock.now_ms()
        for dataset, group in self._groups().items():
            if self._wait.get(dataset, now) > now:
                continue
            ages = sorted(wall - parse_instant(each.received_at, "a trigger") for each in group if each.received_at)
            gathering = bool(ages) and ages[0] < self._debounce_ms and ages[-1] < 10 * self._debounce_ms
            if not (patient and gathering):
                yield from self._answer(dataset, group)

    def _groups(self) -> dict[str, list[Trigger]]:
        groups: dict[str, list[Trigger]] = {}
        for trigger in self._session.state.inbox.waiting():
            of_backfill = trigger.trigger_id.startswith(PREFIX)  # the backfill runs these itself
            if trigger.dataset in self._watched and trigger.kind != "operation" and not of_backfill:
                groups.setdefault(trigger.dataset, []).append(trigger)
        return groups

    def _answer(self, dataset: str, group: list[Trigger]) -> Iterator[Receipt]:
        """Run the oldest trigger and, if it succeeds, merge those that wait for the same into it. Then run the others
        in order."""
        session = self._session
        while group and self._goes_on():
            first, rest = group[0], group[1:]
            try:
                self.busy = True
                receipt = run_trigger(session, first, trigger_updater(session, first), patient=False)
            except Broken:
                raise
            except Full:  # its trigger stays in the queue with its place
                self.busy = False
                self.waits = True
                return
            except KfmError as problem:
                self.busy = False
                if session.state.inbox.kept(first) is not None:
                    self._tell(dataset, problem)
                    self._later(dataset)
                return
            yield from self._followed([receipt])
            self.busy = False
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
