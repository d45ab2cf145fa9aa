"""Carries out requests in parallel: each in a job of its own, with the results of all in the order of the requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from kfm.app.runs.auto_promotion import with_promotions
from kfm.app.runs.execution import Listener, Outcome, Request, settle_after, work
from kfm.app.runs.parallel_jobs import Report, Task, in_parallel, order_of, work_slots
from kfm.errors import Broken, KfmError
from kfm.model.records import Receipt

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.app.session.work_slots import WorkSlots


class ParallelListener(Listener, Protocol):
    """Also receives what only requests in parallel need."""

    def expects(self, total: int) -> None:
        """So many requests begin; each ends with a last `advanced`."""

    def advanced(self, about: str, stage: str, done: int, total: int) -> None:
        """A request has made progress. An empty stage: it has ended."""

    def pauses(self) -> None:
        """For a moment nothing has come from any job: the time to draw the last progress."""

    def stops(self) -> None:
        """The jobs were told to end at their next step."""

    def ordered(self, about: Sequence[str]) -> None:
        """All requests have ended: what was received counts in this order."""


class Advance(NamedTuple):
    """The progress of a job. An empty stage: the job has ended."""

    stage: str
    done: int
    total: int


def job_session(session: Session, slots: WorkSlots, report: Report) -> Session:
    """Return the session for one job. It shares the state, the objects, the log and everything that was loaded. Its
    progress is reported at most ten times a second for each stage, and ends the job if the jobs were stopped."""
    last: list[tuple[str, float]] = [("", 0.0)]

    def progress(stage: str, done: int, total: int) -> None:
        slots.check()
        now = session.clock.monotonic()
        if stage != last[0][0] or now - last[0][1] >= 0.1:
            last[0] = stage, now
            report(Advance(stage, done, total))

    return replace(session, progress=progress)


def work_in_jobs(session: Session, requests: Sequence[Request], audience: ParallelListener, jobs: int) -> Outcome:
    """Carry out the requests as `work` does, but up to so many at a time. The outcome has the order of the requests.
    The audience receives each result as it comes. Broken is raised once no job computes any more."""
    if jobs < 2:
        return work(session, requests, audience)
    outcome = Outcome()
    _run(session, requests, audience, outcome, jobs)
    audience.ordered([request.about for request in requests])
    settle_after(session, outcome, audience)
    return outcome


def _run(
    session: Session, requests: Sequence[Request], audience: ParallelListener, outcome: Outcome, jobs: int
) -> None:
    slots = work_slots(jobs)
    audience.expects(len(requests))
    order = order_of(session.config, [request.about for request in requests])
    tasks = [
        Task(after, partial(_carry_out, session, request, slots))
        for request, after in zip(requests, order, strict=True)
    ]
    found: list[list[Receipt | tuple[str, KfmError] | tuple[str, str]]] = [[] for _ in requests]
    for at, result in in_parallel(tasks, jobs, slots, pauses=audience.pauses, stops=audience.stops):
        if isinstance(result, Advance):
            audience.advanced(requests[at].about, *result)
            continue
        found[at].append(result)
        if isinstance(result, Receipt):
            audience.ended(result)
        elif isinstance(result[1], KfmError):
            audience.failed(*result)
    for result in (result for results in found for result in results):
        if isinstance(result, Receipt):
            outcome.receipts.append(result)
        elif isinstance(result[1], KfmError):
            outcome.problems.append((result[0], result[1]))
        else:
            outcome.notes.append((result[0], result[1]))


def _carry_out(session: Session, request: Request, slots: WorkSlots, report: Report) -> None:
    def tell(about: str, problem: KfmError) -> None:
        report((about, problem))

    def note(about: str, text: str) -> None:
        report((about, text))

    own = job_session(session, slots, report)
    try:
        for receipt in with_promotions(own, request.do(own, tell), tell, note):
            report(receipt)
    except Broken:
        raise
    except KfmError as problem:
        tell(request.about, problem)
    finally:
        report(Advance("", 0, 0))
