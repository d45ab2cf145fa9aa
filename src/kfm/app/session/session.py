"""A session: one opened installation, as a record of what was opened.

Every interface (command line, workers, API, client) opens one, and the functions of `app` take it as their first
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.session.backends import Mode as Mode
from kfm.app.session.backends import open_bell, open_objects, open_public, open_publisher, place_verdicts
from kfm.app.session.backends import open_tables as open_tables
from kfm.clock import Clock, from_environment
from kfm.config import Config, DatasetConfig, Resolved
from kfm.errors import KfmError, Refused
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.names import dataset_id
from kfm.model.ports import Log, Objects, Outside, Publisher, Tables
from kfm.model.updater import Updater
from kfm.projections.file_paths import VERSIONED
from kfm.store.state import PLACE, StoredState
from kfm.telemetry.log import NullLog
from kfm.updaters.updater_loader import at_work, load_updater

if TYPE_CHECKING:
    from kfm.app.session.source_requests import DatasetSettings
    from kfm.app.session.trust import Trust
    from kfm.app.session.wake_up import WakeUp
    from kfm.crypto.change_request import Order
    from kfm.engine.protected.protection import Protection
    from kfm.model.records import Effect, Receipt
    from kfm.retries.shared_guards import SharedBudget
    from kfm.store.readers.archive import Archive
    from kfm.telemetry.run_meter import RunMeter

Progress = Callable[[str, int, int], None]
Loader = Callable[[Resolved, str, DatasetConfig], Updater]


def _silent(stage: str, done: int, total: int) -> None:
    """Show no progress."""


class Recalled(NamedTuple):
    """A dataset that was withdrawn because it is more protected today than when it was published."""

    dataset: str
    rules: tuple[str, ...]  # the rules that closed it
    versions: int  # how many versions were public
    received_by: tuple[str, ...]  # the sinks that had received it
    problem: KfmError | None = None  # why the withdrawal failed, if it did


class Session(msgspec.Struct, eq=False, kw_only=True, weakref=True):
    """An open installation. Mode `write` permits changes, mode `read` none, and in mode `dry` every change stays in
    memory."""

    resolved: Resolved
    config: Config
    mode: Mode
    clock: Clock
    log: Log
    progress: Progress
    tables: Tables
    state: StoredState
    objects: Objects
    publisher: Publisher
    load: Loader  # loads the updater of a dataset
    tree: str  # the folder in which authors' code is found
    updaters: dict[str, Updater] = msgspec.field(default_factory=dict)  # updaters loaded so far, by dataset
    declared: dict[str, DatasetSettings] = msgspec.field(default_factory=dict)  # settings read so far, by dataset
    custodians: Protection | None = None  # the custodians' keys, read when first needed
    offered: Order | None = None  # the change request that the caller signed for the operation under way
    undelivered: list[tuple[str, KfmError]] = msgspec.field(default_factory=list)  # by the last settlement
    recalled: list[Recalled] = msgspec.field(default_factory=list)  # datasets that runs withdrew
    effects: list[Effect] = msgspec.field(default_factory=list)  # of what was withdrawn before the command
    adopted: list[Receipt] = msgspec.field(default_factory=list)  # of rules that runs took into force
    sink_problems: list[KfmError] = msgspec.field(default_factory=list)  # sinks that failed in the last settlement
    left_files: list[str] = msgspec.field(default_factory=list)  # files in the place of pages that KFM did not write
    moved: str = ""  # a warning about the places of the state, its objects and its published files
    is_new: bool = False  # no transaction has written the places yet
    retry_budgets: dict[str, SharedBudget] = msgspec.field(default_factory=dict)  # used so far, by operation
    notices_apart: bool = False  # another thread of this process sends the notices
    made_archive: Archive | None = None  # see `archive`
    made_wake_up: WakeUp | None = None  # see `wake_up`
    made_meter: RunMeter | None = None  # see energy_meter.py

    @property
    def archive(self) -> Archive:
        """The compacted journals. Few commands compact, so this is made when it is first needed."""
        if self.made_archive is None:
            from kfm.store.readers.archive import Archive

            self.made_archive = Archive(self.state, self.objects)
        return self.made_archive

    @property
    def wake_up(self) -> WakeUp:
        """Wakes workers, and waits to be woken. Made when it is first needed: most installations have no worker."""
        if self.made_wake_up is None:
            from kfm.app.session.wake_up import WakeUp

            self.made_wake_up = WakeUp(partial(open_bell, self.resolved, self.clock), self.clock, self.log)
        return self.made_wake_up

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self.made_wake_up is not None:
            self.made_wake_up.close()
        self.state.close()
        if any(updater.code_listing for updater in self.updaters.values()):
            at_work(self.tree, False)


def open_session(
    resolved: Resolved,
    *,
    mode: Mode = "write",
    log: Log | None = None,
    progress: Progress | None = None,
    clock: Clock | None = None,
    in_place: bool | None = None,
) -> Session:
    """Open an installation. In mode `write`, Refused if state or objects lie on storage that may lose acknowledged
    writes, unless kfm.yml accepts that. A large state is read in place in mode `read` and copied in mode `dry`, unless
    `in_place` says otherwise."""
    if mode == "write" and not resolved.config.accept_weak_storage:
        for verdict in place_verdicts(resolved):
            if not verdict.ok:
                raise Refused(
                    f"{verdict.check.partition('.')[0]} lies on {verdict.found}: {verdict.why.partition(';')[0]}",
                    hint="put it on a local disk, or set accept_weak_storage: true (KFM_ACCEPT_WEAK_STORAGE=true)",
                )
    tables = open_tables(resolved, mode, in_place=in_place)
    session = session_on(resolved, mode, tables, log=log, progress=progress, clock=clock)
    if session.is_new:
        try:
            check_not_empty(session)
        except KfmError as problem:
            if mode == "write" or isinstance(problem, Refused):
                session.close()
                raise
    if resolved.config.notify and mode != "read":
        from kfm.app.session.receiver_cursors import begin_receivers

        begin_receivers(session.state, resolved.config.notify)
    return session


def check_not_empty(session: Session) -> None:
    """Raise Refused if the state is empty and its places are not: the address or the schema is probably mistyped, and
    an empty state would publish what was withdrawn, remove what is public, and count its runs from the start."""
    if not _is_empty(session.state) or (session.config.state == "memory" and session.mode != "write"):
        return
    config, outside = session.config, open_public(session.resolved, session.state)
    what = ""
    if names := [name for name in outside.datasets() if _has_versions(outside, name)]:
        what = f"published files of {len(names)} dataset{'s' if len(names) > 1 else ''} are at {config.publish}"
    elif config.objects.startswith("s3:") and outside.names("receipts"):
        what = f"receipts of another state are at {config.objects}"
    if what and _is_empty_now(session):
        raise Refused(
            f"the state is empty, and {what}",
            hint="check `state` and `postgres.schema` in kfm.yml; a new installation needs a place of its own",
        )


def _has_versions(outside: Outside, dataset: str) -> bool:
    """Return whether KFM published a version there. Other files at this place may be those of the archive."""
    found = (each.path.split("/")[2] for each in outside.differences(dataset, {}, []))
    return any(name in VERSIONED for name in found)


def _is_empty(state: StoredState) -> bool:
    return next(iter(state.ledger.entries(limit=1)), None) is None


def _is_empty_now(session: Session) -> bool:
    """Open the state again and look: a session that reads shows it as of its own opening, and another process may have
    published the first version since."""
    tables = open_tables(session.resolved, "read")
    try:
        return _is_empty(StoredState(tables, session.clock.now_ms))
    finally:
        tables.close()


def session_on(
    resolved: Resolved,
    mode: Mode,
    tables: Tables,
    *,
    log: Log | None = None,
    progress: Progress | None = None,
    clock: Clock | None = None,
    anywhere: bool = False,
) -> Session:
    """Open an installation whose tables are already open. The storage is not checked, and with `anywhere` it is not
    checked either whether the state was moved."""
    clock = clock or from_environment()
    state = StoredState(tables, clock.now_ms)
    moved, is_new = ("", False) if anywhere else _checked_place(resolved, state, mode)
    ledger = resolved.config.ledger
    if mode != "read" and ledger.sign_with:
        from kfm.app.session.trust import LedgerNotary, Trust

        state.notary = LedgerNotary(Trust(resolved, state, clock), ledger.origin, ledger.every)
    objects = open_objects(resolved, state, mode)
    state.archive = partial(_archived, state, objects)
    session = Session(
        resolved=resolved,
        config=resolved.config,
        mode=mode,
        clock=clock,
        log=log or NullLog(),
        progress=progress or _silent,
        tables=tables,
        state=state,
        objects=objects,
        publisher=open_publisher(resolved, state, mode),
        load=load,
        tree=resolved.in_tree(""),
        moved=moved,
        is_new=is_new,
    )
    if mode == "write" and resolved.config.queue:
        state.on_kept = session.wake_up.ring
    return session


def _archived(state: StoredState, objects: Objects, run_id: str) -> Iterable[tuple[str, bytes]]:
    """Return the compacted journal of a run."""
    from kfm.store.readers.archive import Archive  # most journals that are read were not compacted

    return Archive(state, objects).rows(run_id)


def _checked_place(resolved: Resolved, state: StoredState, mode: Mode) -> tuple[str, bool]:
    """Let every transaction of a session that writes check that the state, its objects and its published files are
    where kfm.yml says. Return a warning for a session that only reads, and whether no session has written yet. Refused,
    and the tables are closed, if it may not be opened so."""

    def judge(body: bytes) -> bool:
        from kfm.app.session.moved_state import judged  # nearly every state is at home

        return judged(resolved, state, body)

    def judge_home() -> None:
        from kfm.app.session.moved_state import check_settings

        check_settings(resolved, state)

    state.home = _home(resolved.config)
    if mode == "write":
        state.judge_place, state.judge_home = judge, judge_home
    try:
        with state.recent():  # the tables were opened just now
            body = state.tables.get("meta", PLACE)
        if body is None or body == state.home:
            return "", body is None
        from kfm.app.session.moved_state import opened_place

        return opened_place(resolved, state, mode), False
    except BaseException:
        state.close()
        raise


def _home(config: Config) -> bytes:
    """Return the row `meta/place` of a state that is in force and that no move has left anything of."""
    return canonical({"objects": config.objects, "publish": config.publish})


def check_in_force(session: Session) -> None:
    """Raise if `kfm move` takes or took the state elsewhere since it was opened. A process that only waits would never
    learn it otherwise."""
    if session.tables.get("meta", PLACE) not in (None, session.state.home):
        from kfm.app.session.moved_state import opened_place

        opened_place(session.resolved, session.state, session.mode)


def load(resolved: Resolved, name: str, dataset: DatasetConfig) -> Updater:
    """Return a dataset's updater: the author's class, that of its job, or one made from the declaration in kfm.yml."""
    if dataset.updater is not None:
        return load_updater(name, dataset.updater, resolved.in_tree)
    if dataset.job:
        from kfm.updaters.jobs.job_loader import load_job

        read = {
            source: refs.in_zone(said.zone, dataset_id(said.dataset))
            for source, said in dataset.sources.items()
            if said.dataset
        }
        return load_job(name, dataset.job, dataset.parameters or {}, read, resolved.document, resolved.in_tree)
    from kfm.updaters.transforms.transform_updater import load_declared

    return load_declared(name, dataset.version, dataset.outputs, dataset.contracts())


def trust_of(session: Session) -> Trust:
    """Return the keys that this installation signs with and trusts."""
    from kfm.app.session.trust import Trust

    return Trust(session.resolved, session.state, session.clock)


def published_files(session: Session) -> Outside:
    """Return the published files for reading, in any mode."""
    return session.publisher if session.mode == "write" else open_public(session.resolved, session.state)
