"""Performs steps in a process of a cluster, exactly as a run performs them in its own process, and writes nothing but
large outputs."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from itertools import chain
from typing import Any

from kfm.engine.cluster.cluster_steps import ClusterAnswer, ClusterRun, ClusterStep, told
from kfm.engine.execute import Crew
from kfm.engine.run_context import RunContext
from kfm.errors import KfmError
from kfm.model.ports import INLINE_MAX
from kfm.model.records import Step


def answer_of(context: RunContext, run: ClusterRun, asked: ClusterStep) -> ClusterAnswer:
    """Perform a step and return its answer. An error of the step is in the answer."""
    crew = _StepCrew(context, run, asked)
    crew.perform_once()
    return crew.answer()


class _Needs:
    """The outputs that a step may read, in the place of the results of the whole run."""

    def __init__(self, steps: int, needs: Mapping[str, tuple[str, int]]) -> None:
        self.steps = steps
        self.described: dict[int, dict[str, Any]] = {}
        self.index = self
        self._outputs = list(needs.values())
        self._at = {name: at for at, name in enumerate(needs)}

    def find(self, name: str) -> int:
        return self._at.get(name, -1)

    def is_done(self, _position: int) -> bool:
        return True

    def get(self, position: int) -> tuple[int, str, int, str]:
        digest, size = self._outputs[position]
        return position, digest, size, ""


class _StepCrew(Crew):
    """Performs one step once. Its run decides about another attempt."""

    def __init__(self, context: RunContext, run: ClusterRun, asked: ClusterStep) -> None:
        needs: Any = _Needs(run.steps, asked.needs)
        super().__init__(context, run.inputs, needs, needs)
        self._asked = asked
        self._is_empty = False
        self._passing = False
        self._small: bytes | None = None

    def perform_once(self) -> None:
        self._attempt(self._asked.position, self._asked.step, 1)

    def answer(self) -> ClusterAnswer:
        if self.failures:
            return ClusterAnswer(problem=told(self.failures[0][1], passing=self._passing))
        (position, digest, size, media_type), body = self._finished[0]
        return ClusterAnswer(
            digest=digest,
            size=size,
            media_type=media_type,
            body=body if body is not None else self._small,
            described=self._described.get(position, {}),
            is_empty=self._is_empty,
        )

    def _check_emptied(self, step: Step) -> None:  # noqa: ARG002
        self._is_empty = True  # the run looks at its current version

    def _failed(self, position: int, problem: BaseException, failure: KfmError, attempt: int) -> bool:  # noqa: ARG002
        self._passing = self.retries.is_passing(problem)
        self.failures.append((position, failure))
        return True

    def _store(self, position: int, step: Step, body: Any, describes: str) -> tuple[str, int]:
        """Store a large output. A stream that turns out to be small becomes part of the answer."""
        pieces, head, size = self._pieces(position, step, body), [], 0
        for piece in pieces:
            head.append(piece)
            size += len(piece)
            if size > INLINE_MAX:
                return super()._store(position, step, chain(head, pieces), describes)
        self._small = small = b"".join(head)
        if describes:
            self._say(position, small, describes)
        return "sha256:" + sha256(small).hexdigest(), size
