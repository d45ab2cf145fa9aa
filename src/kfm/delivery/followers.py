"""Followers of the ledger: each tells one sink of every run, at least once, behind a cursor of its own.

Nothing here can undo a commit, change a receipt or fail a run. A sink that does not answer is tried again, later and
later; one run that it refuses for good is set aside, to be seen and tried again, and holds up no other. While a switch
is set, what the dataset did waits; a withdrawal never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

from kfm.clock import Clock, rfc3339
from kfm.errors import Busy, Corrupt, Frozen, KfmError, Refused, Unavailable
from kfm.model import refs
from kfm.model.outbox_messages import DeadLetter, Letter, Stopped
from kfm.model.ports import Lock, Log, Sink, State, Tx
from kfm.model.public_run import PublicRun
from kfm.model.records import LedgerEntry

ENTRIES = 256  # of the ledger that are noted as told together
LETTERS = 1000  # that a sink gets at once, if it does not ask for more
PATIENCE = 1000  # hundredths of a second for another process that tells the same sink
SOONEST_MS, LATEST_MS = 1_000, 3_600_000  # between two tries of a sink that does not answer


class Follower(NamedTuple):
    """Who is told, and what: what some entries of the ledger come to, in the sink's own grammar. Of a dataset that is
    frozen only an entry that withdraws comes."""

    sink: Sink
    letters: Callable[[Sequence[LedgerEntry]], Iterable[Letter]]
    lock: Callable[[], Lock]  # of this sink: processes that tell it take turns
    at_once: int = LETTERS  # letters that are handed over together
    note: Callable[[Tx], None] = lambda _tx: None  # what else is to be remembered of what it was told


class Progress(NamedTuple):
    """How far a sink is."""

    name: str
    cursor: int
    newest: int
    waiting: int  # entries that wait for a thaw
    dead: list[DeadLetter]
    stopped: Stopped | None

    @property
    def lag(self) -> int:
        """Entries of the ledger of which it has not heard."""
        return self.newest - self.cursor + self.waiting


def each_run(
    read: Callable[[LedgerEntry], PublicRun], project: Callable[[PublicRun], Any]
) -> Callable[[Sequence[LedgerEntry]], Iterator[Letter]]:
    """For a sink that wants to hear of every run by itself: one letter a run, whose body is what `project` gives."""

    def letters(entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
        for entry in entries:
            run = read(entry)
            body = project(run)
            yield Letter(index=entry.index, run_id=run.run_id, dataset=run.dataset, key=run.run_id, body=body)

    return letters


def progress(state: State, sink: str) -> Progress:
    newest = next((entry.index for entry in state.ledger.entries(reverse=True, limit=1)), 0)
    outbox = state.outbox
    waiting = sum(1 for _ in outbox.waiting(sink))
    return Progress(sink, outbox.cursor(sink), newest, waiting, list(outbox.dead(sink)), outbox.stopped(sink))


def follow(state: State, follower: Follower, clock: Clock, log: Log, *, again: bool = False) -> KfmError | None:
    """Tell the sink all there is to tell; what kept us from it, if anything did. Raises nothing that a sink does.

    A sink that did not answer is left alone until its time has come. `again`: try now, also what it refused.
    """
    name, now = follower.sink.name, clock.now_ms()
    stopped = state.outbox.stopped(name)
    if stopped is not None and now < stopped.not_before and not again:
        tried = f"tried {stopped.tries} times since {stopped.since}, next after {rfc3339(stopped.not_before)}"
        return Unavailable(
            f"{name}: {stopped.message}",
            hint=f"{tried}; `kfm sinks retry {name}` tries now",
        )
    following = _Following(state, follower, rfc3339(now), log)
    try:
        if not following.has_something(again=again):
            return None
        with taking_turns(follower, clock):
            following.all(again=again)
    except Busy as problem:  # whoever has the turn tells it, or we do the next time
        return Busy(f"{name}: {problem.message}", hint=problem.hint)
    except KfmError as problem:
        _note(state, name, problem, now)
        log.event("sink.stopped", sink=name, error=problem)
        told = type(problem)(
            f"{name}: {problem.message}", hint=f"see `kfm sinks`; `kfm sinks retry {name}` tries again"
        )
        told.fields = problem.fields
        return told
    if stopped is not None:
        _note(state, name, None, now)
    return None


def _note(state: State, sink: str, problem: KfmError | None, now: int) -> None:
    with state.transaction(durable=False) as tx:
        if problem is None:
            tx.outbox.note_stopped(sink, None)
            return
        before = state.outbox.stopped(sink)
        tries = before.tries + 1 if before else 1
        wait = min(LATEST_MS, SOONEST_MS << min(tries - 1, 20))
        since = before.since if before else rfc3339(now)
        tx.outbox.note_stopped(
            sink, Stopped(tries=tries, since=since, not_before=now + wait, code=problem.code, message=problem.message)
        )


@contextmanager
def taking_turns(follower: Follower, clock: Clock) -> Iterator[None]:
    """Nobody else tells this sink meanwhile. Busy if another does so for long."""
    lock = follower.lock()
    try:
        for _ in range(PATIENCE):
            try:
                if lock.take():
                    break
            except OSError as problem:
                raise Unavailable(f"its lock cannot be had: {problem.strerror}", hint="look at the folder") from problem
            clock.sleep(0.01)
        else:
            raise Busy("another process is telling it", hint="what was committed is kept and told later")
        yield
    finally:
        lock.close()


class _Following:
    """One turn of one follower: what waited and is open now, then the ledger from the cursor to its end."""

    def __init__(self, state: State, follower: Follower, now: str, log: Log) -> None:
        self._state = state
        self._sink = follower.sink
        self._letters = follower.letters
        self._note = follower.note
        self._at_once = follower.at_once
        self._now = now
        self._log = log

    def has_something(self, *, again: bool) -> bool:
        name, outbox = self._sink.name, self._state.outbox
        newest = next((entry.index for entry in self._state.ledger.entries(reverse=True, limit=1)), 0)
        return (
            outbox.cursor(name) < newest
            or next(outbox.waiting(name), None) is not None
            or (again and next(outbox.dead(name), None) is not None)
        )

    def all(self, *, again: bool) -> None:
        name, outbox = self._sink.name, self._state.outbox
        if again:
            self._older([letter.index for letter in outbox.dead(name)])
        self._older([index for index in outbox.waiting(name) if not self._holds(self._entry(index))])
        while entries := list(self._state.ledger.entries(after=outbox.cursor(name), limit=ENTRIES)):
            self._tell(entries)

    def _older(self, indexes: Sequence[int]) -> None:
        for at in range(0, len(indexes), ENTRIES):
            self._tell([self._entry(index) for index in indexes[at : at + ENTRIES]])

    def _entry(self, index: int) -> LedgerEntry:
        return next(iter(self._state.ledger.entries(after=index - 1, limit=1)))

    def _tell(self, entries: Sequence[LedgerEntry]) -> None:
        """All that may be told, and then a note of it. Killed before the note: it is told again."""
        name, last = self._sink.name, entries[-1].index
        while True:  # what is frozen while we are at it waits with the others
            waiting = [entry for entry in entries if self._holds(entry)]
            told = [entry for entry in entries if entry not in waiting]
            try:
                dead = self._send(told)
                break
            except Frozen:
                continue
        with self._state.transaction(durable=False) as tx:
            for entry in told:
                tx.outbox.clear(name, entry.index)
            for entry in waiting:
                tx.outbox.wait(name, entry.index)
            for letter in dead:
                tx.outbox.bury(name, letter)
            self._note(tx)
            tx.outbox.advance(name, last)

    def _send(self, entries: Sequence[LedgerEntry]) -> list[DeadLetter]:
        """Those that it will not take. They are found by halves: one that is refused takes no other with it."""
        if not entries:
            return []
        try:
            self._hand_over(entries)
        except (Refused, Corrupt) as problem:
            if len(entries) > 1:
                middle = len(entries) // 2
                return [*self._send(entries[:middle]), *self._send(entries[middle:])]
            return [self._dead(entries[0], problem)]
        return []

    def _hand_over(self, entries: Sequence[LedgerEntry]) -> None:
        try:
            letters = iter(self._letters(entries))
            while some := list(islice(letters, self._at_once)):
                if any(self._holds(entry) for entry in entries):
                    raise Frozen("frozen meanwhile")
                self._sink.send(some)
        except KfmError:
            raise
        except Exception as problem:  # a library of the sink's: its words may hold anything
            raise Unavailable(f"it failed ({type(problem).__name__})", hint="see `kfm sinks`") from problem

    def _dead(self, entry: LedgerEntry, problem: KfmError) -> DeadLetter:
        known = next(
            (letter for letter in self._state.outbox.dead(self._sink.name) if letter.index == entry.index), None
        )
        self._log.event("sink.refused", sink=self._sink.name, ledger_index=entry.index, error=problem)
        return DeadLetter(
            index=entry.index,
            run_id=entry.run_id,
            dataset=entry.dataset,
            code=problem.code,
            message=problem.message,
            since=known.since if known else self._now,
            tries=known.tries + 1 if known else 1,
        )

    def _holds(self, entry: LedgerEntry) -> bool:
        """What a switch keeps inside. What takes away is never stopped."""
        return not _withdraws(entry) and is_frozen(self._state, entry.dataset)


def is_frozen(state: State, dataset: str) -> bool:
    return any(refs.is_frozen(state.refs.at(ref)) for ref in refs.switches(dataset))


def _withdraws(entry: LedgerEntry) -> bool:
    return any(move.ref.startswith(refs.PUBLISHED) and not move.after for move in entry.moves)
