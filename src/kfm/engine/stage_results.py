"""What each station of the walk gives, and the ones behind it take. Records: nothing in them changes any more."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from kfm.engine.run_journal import Journal, SettledPlan
from kfm.engine.step_results import Done, Results
from kfm.model import refs
from kfm.model.records import (
    Checkpoint,
    DataContract,
    DatasetVersion,
    Decision,
    Item,
    Lease,
    RefMove,
    Run,
    SourceRef,
    Standing,
)

Rows = list[tuple[str, bytes]]  # small objects, by their digests


class Wanted(Struct, frozen=True):
    """A source that is a dataset, as it is declared."""

    dataset: str
    zone: str = "processed"
    key: tuple[str, ...] = ()
    version: str = ""  # this one, wherever the ref is; empty: the one that is current
    complete: bool = False

    @property
    def ref(self) -> str:
        return refs.in_zone(self.zone, self.dataset)


class Acquired(Struct, frozen=True):
    """What a run reads: bytes in the store, known by their digests."""

    inputs: list[SourceRef] = []
    contracts: dict[int, DataContract] = {}  # by the positions of the inputs that they are for
    checkpoints: list[Checkpoint] = []  # kept with the plan, or with the receipt that says there was nothing to do
    bytes_in: int = 0


class Keys(Struct, frozen=True):
    """Which work it is."""

    input_hash: str = ""
    run_key: str = ""
    claim_key: str = ""


class Tenure(Struct):
    """A lease that is ours, and when it was renewed last: by what the run writes, or by the heartbeat."""

    lease: Lease
    renewed_ms: int


class Claimed(Struct, frozen=True):
    """The work is ours to do."""

    keys: Keys
    run: Run
    tenure: Tenure
    code_changed: bool  # since the version there is now was made, under the same version of the updater


class Fresh(Claimed, frozen=True):
    """For the first time, or once more."""

    told: ClassVar[str] = "fresh"


class Resume(Claimed, frozen=True):
    """It was begun, and not ended."""

    told: ClassVar[str] = "resume"


class Duplicate(Struct, frozen=True):
    """The same work is committed, and what it committed is still live."""

    keys: Keys
    run: Run  # that did it
    code_changed: bool
    told: ClassVar[str] = "duplicate"


class Stopped(Struct, frozen=True):
    """A switch is set. The trigger is kept."""

    keys: Keys
    code_changed: bool
    told: ClassVar[str] = "frozen"


class Inspected(Struct, frozen=True):
    """The inputs as they may be read: of each, what passed its contract."""

    inputs: list[SourceRef]
    held: str = ""  # digest of the report on what was held back; empty: nothing was


class Planned(Struct, frozen=True):
    """What the steps are performed from, and the version is put together from."""

    plan: SettledPlan
    journal: Journal
    tenure: Tenure
    inspected: Inspected
    resumed: bool  # there may be segments in the journal

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
    """What the steps gave."""

    results: Results
    moves: list[RefMove] = []
    tail: list[Done] = []  # the last finished steps: the commit itself writes their DONE
    tail_rows: Rows = []
    tail_failed: list[tuple[int, str]] = []  # likewise, attempts that were made again


class Lowered(Struct, frozen=True):
    """What the state believes otherwise from now on, by an order: how something stood, and how it does then (None:
    nothing is said of it any more), and fingerprints, by key and source, that are held against nothing any more."""

    standings: list[tuple[str, Standing, Standing | None]] = []
    prints: list[tuple[str, str]] = []


class Warrant(Struct, frozen=True):
    """By whose leave an operation is done: what it uses up, and what must still be so when it commits."""

    moves: list[RefMove] = []  # of the order that is used up by it
    rows: Rows = []  # what these lead to
    orders: Rows = []  # what orders are then, by the digests of their requests
    held: dict[str, str] = {}  # refs that must be where they were when it was decided
    lowered: Lowered = Lowered()


class Assembled(Struct, frozen=True):
    """What a run is about to commit."""

    moves: list[RefMove] = []
    version: DatasetVersion | None = None  # none: it only moves refs
    changes: dict[str, int] = {}  # as in the receipt
    rows: Rows = []  # new parts of the manifest, written by the commit itself
    decisions: list[Decision] = []  # of the gate, on what goes to the Published zone
    held: dict[str, str] = {}  # refs that must still be there
    orders: Rows = []  # as in the warrant
    lowered: Lowered = Lowered()
    of: list[Item] = []  # what it was made of: all that was read, and what its author names beside


NOTHING_MADE = Assembled()


class Reached(Struct):
    """What the stations have given so far. Whoever ends a run tells it, and a run may fail at any station; no station
    takes its work from here."""

    acquired: Acquired = Acquired()
    keys: Keys = Keys()
    admitted: Fresh | Resume | Duplicate | Stopped | None = None
    inspected: Inspected | None = None
    planned: Planned | None = None
    executed: Executed | None = None
    decisions: list[Decision] = []  # of the gate, also one that said no

    @property
    def claimed(self) -> Claimed | None:
        return self.admitted if isinstance(self.admitted, Claimed) else None

    @property
    def run(self) -> Run | None:
        """Its row as it is to be kept; none before the work is claimed."""
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
