"""Plans, starts and cancels backfills, and reports their status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from kfm.app.authority.gates import policies_of
from kfm.app.authority.run_setup import guards_of
from kfm.app.backfills.backfill_worker import FollowingTriggers, is_alive, is_set
from kfm.app.runs.due_schedules import schedules_of
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_config, dataset_updater
from kfm.clock import parse_instant
from kfm.config.backfill_files import Backfill, declared_backfills
from kfm.errors import BadInput, Conflict, Refused
from kfm.model import refs
from kfm.model.backfill_plan import BAD, CHUNK, DONE, MISSING, STALE, WORDS, BackfillPlan, Progress, Round
from kfm.model.canonical import canonical
from kfm.model.keys import claim_key, digest
from kfm.model.manifests import entries, entries_of
from kfm.model.names import check_id
from kfm.model.records import Receipt, Run
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest
from kfm.scheduling.backfill_cursor import BackfillProgress, store_plan, todo

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import DatasetConfig
    from kfm.model.updater import Updater

ONE_BY_ONE = 200  # partitions looked up one by one; beyond that all entries are read at once
RUNS = 20  # earlier runs from which the time of a partition is estimated
LOOKED_AT = 500  # ledger entries that are searched for them
GATES = ("work", "processed")  # gates of each run; the gate to Published decides at promotion


class PlannedBackfill(NamedTuple):
    """A stored plan, and what it would cost."""

    plan: BackfillPlan
    digest: str
    runs: int  # number of partitions that it would run
    expected_ms: int | None  # time for all of them; None if no earlier run shows it


class FailedPartition(NamedTuple):
    """A partition that failed, and its run."""

    partition: str
    result: str
    run_id: str


class BackfillStatus(NamedTuple):
    """The status of a backfill."""

    id: str
    dataset: str
    state: str  # not started | waiting | at work | paused | finished | cancelled
    plan: BackfillPlan | None
    digest: str
    counts: dict[str, int]
    left: int
    asked: int
    started_at: str
    actor: str
    failing: list[FailedPartition]


def plan(session: Session, backfill: Backfill) -> PlannedBackfill:
    """Return what a backfill would do now. A session in mode `write` also stores the plan."""
    resolved, said = session.resolved, backfill.said
    updater = dataset_updater(session, backfill.dataset)
    first = next(backfill.partitions(), None)
    new_trigger(session, backfill.dataset, partition=first or "")  # raises for a mistake in the updater
    last = next(iter(session.state.refs.history(refs.backfill(backfill.id), reverse=True, limit=1)), None)
    header = BackfillPlan(
        backfill=backfill.id,
        n=last.n if last is not None else 0,
        dataset=backfill.dataset,
        updater=updater.id,
        updater_version=updater.version,
        code_hash=updater.code_hash,
        config_hash=dataset_config(session, backfill.dataset).digest(),
        kind=said.partitions.kind,
        which=said.which,
        downstream=said.downstream,
        after=sorted(each.id for each in schedules_of(resolved) if backfill.dataset in each.after),
        pool=said.pool or dataset_config(session, backfill.dataset).pool,
        gates=policies_of(resolved).digest,
        label_epoch=guards_of(session, backfill.dataset).epoch,
        counts={},
        total=0,
        chunks=[],
    )
    if session.mode == "write":
        _keep_config(session, header.config_hash, dataset_config(session, backfill.dataset))
    put: Callable[[bytes], str] = session.objects.put if session.mode == "write" else digest
    made, name = store_plan(header, marked(session, backfill.dataset, updater, backfill.partitions()), put)
    each_ms = expected_ms(session, backfill.dataset)
    runs = sum(made.counts[mark] for mark in todo(made))
    return PlannedBackfill(made, name, runs, None if each_ms is None else each_ms * runs)


def _keep_config(session: Session, config_hash: str, config: DatasetConfig) -> None:
    """Store the settings that the plan names, so that its partitions are built with them also after kfm.yml changed.
    Not synced: the start of the backfill is."""
    if session.state.inline_object(config_hash) is None:
        with session.state.transaction(durable=False) as tx:
            tx.objects([(config_hash, canonical(config))])


def marked(session: Session, dataset: str, updater: Updater, names: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield each partition with its mark: missing, stale (made by another version of the updater) or done. Changed
    sources are not examined here: the run reads them."""
    look = _PartitionMarks(session, dataset, updater)
    while some := list(islice(names, CHUNK)):
        with session.state.reading():
            found = [(look.letter(name), name) for name in some]
        yield from found


