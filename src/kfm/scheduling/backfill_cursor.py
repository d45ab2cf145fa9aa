"""A backfill: its plan is an object, a cursor moves over it, and each partition in progress has a trigger.

Only partitions in progress are in the inbox. A worker takes a partition by moving the cursor and storing its trigger in
one transaction, so each partition is taken once, and the trigger of a killed worker can be taken over by any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from kfm.errors import Conflict, Corrupt
from kfm.model import refs
from kfm.model.backfill_plan import (
    BAD,
    CANCELLED,
    CHUNK,
    DENIED,
    DONE,
    FAILED,
    FLYING,
    HELD,
    MADE,
    MISSING,
    PREFIX,
    SAME,
    STALE,
    BackfillPlan,
    Flight,
    Progress,
    Round,
    trigger_id,
)
from kfm.model.canonical import canonical
from kfm.model.ports import Objects, State, Tx
from kfm.model.records import LedgerEntry, Receipt, Trigger

RESULTS = {"held": HELD, "denied": DENIED, "escalated": DENIED, "cancelled": CANCELLED}
_progress = msgspec.json.Decoder(Progress)
_plan = msgspec.json.Decoder(BackfillPlan)

# Returns the triggers for downstream datasets: after one partition, or with "" after the whole backfill.
DownstreamTriggers = Callable[[str], list[Trigger]]


def store_plan(
    header: BackfillPlan, marked: Iterable[tuple[str, str]], put: Callable[[bytes], str]
) -> tuple[BackfillPlan, str]:
    """Store a plan chunk by chunk, holding one chunk in memory at a time; return the plan and its digest."""
    counts = {MISSING: 0, STALE: 0, DONE: 0}
    chunks: list[str] = []
    lines: list[str] = []
    for mark, name in marked:
        counts[mark] += 1
        lines.append(f"{mark}{name}\n")
        if len(lines) == CHUNK:
            chunks.append(put("".join(lines).encode()))
            lines.clear()
    if lines:
        chunks.append(put("".join(lines).encode()))
    plan = replace(header, counts=counts, total=sum(counts.values()), chunks=chunks)
    return plan, put(canonical(plan))


def read_plan(objects: Objects, digest: str) -> BackfillPlan:
    try:
        return _plan.decode(objects.read(digest))
    except msgspec.MsgspecError:
        raise Corrupt(f"{digest} is not a backfill plan", hint="restore the state from a copy") from None


def todo(plan: BackfillPlan) -> str:
    """Return the marks of the partitions that the plan would run, such as `missing`."""
    return {"needed": MISSING + STALE, "missing": MISSING, "all": MISSING + STALE + DONE}[plan.which]


def result_of(receipt: Receipt) -> str | None:
    """Return the mark for a partition's result; None if the run did not start because of a freeze."""
    if receipt.outcome == "frozen":
        return None
    if receipt.status == "FAILED":
        return RESULTS.get(receipt.outcome, FAILED)
    return MADE if is_new(receipt) else SAME


def is_new(receipt: Receipt) -> bool:
    ref = refs.processed(receipt.dataset)
    return any(move.ref == ref and move.after != move.before for move in receipt.moves)


def is_of_backfill(state: State, entry: LedgerEntry) -> bool:
    """Say whether a ledger entry is a partition of a backfill. The backfill itself triggers what depends on it."""
    run = state.runs.get(entry.run_id)
    return run is not None and run.trigger.trigger_id.startswith(PREFIX)


