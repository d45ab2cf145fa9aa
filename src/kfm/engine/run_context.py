"""What the stations of one run share: the ports they are handed, and how far the run has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec
from msgspec import Struct, field

from kfm.clock import Clock, rfc3339
from kfm.engine.stage_results import Reached, Wanted, Warrant
from kfm.errors import Conflict
from kfm.model import refs
from kfm.model.keys import correlation_id
from kfm.model.ports import Log, Objects, Source, State, Tx
from kfm.model.preview_records import zone_ref
from kfm.model.records import (
    DataContract,
    FetchRequest,
    Lease,
    Receipt,
    RefMove,
    Run,
    SourceRef,
    Stage,
    Standing,
    Trigger,
)
from kfm.model.redaction import redacted
from kfm.model.updater import Updater
from kfm.model.zone_requests import Asking, Gate, Rules, StepGate
from kfm.parsing.characters import escaped

if TYPE_CHECKING:  # a run of public data loads none of these
    from kfm.engine.protected.encrypted_objects import Seal
    from kfm.engine.protected.protection import Protection
    from kfm.model.masks import MaskingPolicy


class Settings(Struct, frozen=True):
    """What an installation may tune."""

    threads: int = 4
    window: int = 4096  # most steps in flight at once: what a crash can leave in doubt
    lease_ms: int = 60_000
    deletion_budget: float = 0.1  # share of a version's keys that one run may delete
    holder: str = ""  # who we are, to other workers
    dry_run: bool = False


class Authority(Protocol):
    def __call__(self, updater: Updater, trigger: Trigger, moves: list[RefMove], /) -> Warrant:
        """May this operation be done, by the keys there are? Denied if not."""


def _one_person(_updater: Updater, _trigger: Trigger, _moves: list[RefMove]) -> Warrant:
    """There is no key list: whoever sits here may do it."""
    return Warrant()


class Attest(Protocol):
    """Signs what a committed run says about its version, in the transaction of the commit."""

    def check(self) -> None:
        """Raise if the key to sign with is not there."""

    def __call__(
        self, receipt: Receipt, inputs: Sequence[SourceRef], policies: Mapping[str, MaskingPolicy], tx: Tx
    ) -> object: ...


def _nobody(_dataset: str, _version: str, _since: str) -> bool:
    """There is no key list, and nobody to look."""
    return False


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Nobody is watching."""


class Ports(Struct):
    """The world, as this run may see it."""

    state: State
    objects: Objects
    clock: Clock
    log: Log
    open_source: Callable[[str], Source]
    gate: Gate  # before Published
    step_gate: StepGate  # before Work and Processed
    settings: Settings = field(default_factory=Settings)
    sources: Mapping[str, tuple[FetchRequest, DataContract | None]] = field(default_factory=dict)
    datasets: Mapping[str, tuple[Wanted, DataContract | None]] = field(default_factory=dict)  # sources that are these
    stands: Callable[[str, str], Standing | None] | None = None  # how a version of a dataset stands today
    request: FetchRequest = field(default_factory=lambda: FetchRequest(uri=""))  # limits for sources without a name
    metadata: Mapping[str, Any] = field(default_factory=dict)
    config_hash: str = ""  # of the dataset's settings, for the receipt
    rules: Rules | None = None  # under which the gates decide; none: they are what they were
    epoch: int = 0  # of the labels that the run was handed
    epoch_now: Callable[[], int] | None = None  # and as they are when it commits
    progress: Callable[[str, int, int], None] = _silent
    fits: Callable[[Updater, Trigger], None] | None = None  # raises where masks and labels do not fit together
    check_policies: Callable[[], None] | None = None  # raises if policies of the installation cannot be read
    authority: Authority = _one_person
    signed_since: Callable[[str, str, str], bool] = _nobody  # for a version of a dataset, after a time, by all who must
    protection: Protection | None = None  # None: nothing here is protected
    attest: Attest | None = None  # who signs what is said about a version
    seal: Seal | None = None  # of a restricted run: all that it stores goes under it
    slot: Lease | None = None  # of a pool: who lost it writes nothing more
    waited_ms: int = 0  # for that slot

    def stored(self, body: bytes) -> bytes:
        """A body that becomes a row, as it may lie in the state."""
        return body if self.seal is None else self.seal.sealed(body)

    def plain(self, body: bytes) -> bytes:
        """The way back."""
        return body if self.seal is None else self.seal.opened(body)

    def scratch(self) -> BinaryIO:
        """A file without a name for what does not fit into memory; of a restricted run sealed under a key that nobody
        keeps. A dry run gets memory: it writes nothing."""
        if self.settings.dry_run:
            import io

            return io.BytesIO()
        import tempfile

        if self.seal is None:
            return tempfile.TemporaryFile()
        from kfm.crypto.encrypted_scratch import encrypted_file

        return encrypted_file(tempfile.TemporaryFile(buffering=0))


WORDS = 200  # characters of an author's exception that are kept


def words_of(context: RunContext, problem: BaseException) -> str:
    """What an exception of the author's said, on one line and not for long. Nothing unless the data is plainly
    public: an author's message is made of it."""
    if not is_public(context):
        return ""
    try:
        text = str(problem)
    except Exception:  # an author's own __str__
        return ""
    text = str(redacted(text[: 2 * WORDS]))
    return f": {escaped(text if len(text) <= WORDS else text[: WORDS - 1] + '…')}" if text else ""


