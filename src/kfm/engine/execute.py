"""Performs the steps: first the intent is durable, then the effect happens, then DONE is written, with few syncs.

Each durable write records which steps are done and which are about to begin. A chain of steps therefore costs one sync
for each step, and hundreds of ready steps share one. Small outputs are rows of the same transaction as their DONE. If
nothing can happen before the commit (all steps are declared and begin at once, or there are only moves), the intent is
still written first, and the sync of the commit makes both durable. Outputs are immutable and named by their digest, so
performing a step a second time after a crash changes nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import chain, islice
from typing import Any

from kfm.engine.empty_outputs import check_emptied
from kfm.engine.plan import StepIndex
from kfm.engine.run_context import RunContext, is_public, words_of
from kfm.engine.run_journal import CLOSING, SettledPlan
from kfm.engine.stage_results import Executed, Planned
from kfm.engine.step_reader import StepReader
from kfm.engine.step_results import Done, Results
from kfm.engine.step_retries import StepRetries
from kfm.errors import Broken, Conflict, Frozen, KfmError, StepFailed, place_of
from kfm.model.ports import INLINE_MAX, State
from kfm.model.records import RefMove, SourceRef, Step
from kfm.model.updater import Output, Updater
from kfm.parsing.characters import is_printable, printable
from kfm.validation.output_description import (
    MOST_READ,
    describes_itself,
    given_by_author,
    is_read_from_its_end,
    read_from,
)

LOOKAHEAD = 4096  # steps of the plan that are checked for readiness ahead of time
FLUSH_S = 0.25  # how long, about, finished steps wait for their DONE while others run
QUICK_S = 0.00005  # quicker steps run in this thread: more threads would only wait for each other
PAUSE_S = 0.002  # a pause of a busy machine up to this long does not make a step slow
BRISK_S = 0.1  # after a full window that took less, the next one is larger
FIRST_WINDOW = 512


def execute(context: RunContext, planned: Planned) -> Executed:
    """Perform the steps of the plan that are not done, and return the results. The first error of a step is raised."""
    context.stage = "EXECUTE"
    results = Results(planned.plan.steps)
    context.reached.executed = Executed(results)
    begun = planned.resumed and planned.journal.replay(results)
    if not begun:
        carry_over(context, planned, results)
    schedule = Schedule(planned.plan, context.world.state, results)
    crew = crew_of(context, planned, schedule, results)
    try:
        finished = work_off(context, planned, schedule, crew, results, begun)
    finally:
        crew.stop()
    executed = Executed(results, schedule.moves, finished, crew.take_rows(), crew.take_retried())
    context.reached.executed = executed
    return executed


def crew_of(context: RunContext, planned: Planned, schedule: Schedule, results: Results) -> Crew:
    """Return the crew that performs the steps: threads of this process, unless the world has another one for them."""
    parts = context, planned.inputs, schedule, results
    other = None if context.world.crew is None or planned.plan.has_moves else context.world.crew(*parts)
    crew = other or Crew(*parts)
    crew.retries = StepRetries(context, planned.run_id, planned.lease)
    return crew


def work_off(
    context: RunContext, planned: Planned, schedule: Schedule, crew: Crew, results: Results, begun: bool
) -> list[Done]:
    """Perform all remaining steps; return the last finished ones, whose DONE the commit writes."""
    finished: list[Done] = []
    clock, largest = context.world.clock, context.world.settings.window
    window = min(FIRST_WINDOW, largest)
    while True:
        batch = schedule.ready(window - crew.in_flight)
        if not batch and not crew.in_flight:
            break
        if batch or finished:
            # The commit writes the DONE of the last steps, which saves a sync.
            write(context, planned, crew, results, finished, batch, plan_record=not begun)
            begun = True
        since = clock.monotonic()
        finished = crew.perform(batch)
        if len(batch) == window < largest and clock.monotonic() - since < BRISK_S:
            window = min(2 * window, largest)
        results.add(finished)
        schedule.finished(finished)
        if crew.failures:
            rest = crew.drain()
            results.add(rest)
            give_up(context, planned, crew, results, finished + rest)
        context.world.progress("execute", results.done, results.steps)
    if not begun:  # no steps to perform, so the sync of the commit is enough
        switches = context.switches_of(planned.run_id)
        with context.world.state.transaction(planned.lease, durable=False, switches=switches) as tx:
            planned.journal.begin(tx, results, ["PLAN"], then=CLOSING)
    return finished


def carry_over(context: RunContext, planned: Planned, results: Results) -> None:
    """Take over the finished steps of the failed run that this one continues, if they are in this plan and their
    outputs still exist."""
    continues, objects = planned.journal.run.continues, context.world.objects
    if not continues:
        return
    kept = {}
    for segment, _ in context.world.state.journal.segments(continues):
        if segment.plan_hash == planned.plan.plan_hash:
            kept.update({done[0]: done for done in segment.done})
            results.described.update((at, context.world.shown(said)) for at, said in segment.described)
    carried = [done for _, done in sorted(kept.items()) if objects.has(done[1])]
    planned.journal.carried = carried
    results.add(carried)
    context.say("run.continued", continues=continues, steps=len(carried))


def touches_nothing(updater: Updater) -> bool:
    """Return whether the steps of this updater only read pinned inputs and return bytes, as every declared transform
    does. Their intent may share the sync of the commit, because no effect happens before it."""
    return updater.declared and not updater.code_listing


def write(
    context: RunContext,
    planned: Planned,
    crew: Crew,
    results: Results,
    finished: list[Done],
    batch: list[tuple[int, Step]],
    plan_record: bool,
) -> None:
    """Write durably which steps are done and which begin."""
    tenure, ttl = planned.tenure, context.world.settings.lease_ms
    journal = planned.journal
    # The commit follows the last steps without another durable write, so its intent is written with theirs.
    last = bool(batch) and results.done + crew.in_flight + len(batch) == results.steps
    shared = plan_record and last and touches_nothing(context.updater)
    switches = context.switches_of(planned.run_id)
    with context.world.state.transaction(tenure.lease, durable=not shared, switches=switches) as tx:
        context.check_slot(tx)
        rows = crew.take_rows()
        if rows:
            context.world.keep_rows(tx, rows)
        intent, then = ranges(batch), CLOSING if last else []
        if plan_record:
            journal.begin(tx, results, ["PLAN", "EXECUTE"], intent, then)
        else:
            failed = crew.take_retried()
            journal.append(tx, results, ["EXECUTE"], done=finished, intent=intent, failed=failed, then=then)
        now = context.world.clock.now_ms()
        if not 0 <= now - tenure.renewed_ms <= ttl // 3:
            tx.leases.renew(tenure.lease, ttl)
            tenure.renewed_ms = now


def give_up(context: RunContext, planned: Planned, crew: Crew, results: Results, finished: list[Done]) -> None:
    """Record what is done and what failed, then raise the first failure. After a failure of the disk, raise at once: no
    more steps become DONE."""
    crew.failures.sort(key=lambda failure: failure[0])
    for _, problem in crew.failures:
        if isinstance(problem, Broken):
            raise problem
    with context.world.state.transaction(planned.lease) as tx:
        context.world.keep_rows(tx, crew.take_rows())
        # A step that a freeze stopped has not failed: the run goes on after the thaw.
        ended = [(at, problem.code) for at, problem in crew.failures if not isinstance(problem, Frozen)]
        failed = crew.take_retried() + ended
        planned.journal.append(tx, results, ["EXECUTE"], done=finished, failed=failed)
    raise crew.failures[0][1]


def ranges(batch: list[tuple[int, Step]]) -> list[tuple[int, int]]:
    if batch and batch[-1][0] - batch[0][0] == len(batch) - 1:  # in plan order: one range
        return [(batch[0][0], batch[-1][0] + 1)]
    found: list[tuple[int, int]] = []
    start = end = -1
    for position, _ in batch:
        if position != end:
            if end >= 0:
                found.append((start, end))
            start = position
        end = position + 1
    if end >= 0:
        found.append((start, end))
    return found


class Schedule:
    """The steps that are ready. It reads the plan a little ahead; a step always comes after the steps that it needs."""

    def __init__(self, plan: SettledPlan, state: State, results: Results) -> None:
        self._results = results
        self.index = StepIndex()  # filled only if steps read other steps
        if plan.has_needs:
            for position, step in enumerate(chain.from_iterable(plan.each(state))):
                self.index.add(step.id, position)
        self._steps: Iterator[tuple[int, Step]] = (
            plan.left(state, results) if results.done else enumerate(chain.from_iterable(plan.each(state)))
        )
        self._all_ready = not plan.has_needs and not plan.has_moves and not results.done
        self._ready: deque[tuple[int, Step]] = deque()
        self._waiting: dict[int, list[list[Any]]] = {}  # position of a need → [missing, position, step]
        self._held = 0
        self._exhausted = False
        self.moves: list[RefMove] = []

    def ready(self, room: int) -> list[tuple[int, Step]]:
        if self._all_ready:
            return list(islice(self._steps, room))
        ready = self._ready
        while len(ready) < room and self._held < LOOKAHEAD and not self._exhausted:
            self._look_ahead(room)
        if len(ready) <= room:
            batch = list(ready)
            ready.clear()
            return batch
        return [ready.popleft() for _ in range(room)]

    def _look_ahead(self, room: int) -> None:
        ready, results = self._ready, self._results
        for position, step in self._steps:
            if step.move is not None:
                self.moves.append(step.move)  # nothing to perform: the ref moves at the commit
            elif results.is_done(position):
                continue
            elif step.needs and self._wait(position, step):
                if self._held >= LOOKAHEAD:
                    return
            else:
                ready.append((position, step))
                if len(ready) >= room:
                    return
        self._exhausted = True

    def _wait(self, position: int, step: Step) -> int:
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
    """The threads that perform steps: at first the calling thread alone, then worker threads."""

    def __init__(self, context: RunContext, inputs: Sequence[SourceRef], schedule: Schedule, results: Results) -> None:
        self._context = context
        self._perform = context.updater.execute
        self._reader = StepReader(context.world, inputs, schedule.index, results)
        self._results = results
        self._threads = context.world.settings.threads
        self._encryption = context.world.encryption
        self._described = results.described
        self._todo: deque[tuple[int, Step]] = deque()
        self._finished: deque[tuple[Done, bytes | None]] = deque()  # with the body if it is small
        self._rows: list[tuple[str, bytes]] = []
        self._given: set[str] = set()  # digests of the waiting rows, and of rows taken shortly before
        self._news = threading.Condition()
        self.failures: list[tuple[int, KfmError]] = []
        self.retries = StepRetries(context)
        self._retried: list[tuple[int, str]] = []  # failed attempts of steps that were tried again
        self._looked, self._looking = context.world.clock.monotonic(), threading.Lock()
        self._interrupt: list[BaseException] = []
        self.in_flight = 0
        self._alive = 0

    def take_rows(self) -> list[tuple[str, bytes]]:
        rows, self._rows = self._rows, []
        return rows

    def take_retried(self) -> list[tuple[int, str]]:
        with self._news:
            retried, self._retried = self._retried, []
        return retried

    def perform(self, batch: list[tuple[int, Step]]) -> list[Done]:
        """Begin these steps; return finished ones as soon as all are done, or after a short while if some are."""
        self.in_flight += len(batch)
        if self.in_flight == len(batch):
            batch = self._at_once(batch)
        if len(self._finished) == self.in_flight:
            return self._collect()
        self._todo.extend(batch)
        with self._news:
            # Also without a new batch: the last thread may have ended just before the previous batch came.
            while not self.failures and self._alive < min(self._threads, len(self._todo)):
                self._alive += 1
                threading.Thread(target=self._work, daemon=True).start()
            while self._alive and len(self._finished) < self.in_flight and not self._interrupt:
                if not self._news.wait(FLUSH_S) and self._finished:
                    break
        if self._interrupt:
            raise self._interrupt[0]
        return self._collect()

    def _at_once(self, batch: list[tuple[int, Step]]) -> list[tuple[int, Step]]:
        """Perform a batch in this thread while its steps are quick; return the rest for the threads."""
        one, failures = self._one, self.failures
        if len(batch) == 1:
            one(*batch[0])
            return []
        monotonic = self._context.world.clock.monotonic
        begun = monotonic()
        for n, (position, step) in enumerate(batch, 1):
            one(position, step)
            if failures:
                return []
            if (n < 16 or not n % 16) and self._threads > 1 and monotonic() - begun > PAUSE_S + n * QUICK_S:
                return batch[n:]
        return []

    def stop(self) -> None:
        """Begin no more steps, because the run stops here. Running steps may end; nothing refers to their outputs."""
        self._todo.clear()

    def drain(self) -> list[Done]:
        """Begin no more steps after a failure, wait for the running ones and return those that finished."""
        self.stop()
        with self._news:
            while self._alive:
                self._news.wait(FLUSH_S)
        return self._collect()

    def _collect(self) -> list[Done]:
        done = []
        finished, rows, given = self._finished, self._rows, self._given
        if len(given) > LOOKAHEAD:
            given.clear()
        while finished:
            entry, body = finished.popleft()
            done.append(entry)
            if body is not None and entry[1] not in given:  # steps may return the same bytes: one row is enough
                given.add(entry[1])
                rows.append((entry[1], body))
        self.in_flight -= len(done)
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
            with self._news:
                self._alive -= 1
                self._news.notify()

    def _one(self, position: int, step: Step) -> None:
        if self._is_stopped(position):
            return
        attempt = 1
        while not self._attempt(position, step, attempt):
            attempt += 1

    def _is_stopped(self, position: int) -> bool:
        """Return True if a freeze has come meanwhile, so that this step does not begin. It looks a few times a second:
        the steps of one window may take long."""
        monotonic = self._context.world.clock.monotonic
        if monotonic() - self._looked < FLUSH_S:
            return False
        with self._looking:  # whoever comes meanwhile waits for the answer
            begun = monotonic()  # the answer may take long, and is as old as this
            if begun - self._looked >= FLUSH_S and not self.failures:
                try:
                    self.retries.look()
                except KfmError as stopped:
                    self.failures.append((position, stopped))
                self._looked = begun
        return bool(self.failures)

    def _attempt(self, position: int, step: Step, attempt: int) -> bool:
        """Perform a step once; return False if it failed and has to be tried again."""
        try:
            if self._described:
                self._described.pop(position, None)  # from a failed attempt
            output = self._perform(step, self._reader)
            if type(output) is not Output:
                raise self._no_output(position, step, "something that is not an Output")
            body, media_type = output.body, output.media_type
            if type(media_type) is not str or len(media_type) > 200 or not is_printable(media_type):
                raise self._no_output(position, step, "an Output, but its media_type is not a short printable text")
            if output.rows == 0:
                self._check_emptied(step)
            # Restricted outputs are not described: the journal must not show their place and time.
            describes = media_type if self._encryption is None and describes_itself(media_type) else ""
            given = output.bbox is not None or output.datetime is not None or output.stac_id is not None
            if given and self._encryption is None:
                self._described[position] = given_by_author(output)
            if type(body) is bytes and len(body) <= INLINE_MAX:
                if describes:
                    self._say(position, body, describes)
                if self._encryption is not None:
                    body = self._encryption.encrypted(body)
                digest = "sha256:" + sha256(body).hexdigest()
                if self._context.grids:
                    self._say_of_grid(position, digest)
                self._finished.append(((position, digest, len(body), media_type), body))
            else:
                digest, size = self._store(position, step, body, describes)
                if self._context.grids:
                    self._say_of_grid(position, digest)
                self._finished.append(((position, digest, size, media_type), None))
            self.retries.succeeded()
        except KfmError as problem:
            return self._failed(position, problem, self._placed(position, step, problem), attempt)
        except (Exception, SystemExit) as problem:  # code that exits has failed
            what = f"perform() of {self._context.updater.id} raised {type(problem).__name__} at {place_of(problem)}"
            failure = StepFailed(
                f"step {printable(step.id)}: {what}{words_of(self._context, problem)}",
                hint="fix the updater or the source (KFM_LOG=debug shows the traceback); nothing was published",
                discreet=f"{self._numbered(position)}: {what}",
            )
            failure.__cause__ = problem
            return self._failed(position, problem, failure, attempt)
        return True

    def _failed(self, position: int, problem: BaseException, failure: KfmError, attempt: int) -> bool:
        """Return True if the step has failed for good, or False after the pause before its next attempt."""
        try:
            wait = self._wait_before_next(position, self.retries.is_passing(problem), failure, attempt)
            while wait > 0 and not self.failures:  # in short pieces: a step that failed for good ends this wait
                self._context.world.clock.sleep(min(wait, FLUSH_S))
                wait -= FLUSH_S
            self.retries.check_open()  # a freeze may have come during the wait
        except KfmError as final:
            self.failures.append((position, final))
            return True
        return False

    def _wait_before_next(self, position: int, passing: bool, failure: KfmError, attempt: int) -> float:
        """Return the seconds before the next attempt, which is recorded as due. Raise the failure, or another error, if
        there is none."""
        context, updater = self._context, self._context.updater
        if self.failures:
            raise failure
        wait = self.retries.wait_s(passing, failure, attempt)
        with self._news:
            self._results.retries += 1
            self._retried.append((position, failure.code))
        told = failure if is_public(context) else failure.without_names()
        context.say("step.retried", attempt=attempt, of=updater.retries + 1, wait_ms=round(wait * 1000), error=told)
        return wait

    def _check_emptied(self, step: Step) -> None:
        check_emptied(self._context, step)

    def _placed(self, position: int, step: Step, problem: KfmError) -> KfmError:
        """Return an error that KFM raised inside an author's perform(), with its place in the author's file. Errors of
        declared transforms name their own place, and errors of the disk or of other workers have none there."""
        if self._context.updater.declared or isinstance(problem, (Broken, Conflict, StepFailed)):
            return problem
        ours = KfmError.__module__  # an author's own class may have another constructor
        kind = next(kind for kind in type(problem).__mro__ if issubclass(kind, KfmError) and kind.__module__ == ours)
        what = f"perform() of {self._context.updater.id}"
        place = place_of(problem)
        told = kind(
            f"step {printable(step.id)}: {what} at {place}: {problem.message}",
            hint=problem.hint,
            discreet=f"{self._numbered(position)}: {what} at {place}: {problem.discreet or kind.code}",
        )
        told.fields = problem.fields
        told.__cause__ = problem
        return told

    def _numbered(self, position: int) -> str:
        return f"step {position + 1} of {self._results.steps} (`kfm runs steps` names it)"

    def _no_output(self, position: int, step: Step, what: str) -> StepFailed:
        return StepFailed(
            f"step {printable(step.id)}: perform() returned {what}",
            hint="return an Output, such as Output.csv(…)",
            discreet=f"{self._numbered(position)}: perform() returned {what}",
        )

    def _pieces(self, position: int, step: Step, body: Any) -> Iterator[bytes]:
        wrong = "an Output, but its body is neither bytes nor a stream of bytes"
        if isinstance(body, str) or not isinstance(body, Iterable):
            raise self._no_output(position, step, wrong)
        for piece in [body] if isinstance(body, (bytes, bytearray, memoryview)) else body:
            if not isinstance(piece, (bytes, bytearray, memoryview)):
                raise self._no_output(position, step, wrong)
            yield bytes(piece)

    def _store(self, position: int, step: Step, body: Any, describes: str) -> tuple[str, int]:
        """Store a large output as a file, which is durable before its DONE, and return its digest and size."""
        objects = self._context.world.objects
        digest, size = objects.put_stream(self._pieces(position, step, body))
        keeps = describes and (size <= MOST_READ or is_read_from_its_end(describes))
        kept: list[bytes] = []
        with objects.open(digest) as file:
            while piece := file.read(MOST_READ):
                if keeps:
                    kept = [*kept[-1:], piece]
        if kept:
            self._say(position, b"".join(kept), describes)
        return digest, size

    def _say_of_grid(self, position: int, digest: str) -> None:
        """Keep the description of a grid that is published unchanged. A run that resumes after a crash reads the grid
        again for it."""
        context = self._context
        form = context.grids.get(digest)
        if form is None or self._encryption is not None:
            return
        if digest not in context.described:
            from kfm.engine.isolation.sandbox import describe_apart

            context.described[digest] = describe_apart(
                context.world.scratch, partial(context.world.objects.open, digest), form
            )
        said = context.described[digest] | self._described.get(position, {})
        if said:
            self._described[position] = said

    def _say(self, position: int, body: bytes, media_type: str) -> None:
        """Describe an output (place, time, STAC id) from its bytes, unless the author described it."""
        said = read_from(body, media_type) | self._described.get(position, {})
        if said:
            self._described[position] = said
