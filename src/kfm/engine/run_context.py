"""The context of one run: its work, the world and the guards it was given, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from kfm.clock import rfc3339
from kfm.engine.guards import Guards
from kfm.engine.stage_results import Reached
from kfm.engine.world import Metering, World
from kfm.errors import Conflict
from kfm.model import refs
from kfm.model.keys import correlation_id
from kfm.model.ports import Tx
from kfm.model.preview_records import zone_ref
from kfm.model.records import Classification, RefMove, Run, Stage, Trigger
from kfm.model.redaction import redacted
from kfm.model.updater import Updater
from kfm.model.zone_requests import Asking
from kfm.parsing.characters import escaped

WORDS = 200  # the most characters of an author's exception that are kept


class Work(Struct, frozen=True):
    """The work of a run: its trigger, its updater and the settings of its dataset. The trigger always has a correlation
    id."""

    trigger: Trigger
    updater: Updater
    metadata: Mapping[str, Any] = {}  # of the dataset: title, license, sensitivity
    config_hash: str = ""  # of the dataset's settings, for the receipt
    config: bytes = b""  # these settings as canonical JSON, stored under that digest
    unfinished: Run | None = None  # the run that this one resumes
    replayed: bool = False  # the settings are those it was planned with, and no longer those of kfm.yml

    def __post_init__(self) -> None:
        if not self.trigger.correlation_id:
            msgspec.structs.force_setattr(self, "trigger", correlated(self.trigger))


def words_of(context: RunContext, problem: BaseException) -> str:
    """Return the text of an author's exception, short and on one line. Empty unless the data is public, because an
    author's message may contain data, and if it contains something protected."""
    if not is_public(context):
        return ""
    try:
        text = str(problem)
    except Exception:  # the author's own __str__ failed
        return ""
    if context.world.unjudged is not None and not context.world.unjudged.may_show(text):
        return ""
    text = str(redacted(text[: 2 * WORDS]))
    return f": {escaped(text if len(text) <= WORDS else text[: WORDS - 1] + '…')}" if text else ""


def correlated(trigger: Trigger) -> Trigger:
    """Return the trigger with a correlation id: its own, its id in the inbox, or a new one."""
    if trigger.correlation_id:
        return trigger
    return msgspec.structs.replace(trigger, correlation_id=trigger.trigger_id or correlation_id(trigger))


def is_public(context: RunContext) -> bool:
    """Return whether the data is declared and classified as public. For all other data, no log line or receipt shows a
    name, key or message that an author may have made from it."""
    if context.standing is not None and context.standing.level != "public":
        return False
    return context.work.metadata.get("sensitivity") == "public"


