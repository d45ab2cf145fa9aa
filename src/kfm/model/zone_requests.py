"""A request to move data up one zone, as a policy gate receives it before the move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from kfm.model.labels import joined
from kfm.model.ports import Objects, State
from kfm.model.records import Classification, DatasetVersion, Decision, Record, RefMove, Run, SourceRef

PUBLISHED_GATE = "promotion.checklist"  # the name that receipts use for the gate before Published


class Asking(Record, frozen=True):
    """The request that a gate decides about: who asks for which operation, when and why."""

    who: str
    what: str
    when_ms: int
    why: str


class Correction(Record, frozen=True):
    """The hotfixes with which a version is shown."""

    fixes: str  # digest of the object that holds them
    changed: dict[str, str | None]  # the texts of its metadata that they change; None: no value

    def of(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return metadata with these texts in them."""
        return {field: value for field, value in {**metadata, **self.changed}.items() if value is not None}


class StepUp(Record, frozen=True):
    """A run's inputs or version before the zone Work or Processed. Nothing of it is committed yet."""

    to: Literal["work", "processed"]
    subject: str  # the digest of the inputs, or of the version
    asking: Asking
    run: Run
    inputs: list[SourceRef]
    version: DatasetVersion | None = None  # the version it made; None before Work

    @property
    def standing(self) -> Classification | None:
        """The classification of everything that the run's data is made of; None if no label or setting classifies any
        of it."""
        if self.version is not None:
            return self.version.standing
        known = [source.standing for source in self.inputs if source.standing is not None]
        return joined(known) if known else None


class Gate(Protocol):
    """The gate before the zone Published; it decides about committed bytes."""

    def __call__(
        self,
        state: State,
        objects: Objects,
        move: RefMove,
        *,
        asking: Asking,
        correction: Correction | None = None,
    ) -> Decision: ...


StepGate = Callable[[StepUp], Decision]
BothGates = Callable[[StepUp, StepUp], Decision | None]  # Work and Processed; None: each must be asked alone
Rules = Callable[[], tuple[str, int]]  # returns the current digest of the policies and epoch of the labels
