"""The messages between a run and the workers of a cluster that perform its steps: plain bytes, without objects of an
author."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from kfm.errors import KfmError, kind_of
from kfm.model.records import Record, SourceRef, Step


class ClusterRun(Record, frozen=True):
    """What a worker must know of a run, and what its code and settings must be."""

    kfm: str  # the version of KFM
    dataset: str
    updater_version: str
    code_hash: str
    config_hash: str  # of the dataset's settings
    steps: int  # in the plan
    is_public: bool  # messages of an author may be shown
    inputs: tuple[SourceRef, ...]
    rows: dict[str, bytes] = {}  # small inputs, by digest


class ClusterStep(Record, frozen=True):
    """One step to perform."""

    position: int
    step: Step
    needs: dict[str, tuple[str, int]] = {}  # the outputs of needed steps by step id: digest and size
    rows: dict[str, bytes] = {}  # the small ones of them, by digest


class StepProblem(Record, frozen=True):
    """An error of a step, as a message carries it."""

    code: str
    message: str
    hint: str = ""
    discreet: str = ""
    fields: dict[str, str | int | None] = {}
    passing: bool = False  # the step may be tried again


class ClusterAnswer(Record, frozen=True):
    """The output of a step, or why there is none."""

    digest: str = ""
    size: int = 0
    media_type: str = ""
    body: bytes | None = None  # if it is small; a large one is in the object store
    described: dict[str, Any] = {}
    is_empty: bool = False  # the author says that it has no rows
    problem: StepProblem | None = None


class StepPool(Protocol):
    """The workers of a cluster, for the steps of one run. Messages are bytes; the pool looks into none."""

    def submit(self, steps: Sequence[tuple[int, bytes]]) -> None:
        """Let workers perform these steps, each named by its position. ClusterLost if the cluster does not answer."""

    def answers(self, timeout_s: float) -> list[tuple[int, bytes | str]]:
        """Wait up to `timeout_s` for answers and return those that came: the bytes of each, or a text that says why no
        worker could give one. ClusterLost if the cluster does not answer."""

    def close(self) -> None:
        """Forget all steps and leave the cluster. Never raises."""


encode = msgspec.msgpack.Encoder().encode
decode_run = msgspec.msgpack.Decoder(ClusterRun).decode
decode_step = msgspec.msgpack.Decoder(ClusterStep).decode
decode_answer = msgspec.msgpack.Decoder(ClusterAnswer).decode


def told(problem: KfmError, *, passing: bool = False) -> StepProblem:
    """Return an error as a message carries it."""
    return StepProblem(
        code=problem.code,
        message=problem.message,
        hint=problem.hint,
        discreet=problem.discreet,
        fields=problem.fields,
        passing=passing,
    )


def raised(problem: StepProblem) -> KfmError:
    """Return the error that a message carries."""
    return kind_of(problem.code)(problem.message, hint=problem.hint, discreet=problem.discreet, **problem.fields)
