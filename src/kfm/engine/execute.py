"""Performs the steps: intent durable first, then the effect, then DONE, sharing as few syncs as can be.

Each durable write says which steps are done and which are about to begin. A chain of steps therefore
costs one sync a step, and ready steps by the hundred share one. Small outputs are rows of the same
transaction as their DONE. Outputs are immutable and named by their digest, so performing a step a
second time after a crash changes nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from kfm.contract.ports import INLINE_MAX
from kfm.contract.records import Segment, Step
from kfm.contract.updater import Output
from kfm.engine.acquire import place_of
from kfm.engine.plan import StepIndex, append, read_steps, write_plan
from kfm.engine.reader import StepReader
from kfm.engine.results import Results
from kfm.engine.walk import Walk
from kfm.errors import KfmError, StepFailed

LOOKAHEAD = 4096  # steps of the plan that are looked at for readiness; the first of them is always ready in time
FLUSH_S = 0.25  # finished steps wait at most about this long for their DONE while others still run

Done = tuple[int, str, int, str]


def execute(walk: Walk) -> None:
    walk.stage = "EXECUTE"
    plan, run = walk.plan, walk.run
    assert plan is not None and run is not None
    walk.results = results = Results(plan.steps)
    planned = replay(walk, results) if walk.admission == "resume" else False
    schedule = Schedule(walk, results)
    crew = Crew(walk, schedule, results)
    finished: list[Done] = []
    while True:
        batch = schedule.ready(walk.ports.settings.window - crew.in_flight)
        if not batch and not crew.in_flight:
            break
        if batch or finished:
            # The last steps of all get their DONE from the commit itself, one sync less.
            write(walk, crew, finished, batch, plan_record=not planned)
            planned = True
        finished = crew.perform(batch)
        for position, digest, size, media_type in finished:
            results.set(position, digest, size, media_type)
        schedule.finished(finished)
        if crew.failures:
            finished += crew.drain()
            give_up(walk, crew, finished, not planned)
        walk.ports.progress("execute", results.done, plan.steps)
    if not planned:  # a plan without steps to perform
        with walk.ports.state.transaction(walk.lease, switches=walk.switches) as tx:
            write_plan(walk, tx)
    walk.step_moves = schedule.moves
    if finished:
        walk.tail = Segment(n=0, prev="", plan_hash=plan.plan_hash, phase="EXECUTE", done=finished)
    walk.tail_rows = crew.take_rows()


def replay(walk: Walk, results: Results) -> bool:
    """Fold the run's journal; True if its PLAN record is there."""
    from kfm.contract.keys import digest

    run = walk.run
    assert run is not None
    planned = False
    encode = msgspec.json.Encoder(order="sorted").encode
    for segment in walk.ports.state.segments(run.run_id):
        planned = True
        for position, name, size, media_type in segment.done:
            results.set(position, name, size, media_type)
        walk.segments = segment.n + 1
        walk.last_segment = digest(encode(segment))
    return planned


def write(walk: Walk, crew: Crew, finished: list[Done], batch: list[tuple[int, Step]], plan_record: bool) -> None:
    """One durable write: these are done, those begin."""
    plan, settings = walk.plan, walk.ports.settings
    assert plan is not None and walk.lease is not None
    with walk.ports.state.transaction(walk.lease, switches=walk.switches) as tx:
        if plan_record:
            write_plan(walk, tx)
        rows = crew.take_rows()
        if rows:
            tx.objects(rows)
        append(
            walk,
            tx,
            Segment(
                n=0,
                prev="",
                plan_hash=plan.plan_hash,
                phase="EXECUTE",
                done=finished,
                intent=ranges([p for p, _ in batch]),
            ),
        )
        now = walk.ports.clock.now_ms()
        if now - walk.renewed_ms > settings.lease_ms // 3:
            tx.renew(walk.lease, settings.lease_ms)
            walk.renewed_ms = now


def give_up(walk: Walk, crew: Crew, finished: list[Done], plan_record: bool) -> None:
    """Keep what is done, note what failed, and stop."""
    assert walk.plan is not None
    crew.failures.sort(key=lambda failure: failure[0])
    with walk.ports.state.transaction(walk.lease) as tx:
        if plan_record:
            write_plan(walk, tx)
        tx.objects(crew.take_rows())
        failed = [(position, problem.code) for position, problem in crew.failures]
        append(
            walk,
            tx,
            Segment(n=0, prev="", plan_hash=walk.plan.plan_hash, phase="EXECUTE", done=finished, failed=failed),
        )
    raise crew.failures[0][1]


