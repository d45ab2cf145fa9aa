"""Reads when the stages and steps of a run began and ended, from its journal."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from kfm.clock import parse_instant
from kfm.model.ports import State
from kfm.model.public_run import PublicRun
from kfm.projections.otlp.run_trace import STEPS, RunTimes, StageTime, StepTime


def run_times(state: State, run: PublicRun) -> RunTimes:
    """Return the times of a run. Of a run that was not about public data no step is shown, because their number and
    their times follow the data. Of many steps those are shown that failed, and then the longest."""
    start_ms, end_ms = parse_instant(run.started_at, "a run"), parse_instant(run.finished_at, "a run")
    reading = _Reading(start_ms, shows_steps=run.labels is None)
    for segment, _ in state.journal.segments(run.run_id):
        at = parse_instant(segment.ts, "a journal") if segment.ts else reading.last_ms
        made_here = {position for position, *_ in segment.done}
        reading.phases(segment.phases, at, has_steps=bool(segment.done or segment.failed))
        for position, digest, *_ in segment.done:
            reading.done(position, at, digest)
        for position, code in segment.failed:
            if position not in made_here:
                reading.failed(position, at, code)
        for first, end in segment.intent:
            reading.intended(first, end, at)
        reading.last_ms = max(reading.last_ms, at)
    return reading.times(start_ms, max(start_ms, end_ms))  # the clock may have been set back


class _Reading:
    """Collects the times while the journal is read. It keeps the steps at work and those to be shown, and no others."""

    def __init__(self, start_ms: int, *, shows_steps: bool) -> None:
        self.last_ms = start_ms
        self._shows_steps = shows_steps
        self._stages: dict[str, tuple[int, int]] = {}
        self._begun: dict[int, int] = {}
        self._failed: dict[int, StepTime] = {}
        self._longest: list[tuple[int, int, StepTime]] = []
        self._ended = 0

    def phases(self, phases: Sequence[str], at: int, *, has_steps: bool) -> None:
        """Note a durable write that ends or continues these phases. A phase begins where the one before it ended."""
        if "PLAN" in phases:
            self._stage("PLAN", at)
        if has_steps:
            self._stage("EXECUTE", at)
        for name in ("UPSERT", "LINEAGE"):
            if name in phases:
                self._stage(name, at)

    def _stage(self, name: str, at: int) -> None:
        first, _ = self._stages.get(name, (max((end for _, end in self._stages.values()), default=self.last_ms), 0))
        self._stages[name] = (first, max(at, first))

    def intended(self, first: int, end: int, at: int) -> None:
        if self._shows_steps:
            self._begun.update(dict.fromkeys(range(first, end), at))

    def done(self, position: int, at: int, digest: str) -> None:
        if not self._shows_steps:
            return
        if self._failed.pop(position, None) is None:
            self._ended += 1
        start = self._begun.pop(position, at)
        step = StepTime(position, start, max(at, start), digest)
        entry = (step.end_ms - start, -position, step)
        if len(self._longest) < STEPS:
            heapq.heappush(self._longest, entry)
        else:
            heapq.heappushpop(self._longest, entry)

    def failed(self, position: int, at: int, code: str) -> None:
        if not self._shows_steps:
            return
        if position not in self._failed:
            self._ended += 1
        start = self._begun.get(position, at)  # tried again, it has begun at the first attempt
        self._failed[position] = StepTime(position, start, max(at, start), code=code)

    def times(self, start_ms: int, end_ms: int) -> RunTimes:
        failed = sorted(self._failed.values())[:STEPS]
        longest = [step for *_, step in sorted(self._longest, reverse=True)][: STEPS - len(failed)]
        stages = tuple(StageTime(name, start, end) for name, (start, end) in self._stages.items())
        shown = {step.position: step for step in (*longest, *failed)}
        left = max(self._ended - len(shown), 0)
        return RunTimes(start_ms, end_ms, stages, tuple(shown[at] for at in sorted(shown)), left)
