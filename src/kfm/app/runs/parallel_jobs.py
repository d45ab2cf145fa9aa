"""Jobs: tasks in threads, so many at a time. Their results are handed over in the thread that started them.

All jobs share the session: one state with one connection and a lock, the object store, the log and the loaded updaters.
Each job has its own progress. docs/decisions/0026 says why.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from kfm.app.session.work_slots import JobStopped, WorkSlots
from kfm.config.upstream_datasets import read_by
from kfm.sources import scheme_of

if TYPE_CHECKING:
    from kfm.config import Config

MOST = 32  # jobs by default
PER_CORE = 16  # jobs by default: most of them wait for a server
JOB_MEMORY = 128 << 20  # bytes of the machine's memory for one job
RUN_MEMORY = 1 << 30  # bytes of the machine's memory for one run that computes
NETWORK = ("http", "https", "s3")
Report = Callable[[Any], None]


class Task(NamedTuple):
    """A task, and the positions of the tasks that must end before it begins. `do` calls its argument with each
    result."""

    after: frozenset[int]
    do: Callable[[Report], None]


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 4 << 30


def job_count(config: Config, datasets: Iterable[str]) -> int:
    """Return how many jobs run these datasets by default, from the processors and the memory of this machine. If fewer
    than two of them have a source on the network, it is 1: no run waits, and one after another is as fast."""
    waiting = 0
    for name in datasets:
        declared = config.datasets.get(name)
        waiting += declared is not None and any(scheme_of(one.uri) in NETWORK for one in declared.sources.values())
    if waiting < 2:
        return 1
    return max(1, min(MOST, PER_CORE * cores(), _memory() // JOB_MEMORY))


def work_slots(jobs: int) -> WorkSlots:
    """Return the work slots of so many jobs: at most one for each processor, and for each GiB of memory."""
    return WorkSlots(max(1, min(jobs, cores(), _memory() // RUN_MEMORY)))


def order_of(config: Config, datasets: Sequence[str]) -> list[frozenset[int]]:
    """Return for each dataset the positions of those before it that must end first: the ones that it reads or that read
    it, and the last one with the same source. So each run finds what it would find if they ran one after another: the
    same versions of other datasets, and sources that were fetched already."""
    at: dict[str, list[int]] = {}
    last: dict[str, int] = {}  # by address: the last dataset that has it as a source
    for position, name in enumerate(datasets):
        at.setdefault(name, []).append(position)
    before: list[set[int]] = [set() for _ in datasets]
    for position, name in enumerate(datasets):
        declared = config.datasets.get(name)
        before[position].update(each for each in at[name] if each < position)
        if declared is None:
            continue
        for other in {other for _, other, _ in read_by(declared)}:
            for each in at.get(other, ()):
                before[max(each, position)].add(min(each, position))
        for address in {source.uri for source in declared.sources.values() if source.uri}:
            if address in last:
                before[position].add(last[address])
            last[address] = position
    return [frozenset(each - {position}) for position, each in enumerate(before)]


def in_parallel(
    tasks: Sequence[Task],
    jobs: int,
    slots: WorkSlots,
    *,
    goes_on: Callable[[], bool] = lambda: True,
    pauses: Callable[[], None] | None = None,
    stops: Callable[[], None] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Do the tasks in at most so many threads, and yield in this thread each position and result as it comes. No task
    begins once `goes_on` is false. `pauses` is called if nothing has come for a tenth of a second.

    The first error of a task is raised here. Then, or if the caller is interrupted, the other jobs end at their next
    step; with `stops`, which is called first, this waits until none of them computes.
    """
    crew = _Crew(tasks, slots)
    try:
        yield from crew.work(jobs, goes_on, pauses)
    except BaseException:
        slots.stop()
        if stops is not None:
            stops()
            slots.wait_until_free()
        raise
    finally:
        crew.dismiss()


class _Crew:
    """The threads of some tasks. A thread does one task after another, because each has its own policy engine."""

    def __init__(self, tasks: Sequence[Task], slots: WorkSlots) -> None:
        self._tasks = tasks
        self._slots = slots
        self._todo: SimpleQueue[int | None] = SimpleQueue()
        self._news: SimpleQueue[tuple[int, bool, Any]] = SimpleQueue()  # position, whether it ended, and the result
        self._threads = 0

    def work(
        self, jobs: int, goes_on: Callable[[], bool], pauses: Callable[[], None] | None
    ) -> Iterator[tuple[int, Any]]:
        waiting: Mapping[int, Task] = dict(enumerate(self._tasks))
        ended: set[int] = set()
        under_way = 0
        while waiting or under_way:
            ready = [at for at, task in waiting.items() if task.after <= ended][: jobs - under_way] if goes_on() else []
            for at in ready:
                self._begin(at, under_way)
                under_way += 1
            waiting = {at: task for at, task in waiting.items() if at not in ready}
            if not under_way:
                return
            at, is_end, result = self._next(pauses)
            if not is_end:
                yield at, result
                continue
            under_way -= 1
            ended.add(at)
            if result is not None:
                raise result

    def _next(self, pauses: Callable[[], None] | None) -> tuple[int, bool, Any]:
        if pauses is not None:
            try:
                return self._news.get(timeout=0.1)
            except Empty:
                pauses()
        return self._news.get()

    def _begin(self, at: int, under_way: int) -> None:
        self._todo.put(at)
        if under_way >= self._threads:
            self._threads += 1
            threading.Thread(target=self._run, name=f"kfm-job-{self._threads}", daemon=True).start()

    def dismiss(self) -> None:
        for _ in range(self._threads):
            self._todo.put(None)

    def _run(self) -> None:
        while (at := self._todo.get()) is not None:
            problem: BaseException | None = None
            try:
                with self._slots.job():
                    self._tasks[at].do(lambda result, at=at: self._news.put((at, False, result)))  # type: ignore[misc]
            except JobStopped:
                pass
            except BaseException as raised:  # raised again in the thread that waits for the jobs
                problem = raised
            self._news.put((at, True, problem))
