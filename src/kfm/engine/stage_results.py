"""The results that the stages of a run pass to each other. All but `Tenure` and `Reached` are immutable."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from kfm.engine.run_journal import Journal, SettledPlan
from kfm.engine.step_results import Done, Results
from kfm.model import refs
from kfm.model.records import (
    Checkpoint,
    Classification,
    DataContract,
    DatasetVersion,
    Decision,
    Item,
    Lease,
    RefMove,
    Run,
    SourceRef,
)

Rows = list[tuple[str, bytes]]  # small objects, by their digests


class Wanted(Struct, frozen=True):
    """A source that is another dataset, as kfm.yml declares it."""

    dataset: str
    zone: str = "processed"
    key: tuple[str, ...] = ()
    version: str = ""  # the pinned version; empty: the current one
    complete: bool = False

    @property
    def ref(self) -> str:
        return refs.in_zone(self.zone, self.dataset)


class Acquired(Struct, frozen=True):
    """The inputs of a run: bytes in the object store, named by their digests."""

    inputs: list[SourceRef] = []
    contracts: dict[int, DataContract] = {}  # by the position of the input
    checkpoints: list[Checkpoint] = []  # stored with the plan, or with the receipt of a skipped run
    bytes_in: int = 0


class Keys(Struct, frozen=True):
    """The hashes that identify the work of a run."""

    input_hash: str = ""
    run_key: str = ""
    claim_key: str = ""


class Tenure(Struct):
    """A lease of this worker, and when the run or the heartbeat last renewed it."""

    lease: Lease
    renewed_ms: int


class Claimed(Struct, frozen=True):
    """The claim of a run's work by this worker."""

    keys: Keys
    run: Run
    tenure: Tenure
    code_changed: bool  # since the current version was made, with the same updater version


class Fresh(Claimed, frozen=True):
    """The claim of work of which no earlier run is live."""

    told: ClassVar[str] = "fresh"


class Resume(Claimed, frozen=True):
    """The claim of work whose earlier run is unfinished: this run resumes it."""

    told: ClassVar[str] = "resume"


class Duplicate(Struct, frozen=True):
    """The answer of admission if an earlier run has committed the same work and its result is still live."""

    keys: Keys
    run: Run  # the earlier one
    code_changed: bool
    told: ClassVar[str] = "duplicate"


class Stopped(Struct, frozen=True):
    """The answer of admission if a freeze flag is set. The trigger is kept for later."""

    keys: Keys
    code_changed: bool
    told: ClassVar[str] = "frozen"


class Inspected(Struct, frozen=True):
    """The inputs of a run, with the rows that passed their contracts."""

    inputs: list[SourceRef]
    held: str = ""  # the digest of the report on quarantined rows; empty if there are none


class Planned(Struct, frozen=True):
    """The plan of a run and its journal."""

    plan: SettledPlan
    journal: Journal
    tenure: Tenure
    inspected: Inspected
    resumed: bool  # the journal may have segments of an earlier attempt

    @property
    def lease(self) -> Lease:
        return self.tenure.lease

    @property
    def inputs(self) -> list[SourceRef]:
        return self.inspected.inputs

    @property
    def run_id(self) -> str:
        return self.journal.run.run_id


class Executed(Struct, frozen=True):
    """The results of the steps that a run performed."""

    results: Results
    moves: list[RefMove] = []
    tail: list[Done] = []  # the last finished steps, whose DONE the commit writes
    tail_rows: Rows = []
    tail_failed: list[tuple[int, str]] = []  # failed attempts that were repeated, for the same segment


class Lowered(Struct, frozen=True):
    """The classifications that a change request lowers, each with the old and the new one (None removes it), and the
    fingerprints, by key and source, that are no longer compared."""

    standings: list[tuple[str, Classification, Classification | None]] = []
    prints: list[tuple[str, str]] = []


class Warrant(Struct, frozen=True):
    """The authority for an operation: the change request that it uses up, and what must still hold at the commit."""

    moves: list[RefMove] = []  # of the change request that it uses up
    rows: Rows = []  # the objects that these moves point to
    orders: Rows = []  # the new state of change requests, by the digests of their bodies
    held: dict[str, str] = {}  # refs that must not have moved since the decision
    lowered: Lowered = Lowered()


class ServedRef(Struct, frozen=True):
    """A ref for readers that moves together with a published version: a search alias, or the epoch of a cache."""

    ref: str
    to: str | None  # None: the epoch, one more than it was
    only_from: str | None = None  # it moves only if it has this value; None: from any


class Assembled(Struct, frozen=True):
    """Everything that a run is about to commit."""

    moves: list[RefMove] = []
    version: DatasetVersion | None = None  # None if the run only moves refs
    changes: dict[str, int] = {}  # as in the receipt
    rows: Rows = []  # new parts of the manifest, which the commit writes
    decisions: list[Decision] = []  # of the gate before the Published zone
    held: dict[str, str] = {}  # refs that must not have moved
    orders: Rows = []  # as in the warrant
    lowered: Lowered = Lowered()
    served: list[ServedRef] = []  # refs that move with the moves above
    of: list[Item] = []  # its inputs: everything that was read, and what lineage() added


NOTHING_MADE = Assembled()


class Reached(Struct):
    """The results of the stages so far, for the receipt: a run may fail at any stage. No stage takes its work from
    here."""

    acquired: Acquired = Acquired()
    keys: Keys = Keys()
    admitted: Fresh | Resume | Duplicate | Stopped | None = None
    inspected: Inspected | None = None
    planned: Planned | None = None
    executed: Executed | None = None
    decisions: list[Decision] = []  # of the gates, refusals included

    @property
    def claimed(self) -> Claimed | None:
        return self.admitted if isinstance(self.admitted, Claimed) else None

    @property
    def run(self) -> Run | None:
        """The row of the run; None before the work is claimed."""
        if self.planned is not None:
            return self.planned.journal.run
        return self.claimed.run if self.claimed is not None else None

    @property
    def lease(self) -> Lease | None:
        return self.claimed.tenure.lease if self.claimed is not None else None

    @property
    def inputs(self) -> list[SourceRef]:
        return self.inspected.inputs if self.inspected is not None else self.acquired.inputs

    @property
    def held(self) -> str:
        return self.inspected.held if self.inspected is not None else ""