class RunContext(Struct):
    """One run, as its stages see it. The stages pass their results to each other, not through this record."""

    work: Work
    world: World
    guards: Guards
    started_ms: int = 0  # when the first stage began, or when the run resumed an earlier one
    metering: Metering | None = None  # of its energy, since then
    log: Any = None  # the event log, bound to what this run is about
    stage: Stage = "ADMIT"
    reached: Reached = field(default_factory=Reached)  # for the receipt of a run that ends before its last stage
    grids: dict[str, str] = field(default_factory=dict)  # the formats of gridded sources that passed, by digest
    described: dict[str, dict[str, Any]] = field(default_factory=dict)  # what was read about them, by digest
    damaged: list[str] = field(default_factory=list)  # versions and sources whose stored bytes are missing or damaged

    @property
    def trigger(self) -> Trigger:
        return self.work.trigger

    @property
    def updater(self) -> Updater:
        return self.work.updater

    @property
    def unfinished(self) -> Run | None:
        return self.work.unfinished

    @property
    def dataset(self) -> str:
        return self.work.trigger.dataset

    @property
    def standing(self) -> Classification | None:
        """The classification of everything that the run reads, once that is known; None if nothing is protected."""
        return None if self.guards.protection is None else self.guards.protection.standing

    @property
    def arguments(self) -> str:
        """The dataset of the run, and its partition if there is one, as arguments of a command."""
        part = self.trigger.partition
        return f"{self.dataset} --partition {part}" if part else self.dataset

    @property
    def zone_name(self) -> str:
        """The name of the run's refs in the zones before `processed`: the dataset, or `dataset/partition`."""
        return f"{self.dataset}/{self.trigger.partition}" if self.trigger.partition else self.dataset

    def ref_in(self, zone: str) -> str:
        """Return the name of the run's ref in a zone. The run of a preview has refs of its own."""
        return zone_ref(zone, self.zone_name, self.trigger)

    @property
    def switches(self) -> tuple[str, ...]:
        """The freeze flags that can stop this run."""
        if not self.updater.heeds_freeze or self.updater.takes_away(self.trigger):
            return ()
        risky = refs.ambers(self.dataset) if self.updater.is_risky(self.trigger) else ()
        return (*refs.switches(self.dataset), *risky)

    def switches_of(self, run_id: str, moves: Sequence[RefMove] = ()) -> tuple[str, ...]:
        """Return the freeze flags, those of other datasets whose refs move in the same commit, and the flag by which an
        operator cancels this run."""
        found = self.switches
        if found and self.updater.moves_only:
            others = {refs.parse(move.ref).dataset for move in moves} - {"", self.dataset}
            found += tuple(refs.switch("dataset", name) for name in sorted(others))
        return (*found, refs.switch("run", run_id))

    def __post_init__(self) -> None:
        self.log = self.world.log.bind(
            job_type=self.updater.job_type,
            correlation_id=self.trigger.correlation_id,
            dataset_ids=[self.dataset],
            updater_id=self.updater.id,
            policy_label=self.work.metadata.get("sensitivity"),
            dry_run=self.world.settings.dry_run,
        )

    def say(self, event: str, **fields: object) -> None:
        """Write one line to the event log, with the fields that identify the run."""
        self.log.event(event, **fields)

    def bind(self, run_id: str, claim_key: str) -> None:
        """Add the run id to all later log lines."""
        self.log = self.log.bind(run_id=run_id, job_id=claim_key[:32], correlation_id=self.trigger.correlation_id)

    def asking(self) -> Asking:
        """Return who requests this run, what it does and why, for the gates."""
        trigger = self.trigger
        return Asking(
            who=trigger.actor or trigger.kind,
            what=self.updater.op,
            when_ms=self.world.clock.now_ms(),
            why=trigger.reason or trigger.kind,
        )

    def check_wanted(self, *, claiming: bool = False) -> None:
        """Conflict if another worker has ended the unfinished run, or the kept trigger, that this run works on. Called
        inside a transaction.

        Ended work must not be done again, because its result may have been undone on purpose. Unless it claims the
        work, this run must not end a trigger while another run of it is open; a claim finds that out by the lease.
        """
        state, trigger_id = self.world.state, self.trigger.trigger_id
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
                    raise Conflict(f"run {run.run_id} already does this work", hint="wait for it, or `kfm resume`")

    def check_slot(self, tx: Tx) -> None:
        """Raise if the run has lost its pool slot, as after a pause that was longer than the lease. Called inside a
        transaction."""
        if self.guards.slot is not None:
            tx.leases.check(self.guards.slot)

    def keep_config(self, tx: Tx) -> None:
        """Store the settings of the dataset under their digest, which the receipt names, unless they are stored
        already. They refer to secrets and do not contain them; no public copy contains them."""
        work = self.work
        if work.config and self.world.state.inline_object(work.config_hash) is None:
            tx.objects([(work.config_hash, work.config)])

    def elapsed_ms(self) -> int:
        return max(0, self.world.clock.now_ms() - self.started_ms)

    def now(self) -> str:
        return rfc3339(self.world.clock.now_ms())
