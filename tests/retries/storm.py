"""Real processes that share one state, under one simulated clock: whoever sleeps last moves the time on.

A caller is a generator that yields the seconds it sleeps. Every process has many; the processes take turns by time, and
those that are awake at the same instant run at the same time.
"""

from __future__ import annotations

import heapq
import multiprocessing
from collections.abc import Callable, Generator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kfm.errors import BudgetSpent, CircuitOpen, Unavailable
from kfm.retries import BreakerRules, BudgetRules, Policy, Retrying, SharedBreaker, SharedBudget
from kfm.retries.attempts import Course
from tests.retries.worlds import state_at

# Processes of their own, forked from one that has imported everything and has no threads.
Context = multiprocessing.get_context("forkserver")
Context.set_forkserver_preload(["tests.retries.storm", "tests.retries.racers", "tests.store.backends"])
START_MS = 1_000_000
NEVER = 1 << 60
Caller = Generator[float]


class Storm(NamedTuple):
    """What one storm is like."""

    seconds: int  # for which calls begin
    callers: int  # in each process
    think_s: float  # about so long after a call its caller makes the next one; 0: one call each
    fails: float  # the share of attempts that fail
    policy: Policy
    budget: BudgetRules | None = None
    breaker: BreakerRules | None = None
    seed: int = 1
    processes: int = 8


class Seen(NamedTuple):
    """What the upstream saw: when each attempt came, in milliseconds, and the numbers of first attempts and calls."""

    attempts: list[int]
    first: int
    succeeded: int
    refused: int  # calls and retries that a breaker or a budget refused

    def fullest(self, bucket_ms: int, after_ms: int = 0) -> int:
        """The most attempts in one bucket of time, from an instant on."""
        buckets: dict[int, int] = {}
        for at in self.attempts:
            if at - START_MS >= after_ms:
                buckets[at // bucket_ms] = buckets.get(at // bucket_ms, 0) + 1
        return max(buckets.values(), default=0)


class Turns:
    """The simulated clock of all processes."""

    def __init__(self, processes: int) -> None:
        self.now = Context.Value("q", START_MS, lock=False)
        self.wakes = Context.Array("q", [START_MS] * processes, lock=False)  # -1: awake
        self.lock = Context.Lock()
        self.turn = [Context.Semaphore(0) for _ in range(processes)]

    def now_ms(self) -> int:
        return int(self.now.value)

    def sleep_until(self, me: int, at_ms: int) -> None:
        with self.lock:
            self.wakes[me] = at_ms
            if min(self.wakes) >= 0:  # nobody is awake: the time moves on
                self.now.value = max(self.now.value, min(self.wakes))
                for process, wake in enumerate(self.wakes):
                    if wake <= self.now.value:
                        self.wakes[process] = -1
                        self.turn[process].release()
        if at_ms < NEVER:
            self.turn[me].acquire()

    def leave(self, me: int) -> None:
        self.sleep_until(me, NEVER)


def weather(storm: Storm, folder: Path, kind: str = "sqlite") -> Seen:
    """Let a storm pass over a state, and return what the upstream saw."""
    turns = Turns(storm.processes)
    for each in range(storm.processes):
        turns.wakes[each] = -1
    state_at(folder, turns.now_ms, kind).close()
    pipes, processes = [], []
    for me in range(storm.processes):
        ours, theirs = Context.Pipe(duplex=False)
        process = Context.Process(target=_process, args=(me, storm, str(folder), kind, turns, theirs))
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    found = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    attempts = sorted(at for seen in found for at in seen.attempts)
    return Seen(attempts, *(sum(seen[n] for seen in found) for n in (1, 2, 3)))


def _process(me: int, storm: Storm, folder: str, kind: str, turns: Turns, pipe: Any) -> None:
    random = Random(1000 * storm.seed + me)
    state = state_at(Path(folder), turns.now_ms, kind)
    guards: dict[str, Any] = {}
    if storm.budget is not None:
        guards["budget"] = SharedBudget(state, "upstream", storm.budget, who=f"{me}")
    if storm.breaker is not None:
        guards["breaker"] = SharedBreaker(state, "upstream", storm.breaker, who=f"{me}")
    retrying = Retrying(storm.policy, "upstream", chance=random.random, **guards)
    tally = [0, 0, 0]
    attempts: list[int] = []
    heap: list[tuple[int, int, Caller]] = []
    for n in range(storm.callers):
        heapq.heappush(heap, (START_MS, n, _caller(storm, retrying, random, turns.now_ms, attempts, tally)))
    while heap:
        at, n, caller = heapq.heappop(heap)
        if at > turns.now_ms():
            turns.sleep_until(me, at)
        nap = next(caller, None)
        if nap is not None:
            heapq.heappush(heap, (turns.now_ms() + max(1, round(nap * 1000)), n, caller))
    turns.leave(me)
    state.close()
    pipe.send(Seen(attempts, *tally))


def _caller(
    storm: Storm, retrying: Retrying, random: Random, now_ms: Callable[[], int], attempts: list[int], tally: list[int]
) -> Caller:
    while now_ms() - START_MS < storm.seconds * 1000:
        course = Course(retrying)
        try:
            while True:
                course.begin()
                attempts.append(now_ms())
                tally[0] += course.attempt == 1
                if random.random() >= storm.fails:
                    course.succeeded()
                    tally[1] += 1
                    break
                wait = course.failed(Unavailable("the upstream is down"))
                if wait is None:
                    break
                yield wait
        except (BudgetSpent, CircuitOpen):
            tally[2] += 1
        if not storm.think_s:
            return
        yield storm.think_s * (0.5 + random.random())
