"""What each station of the walk gives, and the ones behind it take. Records: nothing in them changes any more."""

from __future__ import annotations

from msgspec import Struct

from kfm.contract.records import Checkpoint, DataContract, DatasetVersion, Lease, RefMove, SourceRef
from kfm.engine.journal import Journal, SettledPlan
from kfm.engine.results import Done, Results

Rows = list[tuple[str, bytes]]  # small objects, by their digests


class Acquired(Struct, frozen=True):
    """What a run reads: bytes in the store, known by their digests."""

    inputs: list[SourceRef] = []
    contracts: dict[int, DataContract] = {}  # by the positions of the inputs that they are for
    checkpoints: list[Checkpoint] = []  # kept with the plan, or with the receipt that says there was nothing to do
    bytes_in: int = 0


class Inspected(Struct, frozen=True):
    """The inputs as they may be read: of each, what passed its contract."""

    inputs: list[SourceRef]
    held: str = ""  # digest of the report on what was held back; empty: nothing was


class Tenure(Struct):
    """A lease that is ours, and when it was renewed last: by what the run writes, or by the heartbeat."""

    lease: Lease
    renewed_ms: int


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


class Assembled(Struct, frozen=True):
    """What a run is about to commit."""

    moves: list[RefMove] = []
    version: DatasetVersion | None = None  # none: it only moves refs
    changes: dict[str, int] = {}  # as in the receipt
    rows: Rows = []  # new parts of the manifest, written by the commit itself


NOTHING_MADE = Assembled()


class Reached(Struct):
    """What the stations have given so far. Whoever ends a run tells it, and a run may fail at any station; no station
    takes its work from here."""

    acquired: Acquired = Acquired()
    inspected: Inspected | None = None
    planned: Planned | None = None
    executed: Executed | None = None

    @property
    def inputs(self) -> list[SourceRef]:
        return self.inspected.inputs if self.inspected is not None else self.acquired.inputs

    @property
    def held(self) -> str:
        return self.inspected.held if self.inspected is not None else ""
