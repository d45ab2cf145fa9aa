"""Opens the house: the one file that knows which backend was chosen.

Doors (command line, workers, API) come in through here; nothing else constructs a store, a source or
a publisher.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.app.core.actor import default_actor
from kfm.app.core.backends import Mode as Mode
from kfm.app.core.backends import open_tables as open_tables
from kfm.app.core.backends import place_verdicts
from kfm.app.core.gates import Gates
from kfm.app.core.source_access import Reach
from kfm.app.core.source_requests import Declared, declared_of
from kfm.app.core.trust import LedgerNotary, Trust
from kfm.clock import Clock, from_environment, rfc3339
from kfm.config import DatasetConfig, Resolved
from kfm.delivery.public_files import deliver
from kfm.engine.run import run
from kfm.engine.run_context import Attest, Ports
from kfm.engine.stage_results import Warrant
from kfm.errors import BadInput, Broken, KfmError, Refused
from kfm.model.names import check_partition, dataset_id
from kfm.model.ports import Lock, Log, Objects, Outside, Publisher, Source, Tables
from kfm.model.preview_records import preview_of
from kfm.model.records import (
    Effect,
    Fetched,
    FetchRequest,
    Receipt,
    RefMove,
    Run,
    Standing,
    Trigger,
    TriggerKind,
)
from kfm.model.transform_config import check_window
from kfm.model.updater import Updater, check_version
from kfm.parsing.characters import printable
from kfm.parsing.time_windows import interval
from kfm.scheduling.triggers import DAY_MS, operation_trigger, prune, update_trigger
from kfm.store.archive import Archive
from kfm.store.state import StoredState
from kfm.telemetry.log import NullLog
from kfm.updaters.updater_loader import at_work, load_updater

if TYPE_CHECKING:
    from kfm.crypto.change_request import Order
    from kfm.crypto.custodian_key import CustodianKey
    from kfm.engine.plan_preview import PlanPreview as PlanPreview
    from kfm.engine.protected.protection import Protection
    from kfm.operations.ref_moves import MoveUpdater

UNREADABLE = -1  # the epoch of labels that are not there
Progress = Callable[[str, int, int], None]


def _silent(stage: str, done: int, total: int) -> None:
    """No progress wanted."""


class Session:
    """An open installation. `write` changes it, `read` looks at it, `dry` walks over what it is without
    holding anything that could change it."""

    def __init__(
        self,
        resolved: Resolved,
        mode: Mode,
        log: Log | None = None,
        progress: Progress | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.resolved = resolved
        self.config = resolved.config
        self.mode = mode
        self.clock = clock or from_environment()
        self.log: Log = log or NullLog()
        self.progress = progress or _silent
        self.tables = self._open_tables()
        self.state = StoredState(self.tables, self.clock.now_ms)
        self.trust = Trust(self)
        if mode == "write" and self.config.ledger.sign_with:
            self.state.notary = LedgerNotary(self.trust, self.config.ledger.origin, self.config.ledger.every)
        self.objects = self._open_objects()
        self.archive = Archive(self.state, self.objects)
        self.publisher = self._open_publisher()
        self._updaters: dict[str, Updater] = {}
        self._tree = resolved.in_tree("")
        self._declared: dict[str, Declared] = {}
        self._keys: Protection | None = None  # of custodians, once one was asked for
        self.offered: Order | None = None  # what whoever is here signed for the operation that is being done
        self.undelivered: list[tuple[str, KfmError]] = []  # by the last `settle`, with the dataset where it is one's
        self.untold: list[KfmError] = []  # by the last `settle`: the sinks that do not go on

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.state.close()
        if any(updater.code_listing for updater in self._updaters.values()):
            at_work(self._tree, False)

    def _open_tables(self) -> Tables:
        return open_tables(self.resolved, self.mode)

    def _open_objects(self) -> Objects:
        from kfm.store.objects import DryObjects, FileObjects

        real = FileObjects(self.resolved.location(self.config.objects)[1], self.state)
        return real if self.mode == "write" else DryObjects(real)

    def _open_publisher(self) -> Publisher:
        if self.mode == "write":
            return self._open_public()
        from kfm.sinks.noop import NoopPublisher

        return NoopPublisher(dry_run=True)

    @property
    def outside(self) -> Outside:
        """What was published, to be looked at, also by those who change nothing."""
        return self.publisher if self.mode == "write" else self._open_public()

    def _open_public(self) -> Publisher:
        scheme, path = self.resolved.location(self.config.publish)
        if scheme == "noop":
            from kfm.sinks.noop import NoopPublisher

            return NoopPublisher(dry_run=False)
        from kfm.sinks.folder_publisher import FilesPublisher
        from kfm.store.locks import FileLock

        private = self.resolved.at(".kfm")
        lock = partial(FileLock, os.path.join(private, "publish.lock"))
        roots = {"": private if scheme == "github" else path, "receipts": private, "events": private}
        files = FilesPublisher(roots, lock=lock, is_latest=self._is_latest)
        return files if scheme != "github" else self._open_github(files, lock)

    def _is_latest(self, pointer: Mapping[str, Any]) -> bool:
        """Is this where the published ref moved last?"""
        last = self.state.refs.history(f"published/{pointer['dataset']}", reverse=True, limit=1)
        return [(entry.run_id, entry.after) for entry in last] == [(pointer["run_id"], pointer["version"])]

    @property
    def keep_ms(self) -> int:
        """How long what arrived is remembered."""
        return self.config.keep_days * DAY_MS

    def retention(self, dataset: str) -> int:
        """How many superseded versions of it stay public; -1: all."""
        declared = self.config.datasets.get(dataset)
        own = declared.publish_retention if declared is not None else None
        return self.config.publish_retention if own is None else own

    def stands(self, dataset: str, version: str) -> bool:
        """Do the files of this version belong into the public folder?"""
        from kfm.projections.live_versions import live_versions

        return version in live_versions(self.state.refs.history(f"published/{dataset}"), self.retention(dataset))

    def _open_github(self, files: Publisher, lock: Callable[[], Lock]) -> Publisher:
        from kfm.sinks.github_releases import GitHubPublisher
        from kfm.sinks.http_transport import HttpTransport

        said = self.config.github
        return GitHubPublisher(
            self.config.publish.partition(":")[2],
            lambda: self.resolved.secret(said.token, os.environ, shortest=1).reveal().decode("latin-1"),
            HttpTransport(),
            files,
            lock,
            api=said.api,
            uploads=said.uploads,
            is_latest=self._is_latest,
        )

    # -- what is installed

    def datasets(self) -> list[str]:
        return sorted(self.config.datasets)

    def dataset(self, name: str) -> DatasetConfig:
        name = dataset_id(name)
        found = self.config.datasets.get(name)
        if found is None:
            known = ", ".join(self.datasets()) or "none"
            raise BadInput(f"no dataset is called {name}", hint=f"kfm.yml names: {known}")
        return found

    def updater(self, name: str) -> Updater:
        """The dataset's updater, loaded once."""
        name = dataset_id(name)
        if name not in self._updaters:
            self._updaters[name] = load(self.resolved, name, self.dataset(name))
        elif self._updaters[name].code_listing:
            at_work(self._tree)
        return self._updaters[name]

    def ports(self, name: str) -> Ports:
        """The world as a run of this dataset may see it."""
        known = self._declared.get(name)
        if known is None or not known.holds(self.config):
            known = declared_of(self.resolved, self.config, name, dry=self.mode == "dry")
            self._declared[name] = known
        gates = Gates(self.resolved, name, known.metadata, self)
        epoch = self._epoch(gates)  # before the labels are read: what changes in between is found out
        protection, unready = self._ready(name)
        return Ports(
            state=self.state,
            objects=self.objects,
            clock=self.clock,
            log=self.log,
            open_source=partial(self._open_source, name),
            gate=gates.published,
            step_gate=gates.step,
            rules=gates.rules,
            epoch=epoch,
            epoch_now=partial(self._epoch, gates),
            settings=known.settings,
            sources=known.sources,
            datasets=known.datasets,
            stands=self._stands,
            request=known.request,
            metadata=known.metadata,
            config_hash=known.config_hash,
            fits=self._fits(unready),
            authority=self._ask,
            signed_since=self._signed_since,
            protection=protection,
            attest=self._attester(),
            progress=self.progress,
        )

    def _fits(self, unready: BadInput | None) -> Callable[[str, Trigger], None] | None:
        """Asked first by whoever runs, moves or plans anything: where masks and labels are."""
        from kfm.app.core.protection_files import is_configured

        if unready is None and not is_configured(self.resolved):
            return None
        from kfm.app.core.label_match import check

        return partial(check, self, unready)

    @staticmethod
    def _epoch(gates: Gates) -> int:
        """Labels that cannot be read stop all but what takes away or closes: `fits` tells why."""
        try:
            return gates.epoch()
        except BadInput:
            return UNREADABLE

    def _ready(self, name: str) -> tuple[Protection | None, BadInput | None]:
        """What is known of protected data; or why it is not, and then nothing is done but what takes away or closes."""
        try:
            return self.protection(name), None
        except BadInput as problem:
            return None, problem

    def _open_source(self, dataset: str, uri: str) -> Source:
        return self._reach.open(dataset, self.config.datasets.get(dataset), uri)

    def _ask(self, op: str, trigger: Trigger, moves: list[RefMove]) -> Warrant:
        """May one person alone do this? Where nobody ever made a key list, yes."""
        from kfm.app.core.authorization import warrant

        return warrant(self, op, trigger, moves)

    def _signed_since(self, dataset: str, version: str, since: str) -> bool:
        from kfm.app.core.authorization import signed_since

        return signed_since(self, dataset, version, since)

    def _stands(self, dataset: str, version: str) -> Standing | None:
        from kfm.app.core.recall import stands_now

        return stands_now(self, dataset, version)

    def _attester(self) -> Attest | None:
        if self.mode != "write" or not self.config.attest.sign_with:
            return None
        from kfm.app.core.attester import Attester

        return Attester(self.trust, self.config.attest.builder)

    def protection(self, name: str) -> Protection | None:
        """What is known of protected data, as the files say now. Nothing is read where nothing is protected."""
        from kfm.app.core.protection_files import is_needed, protection_of

        if not is_needed(self.resolved, self.state):
            return None
        from kfm.app.core.labels_in_force import labels_in_force
        from kfm.app.core.signed_policies import unsigned_masks

        labels, unsigned = labels_in_force(self), unsigned_masks(self, name)
        return protection_of(self.resolved, name, labels, self._check_protected, unsigned)

    def _check_protected(self) -> None:
        from kfm.app.core.keyring import check_protected

        check_protected(self)

    @property
    def readable(self) -> Objects:
        """Objects for somebody who may look at them: what is sealed is opened with the keys that are at hand. What
        goes outside is read from `objects`, which opens nothing."""
        from kfm.engine.protected.encrypted_objects import OpeningObjects

        return OpeningObjects(self.objects, self.with_key)

    def with_key(self, key_id: str) -> CustodianKey | None:
        """The custodian's key of this id, if it is at hand."""
        if self._keys is None:
            from kfm.app.core.protection_files import custodians_of

            self._keys = custodians_of(self.resolved)
        return self._keys.with_id(key_id)

    def plain(self, body: bytes) -> bytes:
        """A row of the state that may be sealed, for somebody who may look at it."""
        from kfm.engine.protected.encrypted_objects import plain

        return plain(body, self.with_key)

    @property
    def _reach(self) -> Reach:
        return Reach(self.resolved, self.clock, self.log, self.protection, dry=self.mode == "dry")

    # -- what can be done

    def trigger(
        self,
        dataset: str,
        *,
        window: str = "",
        partition: str = "",
        force: bool = False,
        abandon: bool = False,
        allow_deletions: int = 0,
        reason: str = "",
        actor: str = "",
        kind: TriggerKind = "manual",
    ) -> Trigger:
        name = dataset_id(dataset)
        declared = self.dataset(name)
        if window:
            window = interval(window, rfc3339(self.clock.now_ms())[:10])
            check_window(name, declared.outputs)
        if partition:
            check_partition(partition)
            if declared.updater is None:
                raise BadInput(
                    f"--partition has no meaning for {name}: what kfm.yml declares is made whole",
                    hint="leave it out; partitions are for updaters that look at trigger.partition",
                )
        check_version(self.updater(name))
        return update_trigger(
            self.updater(name),
            name,
            self.clock,
            actor=actor or default_actor(),
            kind=kind,
            window=window,
            partition=partition,
            force=force,
            abandon=abandon,
            allow_deletions=allow_deletions,
            reason=reason,
        )

    def run(self, trigger: Trigger, updater: Updater | None = None, *, patient: bool = True) -> Receipt:
        """One trigger through the walk. Durable when `settle` returns. Not `patient`: Full if it would have to wait for
        a slot of a pool."""
        ports = self.ports(trigger.dataset)
        if self.mode == "write" and (ports.protection is not None or self.config.policy.folder):
            from kfm.app.core.recall import recall
            from kfm.app.core.rule_adoption import adopt_rules

            adopt_rules(self, trigger.dataset)
            if ports.protection is not None:
                recall(self)
        return self._walk(trigger, updater or self.updater(trigger.dataset), ports, patient=patient)

    def _walk(
        self, trigger: Trigger, updater: Updater, ports: Ports, unfinished: Run | None = None, *, patient: bool = True
    ) -> Receipt:
        if not self.config.pools:
            return run(trigger, updater, ports, unfinished)
        from kfm.app.core.pools import slot

        with slot(self, trigger, ports, unfinished, patient=patient) as ports:
            return run(trigger, updater, ports, unfinished)

    def fetch(self, request: FetchRequest, dataset: str) -> Fetched:
        """Look at a source without a run: its bytes go into the store, nothing else changes."""
        from kfm.app.core.label_match import check_all

        check_all(self)
        opened = self._reach.open(dataset, self.config.datasets.get(dataset), request.uri)
        known = self.state.inbox.checkpoint(request.uri)
        protection = self.protection(dataset)
        if protection is None:
            return opened.fetch(request, known, self.objects)
        from kfm.engine.protected.source_classification import WayIn

        way = WayIn(self.ports(dataset), protection, dataset)
        fetched = opened.fetch(request, way.checkpoint(request, known), way.objects_for(request))
        ref = way.came(request, fetched.ref, None)
        return msgspec.structs.replace(fetched, ref=ref, checkpoint=way.kept(fetched.checkpoint, ref))

    def operation(
        self, name: str, dataset: str, params: dict[str, str] | None = None, *, reason: str = "", actor: str = ""
    ) -> Receipt:
        """promote, rollback, freeze or thaw, or what is signed: the same walk."""
        updater = operations()[name]()
        trigger = operation_trigger(
            updater, dataset, params or {}, self.clock, actor=actor or default_actor(), reason=reason
        )
        return run(trigger, updater, self.ports(trigger.dataset))

    def resume(
        self, run_id: str | None = None, tell: Callable[[str, KfmError], None] | None = None, *, patient: bool = True
    ) -> Iterator[Receipt]:
        """Take up unfinished runs where their journal ends; then the triggers a freeze kept.

        One that cannot be taken up (another worker has it, other code planned it) strands no other: `tell`
        hears of it, or else it is raised when all have had their turn. What another worker ends meanwhile
        is none of ours.
        """
        asked = self.state.runs.get(run_id) if run_id is not None else None
        runs = [asked] if asked is not None and asked.status == "RUNNING" else []
        if run_id is None:
            runs = [run for run in self.state.runs.unfinished() if not preview_of(run.trigger)]
        elif not runs:
            known = asked is not None or self.state.ledger.receipt(run_id) is not None
            raise Refused(
                f"run {run_id[:80]} is not unfinished" if known else f"no run is called {printable(run_id)}",
                hint="see `kfm runs list`",
            )
        problems: list[KfmError] = []

        def keep(_name: str, problem: KfmError) -> None:
            problems.append(problem)

        for unfinished in runs:
            yield from self._take_up(unfinished.trigger, unfinished, tell or keep, patient)
        if run_id is None:
            had_their_turn = {unfinished.trigger.trigger_id for unfinished in runs}
            for trigger in list(self.state.inbox.waiting()):
                if trigger.trigger_id not in had_their_turn:
                    yield from self._take_up(trigger, None, tell or keep, patient)
        if problems:
            raise problems[0]

    def _take_up(
        self, trigger: Trigger, unfinished: Run | None, tell: Callable[[str, KfmError], None], patient: bool
    ) -> Iterator[Receipt]:
        def waits() -> bool:
            if unfinished is None:
                return self.state.inbox.kept(trigger) is not None
            now = self.state.runs.get(unfinished.run_id)
            return now is not None and now.status == "RUNNING"

        if not waits():
            return
        if unfinished is not None:  # as it is now: another worker may have planned it, and died
            unfinished = self.state.runs.get(unfinished.run_id)
        try:
            updater, ports = self.updater_of(trigger), self.ports(trigger.dataset)
            receipt = self._walk(trigger, updater, ports, unfinished, patient=patient)
        except Broken:
            raise
        except KfmError as problem:
            if waits():
                tell(unfinished.run_id if unfinished is not None else trigger.dataset, problem)
        else:
            yield receipt

    def updater_of(self, trigger: Trigger) -> Updater:
        """Who answers a trigger: the dataset's updater, or an operation."""
        if preview_of(trigger):
            raise Refused("this run is of the preview of a branch", hint="`kfm preview build BRANCH` takes it up")
        if trigger.kind != "operation":
            return self.updater(trigger.dataset)
        for kind in operations().values():
            if kind.id == trigger.updater_id:
                return kind()
        raise Refused(f"no operation is called {trigger.updater_id}", hint="it was made by another version of kfm")

    def settle(self, *, again: bool = False) -> list[Effect]:
        """Make everything said so far durable, then tell the outside. Acknowledge nothing before this returns.

        Returns what was changed outside since the last time. If it raises, and `undelivered` says what, all is
        durable nevertheless, and only the outside was not told all of it. A sink that follows the ledger
        never makes it raise; `again` tries also one that did not answer lately.
        """
        self.undelivered = []
        self.undelivered = deliver(
            self.state,
            self.objects,
            self.publisher,
            self.log,
            sync=self.mode == "write",
            retention=self.retention,
            waits=cache(self._waits),
        )
        effects = list(self.publisher.trace)
        self.publisher.trace.clear()  # a house that stays open must not remember all it ever did
        self.prune()
        if self.mode == "write":
            from kfm.app.core.ledger_sinks import tell_sinks

            self.untold = tell_sinks(self, again=again)
        if self.undelivered:
            raise self.undelivered[0][1]
        return effects

    def _waits(self) -> bool:
        """Is nothing added outside, because masks and labels do not fit together?"""
        from kfm.app.core.protection_files import is_configured

        if not is_configured(self.resolved):
            return False
        from kfm.app.core.label_match import are_right

        return not are_right(self)

    def prune(self, *, again: bool = False) -> None:
        """Drop what arrived long ago. It can wait: what stops it is noted, and stops nothing else."""
        if self.mode == "write":
            try:
                prune(self.state, self.clock.now_ms(), self.keep_ms, again=again)
            except KfmError as problem:
                self.log.event("inbox.unpruned", error=problem)