class _PartitionMarks:
    def __init__(self, session: Session, dataset: str, updater: Updater) -> None:
        self._state = session.state
        self._objects = session.objects
        self._dataset = dataset
        self._updater = updater
        self._version = session.state.refs.at(refs.processed(dataset))
        self._asked = 0
        self._all: set[str] | None = None

    def letter(self, name: str) -> str:
        if not self._version:
            return MISSING
        there = self._is_there(name)
        last = next(iter(self._state.refs.history(refs.raw(f"{self._dataset}/{name}", 0), reverse=True, limit=1)), None)
        if last is None:
            return DONE if there else MISSING  # without a source, no run shows which version made it
        run = self._state.runs.get(last.run_id)
        if not there and (run is None or not run.version_digest or self._has(run.version_digest, name)):
            return MISSING  # it was made and then removed
        return DONE if run is not None and self._is_made(run, name) else STALE

    def _is_made(self, run: Run, name: str) -> bool:
        """Return whether the updater in its present version has done this work. The run that last stored the source
        does not answer that: a later version of the updater may have read the same bytes."""
        updater = self._updater
        key = claim_key(updater.id, updater.version, self._dataset, run.trigger.window, run.input_hash, {}, name)
        last = run if run.claim_key == key else self._state.runs.claimed(key)
        return last is not None and last.status == "COMMITTED"

    def _has(self, version: str, name: str) -> bool:
        return next(iter(entries_of(self._objects, version, name)), None) is not None

    def _is_there(self, name: str) -> bool:
        if self._all is None and self._asked < ONE_BY_ONE:
            self._asked += 1
            return self._has(self._version, name)
        if self._all is None:
            self._all = {entry.key[0] for entry in entries(self._objects, self._version)}
        return name in self._all


def expected_ms(session: Session, dataset: str) -> int | None:
    """Return the median duration of the dataset's last partition runs; None if there was none."""
    found: list[int] = []
    for entry in islice(session.state.ledger.entries_of(dataset), LOOKED_AT):
        receipt = session.state.ledger.receipt(entry.run_id) if entry.outcome == "done" else None
        if receipt is None or not receipt.partition or receipt.status != "SUCCESS":
            continue
        took = parse_instant(receipt.finished_at, "a receipt") - parse_instant(receipt.started_at, "a receipt")
        found.append(max(took, 0))
        if len(found) == RUNS:
            break
    return round(median(found)) if found else None


# -- starting and ending


def start(
    session: Session, backfill: Backfill, wanted: str, *, actor: str, reason: str
) -> tuple[PlannedBackfill, Receipt | None]:
    """Plan a backfill and start it by moving its ref to the plan. Return the plan, and the receipt; None as receipt if
    nothing is to be done.

    Conflict if the backfill is running, or if `wanted`, a digest or its start, is not this plan.
    """
    under_way = board_of(session, backfill.id)
    if under_way is not None and not under_way.is_over(under_way.progress()):
        raise Conflict(
            f"backfill {backfill.id} is under way",
            hint=f"go on with `kfm backfill resume {backfill.id}`, or end it with `kfm backfill cancel {backfill.id}`",
        )
    found = plan(session, backfill)
    if wanted and not found.digest.removeprefix("sha256:").startswith(wanted.removeprefix("sha256:")):
        raise Conflict(
            f"the plan of {backfill.id} is now {found.digest[:19]}, not the one that was shown",
            hint=f"look at it again: `kfm backfill plan {backfill.id}`",
        )
    if not found.runs:
        return found, None
    params = {"backfill": backfill.id, "to": found.digest}
    return found, run_operation(session, "backfill", backfill.dataset, params, actor=actor, reason=reason)