class BackfillProgress:
    """The progress of a plan, as the state holds it."""

    def __init__(self, state: State, objects: Objects, digest: str) -> None:
        self._state = state
        self.digest = digest
        self.plan = read_plan(objects, digest)
        self.ref = refs.backfill(self.plan.backfill)
        self.switch = refs.switch("backfill", self.plan.backfill)
        self.lines = lru_cache(maxsize=4)(lambda n: objects.read(self.plan.chunks[n]).decode().splitlines())

    # -- reading

    def progress(self) -> Progress:
        body = self._state.outbox.note(self.ref, "cursor")
        known = _progress.decode(body) if body is not None else None
        return known if known is not None and known.plan == self.digest else self._fresh()

    def _fresh(self) -> Progress:
        return Progress(plan=self.digest, total=self.plan.total)

    def marks(self, chunk: int) -> str:
        body = self._state.outbox.note(self.ref, self._name(chunk))
        return body.decode() if body is not None else "".join(line[0] for line in self.lines(chunk))

    def _name(self, chunk: int) -> str:
        return f"{self.plan.n}.{chunk:05d}"

    def partitions(self) -> Iterator[tuple[int, str, str]]:
        """Yield the position, mark and name of each partition."""
        for chunk in range(len(self.plan.chunks)):
            marks = self.marks(chunk)
            for n, line in enumerate(self.lines(chunk)):
                yield chunk * CHUNK + n, marks[n], line[1:]

    def name(self, position: int) -> str:
        return str(self.lines(position // CHUNK)[position % CHUNK][1:])

    def run_of(self, position: int, progress: Progress) -> str:
        """Return the last run of a partition, or "": it never ran, or its trigger was pruned."""
        for round_ in range(progress.round, 0, -1):
            ended = self._state.inbox.ended(trigger_id(self.plan, round_, position))
            if ended is not None:
                return ended.run_id
        return ""

    def is_over(self, progress: Progress) -> bool:
        return not progress.flying and self._next(progress) is None

    # -- writing

    def claim(
        self, asked: Trigger, holder: str, now_ms: int, telling: DownstreamTriggers
    ) -> tuple[int, Trigger] | None:
        """Take the next partition: store its trigger, and return its position and trigger. None: no partition is left.

        The transaction need not be durable: a power cut loses it together with the run that followed from it.
        """
        with self._state.transaction(durable=False, switches=(self.switch,)) as tx:
            progress = self._current(tx)
            position = self._next(progress)
            if position is None:
                self._save(tx, self._told(tx, replace(progress, at=progress.total), telling))
                return None
            name = self.name(position)
            trigger = tx.inbox.keep(
                replace(asked, trigger_id=trigger_id(self.plan, progress.round, position), partition=name)
            )
            self._mark(tx, position, FLYING)
            flight = Flight(trigger_id=trigger.trigger_id, partition=name, holder=holder, since_ms=now_ms)
            flying = {**progress.flying, str(position): flight}
            self._save(tx, replace(progress, at=position + 1, flying=flying))
        return position, trigger

    def take_over(self, position: int, holder: str, now_ms: int) -> Trigger | None:
        """Take over a partition whose worker is gone and return its stored trigger. None: it ended, or another worker
        has it.
        """
        with self._state.transaction(durable=False, switches=(self.switch,)) as tx:
            progress = self._current(tx)
            left = progress.flying.get(str(position))
            kept = self._kept(left) if left is not None else None
            if left is None or kept is None:
                return None
            mine = replace(left, holder=holder, since_ms=now_ms)
            self._save(tx, replace(progress, flying={**progress.flying, str(position): mine}))
        return kept

    def give_back(self, position: int) -> None:
        """Release a partition that cannot run right now, so that the next worker may try it."""
        with self._state.transaction(durable=False) as tx:
            progress = self._current(tx, cancelled=True)
            mine = progress.flying.get(str(position))
            if mine is not None:
                free = {**progress.flying, str(position): replace(mine, holder="")}
                self._save(tx, replace(progress, flying=free))

    def _kept(self, flight: Flight) -> Trigger | None:
        of = Trigger(kind="manual", updater_id="", dataset=self.plan.dataset, trigger_id=flight.trigger_id)
        return self._state.inbox.kept(of)

    def note(self, position: int, result: str, telling: DownstreamTriggers, *, new: bool) -> None:
        """Record a partition's result and the triggers of downstream datasets in one transaction."""
        with self._state.transaction(durable=False) as tx:
            progress = self._current(tx, cancelled=True)
            if str(position) not in progress.flying:
                return  # another worker recorded it
            self._mark(tx, position, result)
            flying = {at: each for at, each in progress.flying.items() if at != str(position)}
            counts = {**progress.counts, result: progress.counts.get(result, 0) + 1}
            progress = replace(progress, flying=flying, counts=counts, changed=progress.changed or new)
            if new and self.plan.downstream == "emit":
                progress = self._tell(tx, progress, telling(self.name(position)))
            self._save(tx, self._told(tx, progress, telling))

    def again(self, which: Round) -> Progress:
        """Begin another round: over the partitions that were never tried, over those that ended badly, or over both, as
        `which` says."""
        with self._state.transaction(switches=(self.switch,)) as tx:
            progress = self._current(tx)
            if progress == self._fresh() and which != "failed":
                return progress
            counts = dict(progress.counts)
            if which != "missing":
                counts = {letter: n for letter, n in counts.items() if letter not in BAD}
            changed = replace(progress, round=progress.round + 1, which=which, at=0, counts=counts)
            self._save(tx, changed)
        return changed

    def end(self, run_id: str, telling: DownstreamTriggers) -> None:
        """End a cancelled backfill: partitions that were taken but not begun do not begin, and downstream datasets are
        triggered for the partitions that were built.
        """
        with self._state.transaction() as tx:
            progress = self._current(tx, cancelled=True)
            begun = {run.trigger.trigger_id for run in self._state.runs.unfinished(self.plan.dataset)}
            for flight in progress.flying.values():
                kept = self._kept(flight)
                if kept is not None and flight.trigger_id not in begun:
                    tx.inbox.finish(kept, run_id)
            if progress.changed and self.plan.downstream == "coalesce":
                progress = self._tell(tx, progress, telling(""))
            self._save(tx, replace(progress, changed=False))

    def _current(self, tx: Tx, *, cancelled: bool = False) -> Progress:
        """Return the progress, within an open transaction. A new plan starts from the beginning. Raise Conflict if the
        backfill was cancelled or planned again.
        """
        if not cancelled and self._state.refs.at(self.ref) != self.digest:
            raise Conflict(
                f"backfill {self.plan.backfill} was cancelled, or planned again",
                hint=f"see `kfm backfill status {self.plan.backfill}`",
            )
        body = self._state.outbox.note(self.ref, "cursor")
        if body is not None and _progress.decode(body).plan != self.digest:
            tx.outbox.forget_notes(self.ref)
        return self.progress()

    def _next(self, progress: Progress) -> int | None:
        """Return the first position at or after the cursor that belongs to this round."""
        todos = todo(self.plan)
        wanted = {"all": todos + BAD, "missing": todos, "failed": BAD}[progress.which]
        at = progress.at
        while at < progress.total:
            chunk, first = divmod(at, CHUNK)
            marks = self.marks(chunk)
            found = next((n for n in range(first, len(marks)) if marks[n] in wanted), None)
            if found is not None:
                return chunk * CHUNK + found
            at = (chunk + 1) * CHUNK
        return None

    def _mark(self, tx: Tx, position: int, letter: str) -> None:
        chunk, at = divmod(position, CHUNK)
        marks = self.marks(chunk)
        tx.outbox.keep_note(self.ref, self._name(chunk), (marks[:at] + letter + marks[at + 1 :]).encode())

    def _told(self, tx: Tx, progress: Progress, telling: DownstreamTriggers) -> Progress:
        """Trigger downstream datasets once, when all partitions of a round have ended."""
        if progress.changed and self.plan.downstream == "coalesce" and self.is_over(progress):
            return replace(self._tell(tx, progress, telling("")), changed=False)
        return progress

    def _tell(self, tx: Tx, progress: Progress, triggers: list[Trigger]) -> Progress:
        for each in triggers:
            tx.inbox.keep(each)
        return replace(progress, asked=progress.asked + len(triggers))

    def _save(self, tx: Tx, progress: Progress) -> None:
        tx.outbox.keep_note(self.ref, "cursor", canonical(progress))