def correlated(trigger: Trigger) -> Trigger:
    """The trigger with a correlation id: its own, that of the inbox, or one made here."""
    if trigger.correlation_id:
        return trigger
    return msgspec.structs.replace(trigger, correlation_id=trigger.trigger_id or correlation_id(trigger))


def is_public(context: RunContext) -> bool:
    """Plainly so: of anything else no name, key or message is told that an author may have made from data."""
    if context.standing is not None and context.standing.level != "public":
        return False
    return context.ports.metadata.get("sensitivity") == "public"


class RunContext(Struct):
    """What one run is about, and the world as it may see it. What exists when is said by what the stations give."""

    trigger: Trigger
    updater: Updater
    ports: Ports
    started_ms: int
    unfinished: Run | None = None  # the run this one takes up again
    log: Any = None  # the event log, bound to what this run is about
    stage: Stage = "ADMIT"
    reached: Reached = field(default_factory=Reached)  # for the receipt of a run that ends before its last station
    grids: dict[str, str] = field(default_factory=dict)  # digests of sources that passed, with their formats
    described: dict[str, dict[str, Any]] = field(default_factory=dict)  # what was seen of them on the way

    @property
    def standing(self) -> Standing | None:
        """Of all that it reads, once that is known; None: nobody says anything."""
        return None if self.ports.protection is None else self.ports.protection.standing

    @property
    def dataset(self) -> str:
        return self.trigger.dataset

    @property
    def asked_for(self) -> str:
        """The dataset, and which part of it, as one types it."""
        part = self.trigger.partition
        return f"{self.dataset} --partition {part}" if part else self.dataset

    @property
    def zone_name(self) -> str:
        """What its refs in the zones before `processed` are called: those of a partition are its own."""
        return f"{self.dataset}/{self.trigger.partition}" if self.trigger.partition else self.dataset

    def ref_in(self, zone: str) -> str:
        """What its ref in a zone is called: that of a preview lies beside the others, in its own folder."""
        return zone_ref(zone, self.zone_name, self.trigger)

    @property
    def switches(self) -> tuple[str, ...]:
        """Those that can stop this run."""
        if not self.updater.heeds_freeze or self.updater.takes_away(self.trigger):
            return ()
        return refs.switches(self.dataset)

    def switches_of(self, run_id: str) -> tuple[str, ...]:
        """And the one by which somebody ends this very run."""
        return (*self.switches, refs.switch("run", run_id))

    def __post_init__(self) -> None:
        self.trigger = correlated(self.trigger)
        self.log = self.ports.log.bind(
            job_type=self.updater.job_type,
            correlation_id=self.trigger.correlation_id,
            dataset_ids=[self.dataset],
            updater_id=self.updater.id,
            policy_label=self.ports.metadata.get("sensitivity"),
            dry_run=self.ports.settings.dry_run,
        )

    def say(self, event: str, **fields: object) -> None:
        """One line of the event log, with what the run is about on it."""
        self.log.event(event, **fields)

    def bind(self, run_id: str, claim_key: str) -> None:
        """From here on every line names the run."""
        self.log = self.log.bind(run_id=run_id, job_id=claim_key[:32], correlation_id=self.trigger.correlation_id)

    def asking(self) -> Asking:
        """Who asks for what this run does, and why."""
        trigger = self.trigger
        return Asking(
            who=trigger.actor or trigger.kind,
            what=self.updater.op,
            when_ms=self.ports.clock.now_ms(),
            why=trigger.reason or trigger.kind,
        )

    def check_wanted(self, *, claiming: bool = False) -> None:
        """Inside a transaction: is the unfinished run, or the kept trigger, that we took up still to be done?

        Once it has ended it must not be done again: what it did may have been undone since, on purpose. Nor
        may a trigger be ended while a run of it is open; who claims it needs the lease, and learns it there.
        """
        state, trigger_id = self.ports.state, self.trigger.trigger_id
        if self.unfinished is not None:
            now = state.runs.get(self.unfinished.run_id)
            wanted = now is not None and now.status == "RUNNING"
        else:
            wanted = not trigger_id or state.inbox.kept(self.trigger) is not None
        if not wanted:
            raise Conflict("another worker has ended this work meanwhile", hint="nothing is left to do")
        if trigger_id and self.unfinished is None and not claiming:
            for run in state.runs.unfinished(self.dataset):
                if run.trigger.trigger_id == trigger_id:
                    raise Conflict(f"run {run.run_id} is at this work already", hint="wait for it, or `kfm resume`")

    def check_slot(self, tx: Tx) -> None:
        """Inside a transaction: is the slot of a pool still ours, if we have one? Who was stopped past its lease may
        find another in its place."""
        if self.ports.slot is not None:
            tx.leases.check(self.ports.slot)

    def elapsed_ms(self) -> int:
        return max(0, self.ports.clock.now_ms() - self.started_ms)

    def now(self) -> str:
        return rfc3339(self.ports.clock.now_ms())
