"""`kfm status`: the status of each dataset, the next steps, and the checks that write nothing.

Counts are shown only for public datasets, and versions only for those that may be public.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.authorization import change_requests
from kfm.app.authority.withdrawals import withdrawal
from kfm.app.jobs.untaken_jobs import untaken_jobs
from kfm.app.maintenance.doctor import at_a_glance
from kfm.app.metadata.completion_records import SinkStatus, pending_at
from kfm.app.runs.change_requests import request_status
from kfm.app.runs.due_schedules import is_overdue, schedule_statuses
from kfm.app.runs.freshness import check_targets, judged
from kfm.app.runs.queries import held_sources, worker
from kfm.app.runs.visibility import Visibility
from kfm.app.session.datasets import dataset_names
from kfm.clock import parse_instant, rfc3339
from kfm.model import refs
from kfm.model.labels import PUBLISHABLE, Level
from kfm.model.outbox_messages import PUBLIC
from kfm.model.records import DatasetVersion, LedgerEntry, Record
from kfm.model.reports.freshness_record import Verdict as Fresh
from kfm.model.reports.withdrawal import Withdrawal
from kfm.store.filesystem_check import CheckResult

if TYPE_CHECKING:
    from kfm.app.session.session import Session

MINUTE_MS = 60_000
LOOKED_AT = 20  # ledger entries of a dataset that are searched for its last run
BAD = ("failed", "held", "denied", "escalated", "abandoned", "cancelled")


class DatasetStatus(Record, frozen=True):
    """The status of one dataset now."""

    dataset: str
    version: str  # the processed version; empty if there is none or it may not be shown
    published: str  # the published version; empty if there is none or it may not be shown
    is_made: bool
    is_public: bool  # a version is published
    is_withdrawn: bool  # versions were published, and none is now
    is_behind: bool  # a version waits to be promoted; a withdrawn one does not
    withdrawal: Withdrawal | None  # of the processed version, if that was public and was taken back
    level: Level
    as_of: str  # when the published version was made, else the processed one
    age_min: int | None
    freshness: Fresh
    late_min: int
    is_held: bool  # rows of a source are quarantined
    held_rows: int | None  # how many; None if it may not be shown
    is_frozen: bool
    is_amber: bool  # risky work on it is stopped: backfills, hotfixes and automatic promotions
    waiting: int  # waiting triggers
    dead: int  # dead letters: jobs that failed too often
    at_work: int  # runs with a live worker
    unfinished: int  # runs without a live worker: `kfm resume`
    is_undelivered: bool  # committed, but not delivered to the public files
    last_run: str  # the last ended run; empty if there is none
    last_outcome: str

    @property
    def is_failing(self) -> bool:
        return self.last_outcome in BAD

    @property
    def is_quiet(self) -> bool:
        """Whether nothing about this dataset needs attention."""
        wants = (
            self.is_behind,
            self.withdrawal is not None,
            self.is_held,
            self.is_frozen,
            self.is_amber,
            self.is_undelivered,
            self.is_failing,
        )
        counts = (self.waiting, self.dead, self.unfinished)
        return self.is_made and not (any(wants) or any(counts) or self.freshness == "late")


class NextStep(Record, frozen=True):
    """A command that the operator may type next, and why."""

    command: str
    why: str
    dataset: str = ""


class Status(Record, frozen=True):
    """The status of an installation."""

    at: str
    datasets: list[DatasetStatus]
    is_frozen: bool  # the global freeze flag is set
    next: list[NextStep]  # the most urgent first
    ok: bool  # whether every check passed
    checks: list[CheckResult]
    pending: list[SinkStatus]  # sinks that have not followed some committed runs


def status(session: Session, datasets: Sequence[str] = ()) -> Status:
    """Return the status of these datasets, or of all."""
    check_targets(session.resolved)
    with session.state.reading():
        look = _StatusReader(session)
        found = [look.at(name) for name in datasets or dataset_names(session)]
        checks = at_a_glance(session)
        pending = pending_at(session, datasets)
        wanted = [
            *_urgent(found, checks),
            *_sinks(pending),
            *_requests(session),
            *_later(found, look.everything_frozen, refs.amber("global") in look.amber),
            *_clock(session),
        ]
    return Status(
        at=rfc3339(look.now_ms),
        datasets=found,
        is_frozen=look.everything_frozen,
        next=_once(wanted) or _nothing(session),
        ok=all(check.ok for check in checks),
        checks=checks,
        pending=pending,
    )


class _StatusReader:
    """Reads the status of datasets. Facts that all datasets need are read once."""

    def __init__(self, session: Session) -> None:
        state = session.state
        self.session = session
        self.now_ms = session.clock.now_ms()
        self.openness = Visibility(session)
        self.public = _by_name(state.refs.all(refs.PUBLISHED))
        self.made = _by_name(state.refs.all(refs.PROCESSED))
        held = (refs.parse(ref).dataset for ref, report in state.refs.all(refs.QUARANTINE) if report)
        self.held = frozenset(held)
        self.frozen = frozenset(
            name for name, at in _by_name(state.refs.all(refs.DATASET_SWITCH)).items() if at != "open"
        )
        self.amber = frozenset(name for name, at in state.refs.all(refs.AMBER) if refs.is_frozen(at))
        self.everything_frozen = refs.is_frozen(state.refs.at(refs.switch("global")))
        self.waiting = Counter(trigger.dataset for trigger in state.inbox.waiting())
        self.dead = Counter(job.trigger.dataset for job in state.jobs.dead())
        self.undelivered = frozenset(state.outbox.due("publish"))
        self.at_work: Counter[str] = Counter()
        self.unfinished: Counter[str] = Counter()
        for run in state.runs.unfinished():
            (self.unfinished if worker(session, run) is None else self.at_work)[run.dataset] += 1

    def _was_public(self, name: str) -> bool:
        return any(True for _ in self.session.state.refs.history(refs.published(name), limit=1))

    def at(self, name: str) -> DatasetStatus:
        public, made = self._version(name, self.public), self._version(name, self.made)
        level = self.openness.level(name, public, made)
        may_be_told = level in PUBLISHABLE
        shown = public or made
        as_of_ms = parse_instant(shown.created_at, "a version") if shown is not None else 0
        fresh: tuple[Fresh, int] = ("never", 0)
        if shown is not None:
            declared = self.session.config.datasets.get(name)
            fresh = judged(declared.freshness if declared is not None else None, as_of_ms, self.now_ms)
        last = self._last(name)
        is_other = name in self.made and self.made[name] != self.public.get(name)
        taken_back = withdrawal(self.session, name, self.made[name]) if is_other else None
        return DatasetStatus(
            dataset=name,
            version=self.made.get(name, "") if may_be_told else "",
            published=self.public.get(name, "") if may_be_told else "",
            is_made=name in self.made,
            is_public=name in self.public,
            is_withdrawn=name not in self.public and self._was_public(name),
            is_behind=is_other and taken_back is None,
            withdrawal=taken_back if taken_back is None or may_be_told else _unnamed(taken_back),
            level=level,
            as_of=rfc3339(as_of_ms) if shown is not None else "",
            age_min=max(self.now_ms - as_of_ms, 0) // MINUTE_MS if shown is not None else None,
            freshness=fresh[0],
            late_min=fresh[1],
            is_held=name in self.held,
            held_rows=self._held_rows(name) if level == "public" else None,
            is_frozen=self.everything_frozen or name in self.frozen,
            is_amber=not self.amber.isdisjoint(refs.ambers(name)),
            waiting=self.waiting[name],
            dead=self.dead[name],
            at_work=self.at_work[name],
            unfinished=self.unfinished[name],
            is_undelivered=name in self.undelivered,
            last_run=last.run_id if last is not None else "",
            last_outcome=last.outcome if last is not None else "",
        )

    def _version(self, name: str, at: dict[str, str]) -> DatasetVersion | None:
        return self.session.state.ledger.version(name, at[name]) if name in at else None

    def _held_rows(self, name: str) -> int:
        return sum(source["held_rows"] for source in held_sources(self.session, name)) if name in self.held else 0

    def _last(self, name: str) -> LedgerEntry | None:
        """Return the last ledger entry of a run that made this dataset or tried to."""
        entries = islice(self.session.state.ledger.entries_of(name), LOOKED_AT)
        return next((entry for entry in entries if entry.op_type == "ingest"), None)


def _unnamed(one: Withdrawal) -> Withdrawal:
    return msgspec.structs.replace(one, version="", current="")


def _by_name(refs: Iterator[tuple[str, str]]) -> dict[str, str]:
    return {ref.rpartition("/")[2]: at for ref, at in refs if at}


def _urgent(found: list[DatasetStatus], checks: list[CheckResult]) -> Iterator[NextStep]:
    """Yield the next steps that correct problems: of datasets, and of failed checks."""
    for check in checks:
        if not check.ok and check.check.startswith("published."):
            name = check.check.removeprefix("published.")
            yield NextStep(command="kfm resume", why=f"{name} is public and may not be", dataset=name)
    if any(not check.ok for check in checks):
        yield NextStep(command="kfm doctor", why="a check says that something is wrong")
    if any(each.unfinished for each in found):
        yield NextStep(command="kfm resume", why="a run was interrupted")
    if any(each.is_undelivered for each in found):
        yield NextStep(command="kfm resume", why="something was committed and not delivered")
    if any(each.dead for each in found):
        yield NextStep(command="kfm jobs dead", why="a job failed too often, or waits for a correction")
    for each in found:
        if each.is_failing and not each.unfinished:
            yield NextStep(
                command=f"kfm runs show {each.last_run}", why=f"the last run: {each.last_outcome}", dataset=each.dataset
            )
    for each in found:
        if each.freshness == "late" and not each.is_frozen and not each.at_work and not each.is_behind:
            yield NextStep(command=f"kfm run {each.dataset}", why="it is late", dataset=each.dataset)


def _sinks(pending: list[SinkStatus]) -> Iterator[NextStep]:
    """Yield the next step for each sink that is behind, unless it waits for a thaw. Public files have their own."""
    for each in pending:
        if each.sink != PUBLIC and each.waits_for != "thaw":
            why = "it refused a run" if each.waits_for == "retry" else "it has not followed yet"
            yield NextStep(command=f"kfm sinks retry {each.sink}", why=why)


def _requests(session: Session) -> Iterator[NextStep]:
    if any(request_status(session, order).state in ("open", "approved") for order in change_requests(session)):
        yield NextStep(command="kfm review list", why="a request waits for a person")


def _later(found: list[DatasetStatus], everything_frozen: bool, everything_amber: bool) -> Iterator[NextStep]:
    if everything_frozen:
        yield NextStep(command="kfm thaw --reason …", why="everything is frozen")
    elif everything_amber:
        yield NextStep(command="kfm thaw --reason …", why="everything is at amber: no risky work")
    for each in found:
        if each.is_frozen and not everything_frozen:
            yield NextStep(command=f"kfm thaw {each.dataset} --reason …", why="it is frozen", dataset=each.dataset)
        elif each.is_amber and not (everything_frozen or everything_amber):
            why = "it is at amber: no risky work"
            yield NextStep(command=f"kfm thaw {each.dataset} --reason …", why=why, dataset=each.dataset)
    for each in found:
        if each.is_held:
            yield NextStep(command=f"kfm quarantine {each.dataset}", why="rows are quarantined", dataset=each.dataset)
    for each in found:
        if not (each.is_made or each.is_frozen or each.at_work or each.unfinished or each.is_failing):
            yield NextStep(command=f"kfm run {each.dataset}", why="it was never made", dataset=each.dataset)
    for each in found:
        if each.is_behind and not each.is_frozen and each.level in PUBLISHABLE:
            why = "a newer version is not public" if each.is_public else "nothing of it is public"
            yield NextStep(command=f"kfm publish {each.dataset} --reason …", why=why, dataset=each.dataset)


def _clock(session: Session) -> Iterator[NextStep]:
    now_ms = session.clock.now_ms()
    if any(is_overdue(each, now_ms) for each in schedule_statuses(session)):
        yield NextStep(command="kfm up", why="a schedule is due and no process runs it")
    elif any(True for _ in session.state.inbox.waiting()):
        if session.config.queue:
            if (untaken := untaken_jobs(session)) is not None:
                yield NextStep(command=untaken.command, why="no worker takes what waits")
            yield NextStep(command="kfm jobs list", why="triggers wait for workers")
        else:
            yield NextStep(command="kfm resume", why="triggers wait")


def _once(wanted: list[NextStep]) -> list[NextStep]:
    """Return each command once, with its first reason."""
    return list({each.command: each for each in reversed(wanted)}.values())[::-1]


def _nothing(session: Session) -> list[NextStep]:
    if session.config.datasets:
        return []
    return [NextStep(command="kfm init", why="kfm.yml names no dataset yet")]