def cancel(session: Session, id: str, *, actor: str, reason: str) -> Receipt:
    """Cancel a backfill and return the receipt. No further partition starts; partitions that are running finish."""
    board = under_way(session, id)
    receipt = run_operation(
        session, "backfill", board.plan.dataset, {"backfill": id, "to": "nothing"}, actor=actor, reason=reason
    )
    if receipt.status == "SUCCESS":
        board.end(receipt.run_id, FollowingTriggers(session, board.plan))
    return receipt


def again(session: Session, id: str, which: Round | None) -> BackfillProgress:
    """Start another round of a backfill and return its progress: over the partitions that `which` selects, or over all
    partitions if `which` is None and the backfill has ended."""
    board = under_way(session, id)
    progress = board.progress()
    if which or board.is_over(progress):
        board.again(which or "all")
    return board


def board_of(session: Session, id: str) -> BackfillProgress | None:
    """Return the progress of a backfill; None if it was never started or was cancelled."""
    at = session.state.refs.at(refs.backfill(check_id(id, "backfill")))
    return BackfillProgress(session.state, session.objects, at) if at else None


def under_way(session: Session, id: str) -> BackfillProgress:
    """Return the progress of a backfill. Refused if it was never started or was cancelled."""
    board = board_of(session, id)
    if board is None:
        known = [refs.parse(name).rest for name, _ in session.state.refs.all(refs.BACKFILL)]
        close = nearest(id, sorted(known))
        hint = f"did you mean {close}?" if close else f"start it: `kfm backfill start {printable(id)}`"
        raise Refused(f"backfill {printable(id)} is not under way", hint=hint)
    return board


# -- status


def known_backfills(session: Session) -> dict[str, str]:
    """Return the backfills that are declared or were ever started, each with its declared dataset; empty for one that
    is not declared any more."""
    known = {each.id: each.dataset for each in declared_backfills(session.resolved)}
    for entry in session.state.refs.histories(refs.BACKFILL):
        known.setdefault(refs.parse(entry.ref).rest, "")
    return known


def backfill_statuses(session: Session, id: str = "", *, limit: int = 50) -> list[BackfillStatus]:
    """Return the status of one backfill, or of all that are declared or were ever started. BadInput if there is none of
    this id. `limit` bounds the failed partitions that are listed."""
    known = known_backfills(session)
    if id and id not in known:
        close = nearest(id, sorted(known))
        hint = f"did you mean {close}?" if close else f"declare it in a file in {session.config.backfills}"
        raise BadInput(f"there is no backfill {printable(id)}", hint=hint)
    return [status_of(session, each, known[each], limit if id else 0) for each in ([id] if id else sorted(known))]


def status_of(session: Session, id: str, dataset: str, limit: int) -> BackfillStatus:
    """Return the status of a backfill, with its first `limit` failed partitions. `dataset` is as `known_backfills` has
    it."""
    last = next(iter(session.state.refs.history(refs.backfill(id), reverse=True, limit=1)), None)
    if last is None:
        return BackfillStatus(id, dataset, "not started", None, "", {}, 0, 0, "", "", [])
    at = last.after or last.before
    board = BackfillProgress(session.state, session.objects, at)
    progress = board.progress()
    marks: dict[str, int] = {}
    failing: list[FailedPartition] = []
    for position, mark, name in board.partitions():
        marks[mark] = marks.get(mark, 0) + 1
        if mark in BAD and len(failing) < limit:
            failing.append(FailedPartition(name, WORDS[mark], board.run_of(position, progress)))
    left = sum(marks.get(mark, 0) for mark in todo(board.plan))
    counts = {WORDS[mark]: n for mark, n in marks.items() if mark not in todo(board.plan)}
    state = _state(session, board, progress, is_there=bool(last.after))
    return BackfillStatus(
        id, board.plan.dataset, state, board.plan, at, counts, left, progress.asked, last.ts, last.actor, failing
    )


def _state(session: Session, board: BackfillProgress, progress: Progress, *, is_there: bool) -> str:
    if not is_there:
        return "cancelled"
    if board.is_over(progress):
        return "finished"
    if is_set(session, board.ref):
        return "paused"
    now_ms = session.state.now_ms()
    return "at work" if any(is_alive(each, now_ms) for each in progress.flying.values()) else "waiting"
