"""Lets the workers of a cluster perform the steps of a run, while this process alone writes the journal.

Everything that makes a run safe stays here: intents are durable before a step is sent, an answer is DONE with the next
durable write, attempts are counted and repeated here. A worker answers with the digest of an output; performing a step
twice, as after the death of a worker, gives the same digest. Small outputs come with the answer and become rows of the
next transaction; large ones are in the object store before the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec

from kfm import __version__
from kfm.engine.cluster.cluster_steps import (
    ClusterAnswer,
    ClusterRun,
    ClusterStep,
    StepPool,
    decode_answer,
    encode,
    raised,
)
from kfm.engine.empty_outputs import check_emptied
from kfm.engine.execute import FLUSH_S, Crew, Schedule
from kfm.engine.run_context import RunContext, is_public
from kfm.engine.step_results import Done, Results
from kfm.errors import KfmError, Refused, StepFailed
from kfm.model.ports import INLINE_MAX
from kfm.model.records import SourceRef, Step
from kfm.parsing.characters import printable

Connect = Callable[[bytes], StepPool]
MOST_ROWS = 1 << 20  # bytes of small inputs that are sent with the run; workers read the others from the state
CLOSED = ("restricted", "closed")


def why_local(context: RunContext) -> str:
    """Return why this run performs its steps in this process and not on the cluster; empty if it does not."""
    world, work = context.world, context.work
    if world.settings.dry_run:
        return "a dry run keeps everything in memory"
    standing = context.standing
    is_open = standing is None or standing.level == "public"
    if world.encryption is not None or world.unjudged is not None or not is_open:
        return "protected data does not leave this process"
    if work.metadata.get("sensitivity") in CLOSED:
        return "protected data does not leave this process"
    if work.replayed:
        return "the run has the settings that it was planned with, and workers have those of kfm.yml"
    if work.trigger.kind == "operation" or not context.updater.code_hash:
        return "workers cannot load its updater"
    return ""


def cluster_crew(
    connect: Connect, context: RunContext, inputs: Sequence[SourceRef], schedule: Schedule, results: Results
) -> ClusterCrew | None:
    """Return the crew of a cluster, or None for a run whose steps stay in this process; the log says why."""
    why = why_local(context)
    if why:
        context.say("steps.local", why=why)
        return None
    return ClusterCrew(context, inputs, schedule, results, connect)


class ClusterCrew(Crew):
    """Performs steps through the workers of a cluster."""

    def __init__(
        self,
        context: RunContext,
        inputs: Sequence[SourceRef],
        schedule: Schedule,
        results: Results,
        connect: Connect,
    ) -> None:
        super().__init__(context, inputs, schedule, results)
        self._index = schedule.index
        self._inputs = tuple(inputs)
        self._connect = connect
        self._pool: StepPool | None = None
        self._sent: dict[int, tuple[Step, int]] = {}  # steps at work, by position, with the number of the attempt
        self._later: list[tuple[float, int]] = []  # steps that wait for their next attempt: when, and the position

    def perform(self, batch: list[tuple[int, Step]]) -> list[Done]:
        """Send these steps to the workers; return finished ones as soon as all are done, or after a short while if some
        are. Unavailable if the cluster is lost."""
        self.in_flight += len(batch)
        if not batch and not self.in_flight:
            return []
        pool = self._pool or self._connected()
        for position, step in batch:
            self._sent[position] = step, 1
        self._send(pool, [position for position, _ in batch])
        monotonic = self._context.world.clock.monotonic
        begun = monotonic()
        while len(self._finished) < self.in_flight and not self.failures:
            self._send_again(pool)
            for position, answer in pool.answers(FLUSH_S):
                self._take(position, answer)
            if self._finished and monotonic() - begun > FLUSH_S:
                break
        return self._collect()

    def stop(self) -> None:
        """Begin no more steps. Those at work may end; nothing refers to their outputs."""
        super().stop()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def drain(self) -> list[Done]:
        """Begin no more steps after a failure, and return those that finished."""
        if self._pool is not None:
            for position, answer in self._pool.answers(0):
                self._take(position, answer)
        self.stop()
        return self._collect()

    def _connected(self) -> StepPool:
        context, rows, size = self._context, {}, 0
        for digest in dict.fromkeys(ref.accepted_hash or ref.content_hash for ref in self._inputs):
            body = context.world.state.inline_object(digest)
            if body is not None and size + len(body) <= MOST_ROWS:
                rows[digest] = body
                size += len(body)
        run = ClusterRun(
            kfm=__version__,
            dataset=context.dataset,
            updater_version=context.updater.version,
            code_hash=context.updater.code_hash,
            config_hash=context.work.config_hash,
            steps=self._results.steps,
            is_public=is_public(context),
            inputs=self._inputs,
            rows=rows,
        )
        self._pool = pool = self._connect(encode(run))
        return pool

    def _send(self, pool: StepPool, positions: list[int]) -> None:
        if positions:
            pool.submit([(position, encode(self._message(position))) for position in positions])

    def _message(self, position: int) -> ClusterStep:
        step = self._sent[position][0]
        needs, rows = {}, {}
        for need in step.needs:
            _, digest, size, _ = self._results.get(self._index.find(need))
            needs[need] = digest, size
            if size <= INLINE_MAX and (body := self._context.world.state.inline_object(digest)) is not None:
                rows[digest] = body
        return ClusterStep(position=position, step=step, needs=needs, rows=rows)

    def _send_again(self, pool: StepPool) -> None:
        """Send the steps whose wait before the next attempt is over."""
        if not self._later:
            return
        now = self._context.world.clock.monotonic()
        due = [position for at, position in self._later if at <= now]
        self._later = [(at, position) for at, position in self._later if at > now]
        self._send(pool, due)

    def _take(self, position: int, answer: bytes | str) -> None:
        """Accept the answer of a worker, or the reason why none could perform the step."""
        if position not in self._sent:
            return
        step, attempt = self._sent[position]
        try:
            if isinstance(answer, str):
                raise self._unperformed(position, step, answer)
            found = self._decoded(position, step, answer)
            if found.problem is not None:
                failure = raised(found.problem)
                wait = self._wait_before_next(position, found.problem.passing, failure, attempt)
                self._sent[position] = step, attempt + 1
                self._later.append((self._context.world.clock.monotonic() + wait, position))
                return
            self._accept(position, step, found)
        except KfmError as problem:
            self.failures.append((position, problem))
        del self._sent[position]

    def _accept(self, position: int, step: Step, found: ClusterAnswer) -> None:
        self._check_bytes(position, step, found)
        if found.is_empty:
            check_emptied(self._context, step)
        self._described.pop(position, None)  # from a run that this one continues
        if found.described:
            self._described[position] = found.described
        if self._context.grids:
            self._say_of_grid(position, found.digest)
        self._finished.append(((position, found.digest, found.size, found.media_type), found.body))

    def _check_bytes(self, position: int, step: Step, found: ClusterAnswer) -> None:
        """Raise unless the bytes are here. Those of a large output are checked against the digest when they are
        read."""
        if found.body is not None:
            digest, size = "sha256:" + sha256(found.body).hexdigest(), len(found.body)
        elif self._context.world.objects.has(found.digest):
            digest, size = found.digest, self._context.world.objects.size(found.digest)
        else:
            raise Refused(
                "a worker of the cluster stores its outputs where this process does not find them",
                hint="`objects:` must be one place for all: an s3:// address, or a folder of this machine",
            )
        if (digest, size) != (found.digest, found.size):
            raise self._unperformed(position, step, "a worker answered with other bytes than it named")

    def _decoded(self, position: int, step: Step, answer: bytes) -> ClusterAnswer:
        try:
            return decode_answer(answer)
        except msgspec.MsgspecError:
            raise self._unperformed(position, step, "a worker answered in a form that is not known here") from None

    def _unperformed(self, position: int, step: Step, why: str) -> StepFailed:
        return StepFailed(
            f"step {printable(step.id)}: {why}",
            hint="see the log of the workers; nothing was published",
            discreet=f"{self._numbered(position)}: {why}",
        )
