"""Followers of the ledger: each notifies one sink of every run, at least once, and keeps its own cursor.

A follower never undoes a commit, changes a receipt or fails a run. It tries a sink that does not answer again, after
longer and longer pauses. A message that the sink refuses becomes a dead letter, which an operator can see and retry,
and does not delay other messages. While a freeze flag is set, the messages of that dataset wait; a withdrawal never
waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import Any, NamedTuple, Protocol, TypeVar

from kfm.clock import Clock, rfc3339
from kfm.errors import Busy, Corrupt, Frozen, KfmError, Refused, Unavailable
from kfm.model import refs
from kfm.model.outbox_messages import NOTIFY, STATES, DeadLetter, Letter, Stopped, is_followed
from kfm.model.ports import Lock, Log, Sink, State, Tx
from kfm.model.public_run import PublicRun
from kfm.model.records import LedgerEntry

T = TypeVar("T")
ENTRIES = 256  # ledger entries between two moves of the cursor
LETTERS = 1000  # messages in one batch, unless the sink wants more
PATIENCE = 1000  # hundredths of a second to wait for another process that notifies the same sink
TURNS = 3  # in which a report is made again whose lock another process took over meanwhile
LATEST_MS = 3_600_000  # the longest pause between two tries of a sink that does not answer
NEVER_MS = 253_402_300_799_000  # the end of the year 9999: until an operator retries it


class Follower(NamedTuple):
    """A sink and the function that turns ledger entries into its messages. For a frozen dataset the function gets only
    entries that withdraw something."""

    sink: Sink
    letters: Callable[[Sequence[LedgerEntry]], Iterable[Letter]]
    lock: Callable[[], Lock]  # held while this sink is notified
    at_once: int = LETTERS  # messages in one batch
    note: Callable[[Tx], None] = lambda _tx: None  # keeps further notes, in the same transaction
    forget: Callable[[Tx, Sequence[LedgerEntry]], None] = lambda _tx, _entries: None  # removes notes that may be false
    # Of a sink in which a repetition disturbs people: whether an entry has a message, after which the cursor moves at
    # once; the messages about states, besides those about entries; whether this pass goes on; and for how many
    # hundredths of a second it waits for another process.
    has_message: Callable[[LedgerEntry], bool] | None = None
    states: Callable[[], Sequence[Letter]] = tuple  # the index of each is below 0; one without a body is not sent
    goes_on: Callable[[], bool] = lambda: True
    patience: int = PATIENCE


class Progress(NamedTuple):
    """How far a sink has been notified."""

    name: str
    cursor: int
    newest: int
    waiting: int  # entries that wait for a thaw
    dead: list[DeadLetter]
    stopped: Stopped | None
    states: int = 0  # messages about states that the sink has not received, besides those about entries

    @property
    def lag(self) -> int:
        """Return how many ledger entries and states the sink has not received."""
        return self.newest - self.cursor + self.waiting + self.states


def each_run(
    read: Callable[[LedgerEntry], PublicRun], project: Callable[[PublicRun], Any]
) -> Callable[[Sequence[LedgerEntry]], Iterator[Letter]]:
    """Return the messages for a sink that wants one message for each run; `project` makes the body."""

    def letters(entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
        for entry in entries:
            run = read(entry)
            body = project(run)
            yield Letter(index=entry.index, run_id=run.run_id, dataset=run.dataset, key=run.run_id, body=body)

    return letters


def progress(state: State, sink: str) -> Progress:
    outbox = state.outbox
    newest = _newest(state, outbox.cursor(sink))
    waiting = sum(1 for _ in outbox.waiting(sink))
    dead, stopped = list(outbox.dead(sink)), outbox.stopped(sink)
    states = max(outbox.cursor(STATES) - outbox.cursor(states_of(sink)), 0) if sink.startswith(NOTIFY) else 0
    return Progress(sink, outbox.cursor(sink), newest, waiting, dead, stopped, states)


def follow(state: State, follower: Follower, clock: Clock, log: Log, *, again: bool = False) -> KfmError | None:
    """Send the sink everything that is pending. Return the problem that prevented it, or None; no failure of a sink is
    raised.

    A sink that did not answer is left alone until its pause is over. With `again`, try now, dead letters included.
    """
    name, now = follower.sink.name, clock.now_ms()
    stopped = state.outbox.stopped(name)
    if stopped is not None and now < stopped.not_before and not again:
        tried = f"tried {stopped.tries} times since {stopped.since}, next after {rfc3339(stopped.not_before)}"
        if stopped.not_before >= NEVER_MS:
            tried = f"stopped since {stopped.since}, and not tried again by itself"
        return Unavailable(
            f"{name}: {stopped.message}",
            hint=f"{tried}; `kfm sinks retry {name}` tries now",
        )
    following = _Following(state, follower, rfc3339(now), log)
    try:
        if not following.has_something(again=again):
            return None
        for left in reversed(range(TURNS)):
            try:
                with taking_turns(follower, clock) as lock:
                    following.all(lock, again=again)
                break
            except _TakenOver:
                if not left:
                    raise _taken_over() from None
    except Busy as problem:  # the process that holds the lock notifies the sink, or the next pass does
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
        from kfm.retries.http_status import asked_wait_s  # most sinks answer
        from kfm.retries.policy import Policy

        # Fixed pauses, unless the sink asks for a longer one: one process at a time notifies a sink, under its lock.
        pauses = Policy(first_s=1, longest_s=LATEST_MS / 1000, jitter=0)
        wait = min(round(pauses.wait_s(tries, asked_s=asked_wait_s(problem, now)) * 1000), LATEST_MS)
        not_before = NEVER_MS if problem.fields.get("for_good") else now + wait
        since = before.since if before else rfc3339(now)
        tx.outbox.note_stopped(
            sink, Stopped(tries=tries, since=since, not_before=not_before, code=problem.code, message=problem.message)
        )


class _TakenOver(Exception):
    """Another process took the lock of a sink over, while this one was stopped for longer than its lease."""


class _Installation(Protocol):
    @property
    def state(self) -> State: ...

    @property
    def clock(self) -> Clock: ...


def in_turn(follower: Follower, at: _Installation, work: Callable[[Lock], T]) -> T:
    """Do work on a whole sink under its lock, and again if another process took the lock over meanwhile. Return what
    the work returned."""
    for _ in range(TURNS):
        with taking_turns(follower, at.clock) as lock:
            done = work(lock)
            with at.state.transaction(durable=False) as tx:
                is_held = lock.is_held(tx)
            if is_held:
                return done
    raise _taken_over()


def _taken_over() -> Busy:
    return Busy("another process took it over meanwhile", hint="what was committed is kept and sent later")


@contextmanager
def taking_turns(follower: Follower, clock: Clock) -> Iterator[Lock]:
    """Hold the lock of a sink, so that no other process notifies it meanwhile. Raise Busy if another process holds it
    for long."""
    lock = follower.lock()
    try:
        for _ in range(follower.patience):
            try:
                if lock.take():
                    break
            except OSError as problem:
                raise Unavailable(f"its lock cannot be taken: {problem.strerror}", hint="check .kfm") from problem
            clock.sleep(0.01)
        else:
            raise Busy("another process notifies it now", hint="what was committed is kept and sent later")
        yield lock
    finally:
        lock.close()


class _Following:
    """One pass of a follower: first the messages that waited for a thaw, then the ledger from the cursor to its end."""

    def __init__(self, state: State, follower: Follower, now: str, log: Log) -> None:
        self._state = state
        self._sink = follower.sink
        self._letters = follower.letters
        self._note = follower.note
        self._forget = follower.forget
        self._lock: Lock
        self._mixed: Sequence[LedgerEntry] = ()  # entries whose messages came between those of another process
        self._at_once = follower.at_once
        self._has_message = follower.has_message
        self._states = follower.states
        self._goes_on = follower.goes_on
        self._now = now
        self._log = log

    def has_something(self, *, again: bool) -> bool:
        name, outbox = self._sink.name, self._state.outbox
        cursor = outbox.cursor(name)
        return (
            cursor < _newest(self._state, cursor)
            or next(outbox.waiting(name), None) is not None
            or (again and next(outbox.dead(name), None) is not None)
            or bool(self._new_states())
        )

    def all(self, lock: Lock, *, again: bool) -> None:
        self._lock = lock
        if self._mixed:  # the process that had taken over may have noted its own messages since
            with self._state.transaction(durable=False) as tx:
                self._send_again(tx)
            self._mixed = ()
        name, outbox = self._sink.name, self._state.outbox
        if again:
            self._older([letter.index for letter in outbox.dead(name) if letter.index > 0])
        waiting = [index for index in outbox.waiting(name) if index > 0]
        self._older([index for index in waiting if not self._holds(self._entry(index))])
        while self._goes_on() and (entries := self._next(outbox.cursor(name))):
            self._tell(entries)
        self._tell_states(again=again)

    def _next(self, after: int) -> list[LedgerEntry]:
        """Return the next entries. If a repetition disturbs people, an entry that has a message comes alone."""
        found: list[LedgerEntry] = []
        for entry in self._state.ledger.entries(after=after, limit=ENTRIES):
            is_alone = self._has_message is not None and self._has_message(entry)
            if is_alone and found:
                break
            found.append(entry)
            if is_alone:
                break
        return found

    def _older(self, indexes: Sequence[int]) -> None:
        many = ENTRIES if self._has_message is None else 1
        for at in range(0, len(indexes), many):
            if self._goes_on():
                self._tell([self._entry(index) for index in indexes[at : at + many]])

    def _new_states(self) -> list[Letter]:
        after = self._state.outbox.cursor(states_of(self._sink.name))
        return [letter for letter in self._states() if -letter.index > after]

    def _tell_states(self, *, again: bool) -> None:
        """Send the messages about states one by one, and move their cursor after each."""
        name, outbox = self._sink.name, self._state.outbox
        late = {index for index in outbox.waiting(name) if index < 0}
        if again:
            late |= {letter.index for letter in outbox.dead(name) if letter.index < 0}
        older = [letter for letter in self._states() if letter.index in late] if late else []
        for letter in [*older, *self._new_states()]:
            if not self._goes_on():
                return
            waits, problem = is_frozen(self._state, letter.dataset), None
            if not waits and letter.body is not None:
                try:
                    self._sink.send([letter])
                except (Refused, Corrupt) as refusal:
                    problem = refusal
                except KfmError:
                    raise
                except Exception as failure:  # raised by a library of the sink, whose message may contain anything
                    raise Unavailable(f"it failed ({type(failure).__name__})", hint="see `kfm sinks`") from failure
            with self._state.transaction(durable=False) as tx:
                if not self._lock.is_held(tx):  # another process has sent it, or will
                    break
                tx.outbox.clear(name, letter.index)
                if waits:
                    tx.outbox.wait(name, letter.index)
                if problem is not None:
                    tx.outbox.bury(name, self._dead(letter, problem))
                tx.outbox.advance(states_of(name), -letter.index)

    def _entry(self, index: int) -> LedgerEntry:
        return next(iter(self._state.ledger.entries(after=index - 1, limit=1)))

    def _tell(self, entries: Sequence[LedgerEntry]) -> None:
        """Send the messages of these ledger entries that no freeze holds back, then advance the cursor. After a kill in
        between, the messages are sent again."""
        name, last = self._sink.name, entries[-1].index
        while True:  # a dataset that was frozen meanwhile waits with the others
            waiting = [entry for entry in entries if is_followed(entry) and self._holds(entry)]
            told = [entry for entry in entries if entry not in waiting]
            try:
                dead = self._send([entry for entry in told if is_followed(entry)])
                break
            except Frozen:
                continue
            except KfmError:  # some messages may have been sent
                with self._state.transaction(durable=False) as tx:
                    is_held = self._is_held(tx, entries)
                if not is_held:
                    raise _TakenOver from None
                raise
        with self._state.transaction(durable=False) as tx:
            is_held = self._is_held(tx, entries)
            if is_held:
                for entry in told:
                    tx.outbox.clear(name, entry.index)
                for entry in waiting:
                    tx.outbox.wait(name, entry.index)
                for letter in dead:
                    tx.outbox.bury(name, letter)
                self._note(tx)
                tx.outbox.advance(name, last)
        if not is_held:
            raise _TakenOver

    def _is_held(self, tx: Tx, entries: Sequence[LedgerEntry]) -> bool:
        """Return whether the lock is still held. If another process took it over, messages of these entries may have
        come after its later ones: then all of them wait, and are sent once more as the state is then."""
        if self._lock.is_held(tx):
            return True
        self._mixed = entries
        self._send_again(tx)
        return False

    def _send_again(self, tx: Tx) -> None:
        name, last = self._sink.name, max(self._mixed[-1].index, tx.outbox.cursor(self._sink.name))
        mixed = takewhile(lambda entry: entry.index <= last, tx.ledger.entries(after=self._mixed[0].index - 1))
        found = [entry for entry in mixed if is_followed(entry)]
        for entry in found:
            tx.outbox.wait(name, entry.index)
        self._forget(tx, found)

    def _send(self, entries: Sequence[LedgerEntry]) -> list[DeadLetter]:
        """Send the messages of these ledger entries, and return those that the sink refuses. They are found by halving
        the batch, so one refusal takes no other message with it."""
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
        refusal: Refused | None = None
        try:
            letters = iter(self._letters(entries))
            while some := list(islice(letters, self._at_once)):
                if any(self._holds(entry) for entry in entries):
                    raise Frozen("frozen meanwhile")
                try:
                    self._sink.send(some)
                except Refused as problem:
                    if self._has_message is None:
                        raise
                    refusal = refusal or problem  # the other messages of this entry are sent
        except KfmError:
            raise
        except Exception as problem:  # raised by a library of the sink, whose message may contain anything
            raise Unavailable(f"it failed ({type(problem).__name__})", hint="see `kfm sinks`") from problem
        if refusal is not None:
            raise refusal

    def _dead(self, entry: LedgerEntry | Letter, problem: KfmError) -> DeadLetter:
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
        """Return whether a freeze flag holds an entry back. An entry that withdraws something is never held back."""
        if _withdraws(entry):
            return False
        return any(is_frozen(self._state, dataset) for dataset in _datasets(entry))


def states_of(sink: str) -> str:
    """Return the name of the cursor of a sink in the messages about states."""
    return f"{sink}/states"


def _newest(state: State, cursor: int) -> int:
    """Return the index of the newest entry that is followed, or the cursor if none is after it."""
    for entry in state.ledger.entries(reverse=True):
        if entry.index <= cursor:
            break
        if is_followed(entry):
            return entry.index
    return cursor


def is_frozen(state: State, dataset: str) -> bool:
    return any(refs.is_frozen(state.refs.at(ref)) for ref in refs.switches(dataset))


def _datasets(entry: LedgerEntry) -> set[str]:
    """Return the datasets that an entry is about: its own, and those whose published ref it moved with it."""
    others = (refs.parse(move.ref).dataset for move in entry.moves if move.ref.startswith(refs.PUBLISHED))
    return {entry.dataset, *others}


def _withdraws(entry: LedgerEntry) -> bool:
    return any(move.ref.startswith(refs.PUBLISHED) and not move.after for move in entry.moves)
