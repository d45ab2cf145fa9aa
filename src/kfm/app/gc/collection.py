"""`kfm gc`: removes what nothing names any more, and what is past its retention.

An object is removed in two steps. The first `kfm gc` that finds no name of it sets it aside: a reader still finds it,
but a writer that looks whether it may skip a write does not, and writes it again. A later `kfm gc`, after the grace
time, removes it for good, or takes it back if something names it after all. So a run that skipped the write of an
object names it in the state before the object is removed: it began before that moment, and while it is unfinished
nothing is removed that was set aside since.

The report of what is removed is in the ledger before the first change, so a kill leaves no change without a record.
Every step may be repeated: the same command goes on where a killed one was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kfm.app.gc.mark import mark
from kfm.app.gc.unchanged_runs import shorten, unchanged_runs
from kfm.app.maintenance.maintenance_records import record
from kfm.app.previews.preview_expiry import expired_previews, remove_expired
from kfm.app.runs.settlement import keep_ms, prune_inbox
from kfm.app.session.backends import open_tables
from kfm.app.session.exclusive import alone
from kfm.app.session.object_names import unpacked
from kfm.clock import parse_instant
from kfm.config.retention_settings import retention_ms
from kfm.errors import Frozen, Refused
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.scheduling.triggers import DAY_MS, prunable
from kfm.store.retention.aside_rows import MOVING, REMOVING
from kfm.store.retention.object_marks import ASIDE, LARGE, SMALL
from kfm.store.state import StoredState

if TYPE_CHECKING:
    from kfm.app.previews.preview_expiry import ExpiredPreview
    from kfm.app.session.session import Session
    from kfm.model.ports import Tables
    from kfm.model.records import Receipt
    from kfm.store.retention.object_marks import Listed, ObjectMarks
    from kfm.store.stored_objects import StoredObjects

BATCH = 500  # objects of one transaction
LISTED = 10_000  # names in one piece of the list of what is removed
MOST = 100_000  # receipts that one command puts into short form
MARGIN_MS = 600_000  # the clocks of two machines may differ so much


class Kind(NamedTuple):
    """How much of one kind is removed, or would be. `size` is None where rows of the state are only counted."""

    kind: str
    many: int
    size: int | None  # bytes
    what: str


class Collection(NamedTuple):
    """What `kfm gc` removed, or would remove."""

    kinds: tuple[Kind, ...]
    waits_for: str  # the oldest unfinished run, if it keeps objects from being removed
    receipts: tuple[Receipt, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(each.many for each in self.kinds)


def preview(session: Session) -> Collection:
    """Return what would be removed. The session may be one that reads; nothing is written."""
    _check(session)
    found = _Found(session, session.tables)
    try:
        return Collection(found.kinds(), found.waits_for)
    finally:
        found.close()


def collect(session: Session, *, reason: str = "", actor: str = "") -> Collection:
    """Remove what may be removed, and return how much. Busy if another process does so, Frozen if the installation is,
    Corrupt if an object that is needed is damaged; then nothing was removed."""
    _check(session)
    check_open(session)
    with _alone(session) as check:
        tables = open_tables(session.resolved, "read")
        try:
            found = _Found(session, tables)
        finally:
            tables.close()
        try:
            kinds = found.kinds()
            if not any(each.many for each in kinds):
                return Collection(kinds, found.waits_for)
            receipts = [record(session, "gc", found.report(), reason=reason, actor=actor)]
            receipts += found.remove(check, reason=reason, actor=actor)
            return Collection(kinds, found.waits_for, tuple(receipts))
        finally:
            found.close()


def check_open(session: Session) -> None:
    """Raise Frozen if everything is frozen."""
    if refs.is_frozen(session.state.refs.at(refs.switch("global"))):
        raise Frozen(
            "global is frozen: nothing is removed", hint="look with `--dry-run`; `kfm thaw --reason …` opens it"
        )


def _check(session: Session) -> None:
    """Raise Refused for a state that cannot say what its objects are for."""
    if session.config.state == "memory":
        raise Refused("a state in memory ends with its process", hint="nothing is left to remove")
    if next(iter(session.state.ledger.entries(limit=1)), None) is None:
        raise Refused("nothing was run yet", hint="check `state` in kfm.yml; run a dataset first")


@contextmanager
def _alone(session: Session) -> Iterator[Callable[[], None]]:
    """Hold the lock of `kfm gc`; yield a function that raises if work must stop: everything was frozen meanwhile."""
    with alone(session, "gc", "removes what nothing names") as is_mine:

        def check() -> None:
            check_open(session)
            is_mine()

        yield check


class _Found:
    """Everything that may be removed as of one snapshot of the state."""

    def __init__(self, session: Session, tables: Tables) -> None:
        config = session.config.retention
        self._session = session
        self._now = session.state.now_ms()
        snapshot = StoredState(tables, session.clock.now_ms)
        self.waits_for, oldest = _oldest_unfinished(snapshot)
        self._before = self._now - (retention_ms(config.grace) or 0)
        if self.waits_for and oldest - MARGIN_MS < self._before:
            self._before = oldest - MARGIN_MS
        else:
            self.waits_for = ""
        before = retention_ms(config.unchanged_runs)
        self._runs = list(islice(unchanged_runs(snapshot, self._now - before), MOST)) if before is not None else []
        self._previews: list[ExpiredPreview] = []
        if (age := retention_ms(config.previews)) is not None:
            self._previews = expired_previews(session, age // DAY_MS, by_age=True)
        self._rows = len(prunable(snapshot, session.clock.now_ms(), keep_ms(session)))
        self._marks: ObjectMarks = mark(session.resolved, tables, session.clock.now_ms, session.progress)

    def close(self) -> None:
        self._marks.close()

    def kinds(self) -> tuple[Kind, ...]:
        aside, size = self._marks.counts(reached=False, places=SMALL | LARGE)
        gone = gone_size = 0
        for each in self._each(reached=False, places=ASIDE):
            if self._is_due(each):
                gone, gone_size = gone + 1, gone_size + each[2]
            elif each[3] == MOVING:  # a killed process had begun to set it aside
                aside, size = aside + 1, size + each[2]
        back = self._marks.counts(reached=True, places=ASIDE)
        return (
            Kind("objects", gone, gone_size, "removed for good: set aside before"),
            Kind("aside", aside, size, "set aside: nothing names them; removed after the grace time"),
            Kind("back", *back, "taken back: something names them again"),
            Kind("receipts", len(self._runs), sum(run.size for run in self._runs), "put into short form"),
            Kind("previews", len(self._previews), None, "expired previews"),
            Kind("rows", self._rows, None, "ended triggers, jobs and message ids"),
        )

    def _is_due(self, each: Listed) -> bool:
        return each[3] == REMOVING or 0 <= each[3] < self._before

    def _each(self, *, reached: bool, places: int) -> Iterator[Listed]:
        after = b""
        while page := self._marks.found(reached=reached, places=places, after=after):
            yield from page
            after = page[-1][0]

    def report(self) -> dict[str, Any]:
        """Return the report for the ledger. Names are written as paths: a digest would keep what it names."""
        kinds = {
            each.kind: {"count": each.many} | ({} if each.size is None else {"bytes": each.size})
            for each in self.kinds()
        }
        removed = (each for each in self._each(reached=False, places=ASIDE) if self._is_due(each))
        aside = self._each(reached=False, places=SMALL | LARGE)
        return {
            "kinds": kinds,
            "removed": self._listed(removed),
            "set_aside": self._listed(aside),
            "shortened": self._named(run.run_id for run in self._runs),
            "previews": [each.branch for each in self._previews],
        }

    def _listed(self, objects: Iterator[Listed]) -> list[str]:
        return self._named(f"sha256/{each[0].hex()[:2]}/{each[0].hex()[2:]}" for each in objects)

    def _named(self, names: Iterator[str]) -> list[str]:
        """Store these names as objects, and return the digests of these."""
        pieces = []
        while some := list(islice(names, LISTED)):
            pieces.append(self._session.objects.put(canonical(some)))
        return pieces

    def remove(self, check: Callable[[], None], *, reason: str, actor: str) -> Iterator[Receipt]:
        """Make every change, and yield the receipts of those that have one."""
        session = self._session
        objects: StoredObjects = session.objects  # type: ignore[assignment]
        for names in self._batches(reached=True, places=ASIDE):
            check()
            for name in names:
                objects.bring_back(name, removing=True)
        for names in self._batches(reached=False, places=ASIDE):
            check()
            for name in names:
                objects.finish_moving(name)
            objects.remove_aside(names, self._before)
        for names in self._batches(reached=False, places=SMALL | LARGE):
            check()
            objects.set_aside(names)
        shorten(session, self._runs, check)
        for each in self._previews:
            check()
            yield remove_expired(session, each, reason=reason, actor=actor)
        if self._rows:
            prune_inbox(session, again=True)

    def _batches(self, *, reached: bool, places: int) -> Iterator[list[str]]:
        names: list[str] = []
        for done, each in enumerate(self._each(reached=reached, places=places), 1):
            names.append(unpacked(each[0]))
            if len(names) == BATCH:
                self._session.progress("remove", done, done)
                yield names
                names = []
        if names:
            yield names


def _oldest_unfinished(state: StoredState) -> tuple[str, int]:
    """Return the unfinished run that began first, and when; no id if every run has ended."""
    began = [(parse_instant(run.started_at, "the start of a run"), run.run_id) for run in state.runs.unfinished()]
    return (min(began)[1], min(began)[0]) if began else ("", 0)
