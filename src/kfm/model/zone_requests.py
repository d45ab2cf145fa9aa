"""A step up a zone, as it is asked about before it is taken: who asks, and what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from kfm.model.labels import joined
from kfm.model.ports import Objects, State
from kfm.model.records import DatasetVersion, Decision, Record, RefMove, Run, SourceRef, Standing


class Asking(Record, frozen=True):
    """Who asks for what, when, and why."""

    who: str
    what: str
    when_ms: int
    why: str


class StepUp(Record, frozen=True):
    """What a run has in its hands before Work or Processed. Nothing of it is committed yet."""

    to: Literal["work", "processed"]
    subject: str  # the digest of the inputs, or of the version
    asking: Asking
    run: Run
    inputs: list[SourceRef]
    version: DatasetVersion | None = None  # that it made; none before Work

    @property
    def standing(self) -> Standing | None:
        """Of all it is made of; none: nobody says anything of any."""
        if self.version is not None:
            return self.version.standing
        known = [source.standing for source in self.inputs if source.standing is not None]
        return joined(known) if known else None


class Gate(Protocol):
    """Before Published: about bytes that are committed."""

    def __call__(self, state: State, objects: Objects, move: RefMove, *, asking: Asking) -> Decision: ...


StepGate = Callable[[StepUp], Decision]
Rules = Callable[[], tuple[str, int]]  # the digest of the policies and the epoch of the labels, as they are now