def ranges(positions: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    start = end = -1
    for position in positions:
        if position != end:
            if end >= 0:
                found.append((start, end))
            start = position
        end = position + 1
    if end >= 0:
        found.append((start, end))
    return found


class Schedule:
    """Which steps are ready. Reads the plan a little ahead; needs always come earlier in the plan."""

    def __init__(self, walk: Walk, results: Results) -> None:
        plan = walk.plan
        assert plan is not None
        self._results = results
        chunks = plan.chunks if plan.chunks is not None else walk.ports.state.plan_chunks(plan.plan_hash)
        self.index: StepIndex | None = None
        if plan.has_needs:
            self.index = StepIndex()
            source = plan.chunks if plan.chunks is not None else walk.ports.state.plan_chunks(plan.plan_hash)
            for position, step in enumerate(read_steps(source)):
                self.index.add(step.id, position)
        self._steps: Iterator[tuple[int, Step]] = enumerate(read_steps(chunks))
        self._ready: deque[tuple[int, Step]] = deque()
        self._waiting: dict[int, list[list[Any]]] = {}  # position of a need → [missing, position, step]
        self._held = 0
        self._exhausted = False
        self.moves: list[Any] = []

    def ready(self, room: int) -> list[tuple[int, Step]]:
        ready = self._ready
        results = self._results
        while len(ready) < room and self._held < LOOKAHEAD and not self._exhausted:
            for position, step in self._steps:
                if step.move is not None:
                    self.moves.append(step.move)  # nothing to perform: the ref moves at the commit
                    continue
                if results.is_done(position):
                    continue
                missing = 0
                if step.needs:
                    missing = self._wait(position, step)
                if not missing:
                    ready.append((position, step))
                    if len(ready) >= room:
                        break
                elif self._held >= LOOKAHEAD:
                    break
            else:
                self._exhausted = True
        if len(ready) <= room:
            batch = list(ready)
            ready.clear()
            return batch
        return [ready.popleft() for _ in range(room)]

    def _wait(self, position: int, step: Step) -> int:
        assert self.index is not None
        entry: list[Any] = [0, position, step]
        for need in set(step.needs):
            at = self.index.find(need)
            if not self._results.is_done(at):
                entry[0] += 1
                self._waiting.setdefault(at, []).append(entry)
        if entry[0]:
            self._held += 1
        return int(entry[0])

    def finished(self, done: list[Done]) -> None:
        if not self._waiting:
            return
        for position, *_ in done:
            for entry in self._waiting.pop(position, ()):
                entry[0] -= 1
                if not entry[0]:
                    self._held -= 1
                    self._ready.append((entry[1], entry[2]))


class Crew:
    """The threads that perform. A single step is performed at once, without them."""

    def __init__(self, walk: Walk, schedule: Schedule, results: Results) -> None:
        self._walk = walk
        self._reader = StepReader(walk, schedule.index, results)
        self._threads = max(1, walk.ports.settings.threads)
        self._todo: deque[tuple[int, Step]] = deque()
        self._results: deque[tuple[Done, bytes | None]] = deque()  # with the body if it is small
        self._rows: list[tuple[str, bytes]] = []
        self._new = threading.Condition()
        self.failures: list[tuple[int, KfmError]] = []
        self._interrupt: list[BaseException] = []
        self.in_flight = 0
        self._alive = 0

    def take_rows(self) -> list[tuple[str, bytes]]:
        rows, self._rows = self._rows, []
        return rows

    def perform(self, batch: list[tuple[int, Step]]) -> list[Done]:
        """Begin these; return what is finished, at the latest when all is, or after a short while if some is."""
        self.in_flight += len(batch)
        if self.in_flight == len(batch) and (len(batch) == 1 or self._threads == 1):
            for position, step in batch:
                self._one(position, step)
                if self.failures:
                    break
            return self._collect()
        self._todo.extend(batch)
        with self._new:
            while self._alive < min(self._threads, self.in_flight):
                self._alive += 1
                threading.Thread(target=self._work, daemon=True).start()
            while len(self._results) + len(self.failures) < self.in_flight and not self._interrupt:
                if not self._new.wait(FLUSH_S) and self._results:
                    break
        if self._interrupt:
            raise self._interrupt[0]
        return self._collect()

    def drain(self) -> list[Done]:
        """After a failure: begin nothing more, wait for what runs."""
        self._todo.clear()
        with self._new:
            while self._alive:
                self._new.wait(FLUSH_S)
        return self._collect()

    def _collect(self) -> list[Done]:
        done = []
        while self._results:
            entry, body = self._results.popleft()
            done.append(entry)
            if body is not None:
                self._rows.append((entry[1], body))
        self.in_flight -= len(done)
        if self.failures:
            self.in_flight = 0
        return done

    def _work(self) -> None:
        try:
            while not self.failures:
                try:
                    position, step = self._todo.popleft()
                except IndexError:
                    break
                self._one(position, step)
        except BaseException as problem:
            self._interrupt.append(problem)
        finally:
            with self._new:
                self._alive -= 1
                self._new.notify()

    def _one(self, position: int, step: Step) -> None:
        try:
            output = self._walk.updater.perform(step, self._reader)
            self._results.append(self._keep(position, step, output))
        except KfmError as problem:
            self.failures.append((position, problem))
        except Exception as problem:
            failure = StepFailed(
                f"step {step.id!r}: perform() of {self._walk.updater.id} raised {type(problem).__name__} "
                f"at {place_of(problem)}",
                hint="fix the updater or the source; nothing was published",
            )
            failure.__cause__ = problem
            self.failures.append((position, failure))

    def _keep(self, position: int, step: Step, output: Output) -> tuple[Done, bytes | None]:
        if type(output) is not Output:
            raise StepFailed(
                f"step {step.id!r}: perform() gave something that is not an Output",
                hint="return Output.csv(…) or alike",
            )
        body, media_type = output.body, output.media_type
        if type(body) is bytes and len(body) <= INLINE_MAX:
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            return (position, digest, len(body), media_type), body
        digest, size = self._store(body)
        return (position, digest, size, media_type), None

    def _store(self, body: Any) -> tuple[str, int]:
        """A large output is a file: durable before its DONE, and read back."""
        objects = self._walk.ports.objects
        digest, size = objects.put_stream([body] if isinstance(body, bytes) else body)
        with objects.open(digest) as file:
            while file.read(1 << 20):
                pass
        return digest, size