def operations() -> dict[str, type[MoveUpdater]]:
    """Every operation there is, by its name."""
    from kfm.operations.backfill_operations import BACKFILLING
    from kfm.operations.key_operations import SIGNED
    from kfm.operations.preview_operations import PREVIEWED
    from kfm.operations.ref_moves import OPERATIONS
    from kfm.operations.rule_operations import RULED

    return {**OPERATIONS, **SIGNED, **RULED, **BACKFILLING, **PREVIEWED}


def open_session(
    resolved: Resolved,
    *,
    mode: Mode = "write",
    log: Log | None = None,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> Session:
    """Open an installation. A place that cannot keep the promise is refused for writing, unless the
    configuration accepts it."""
    if mode == "write" and not resolved.config.accept_weak_storage:
        for verdict in place_verdicts(resolved):
            if not verdict.ok:
                raise Refused(
                    f"{verdict.check.partition('.')[0]} lies on {verdict.found}: {verdict.why.partition(';')[0]}",
                    hint="put it on a local disk, or set accept_weak_storage: true (KFM_ACCEPT_WEAK_STORAGE=true)",
                )
    return Session(resolved, mode, log, progress, clock)


def load(resolved: Resolved, name: str, dataset: DatasetConfig) -> Updater:
    """What a dataset is updated by: the author's class, or what the configuration declares."""
    if dataset.updater is not None:
        return load_updater(name, dataset.updater, resolved.in_tree)
    from kfm.updaters.transforms.transform_updater import load_declared

    return load_declared(name, dataset.version, dataset.outputs, dataset.contracts())
