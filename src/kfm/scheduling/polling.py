"""Decide when each source is polled, and whether a fetched body is new to a dataset. The caller fetches.

A source that several datasets read is polled once for all of them. Sources of one host are never polled at the same
moment, no source exactly at its interval, and a source that fails or sends `Retry-After` is left alone for longer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from kfm.errors import KfmError, Refused
from kfm.model import refs
from kfm.model.ports import State, Tx
from kfm.model.records import Checkpoint, Fetched, FetchRequest, Trigger

MARK = "kfm://polled/"  # + dataset and URI: the body of that source for which the dataset was last triggered
LONGEST_MS = 3_600_000  # longest wait between two attempts at a failing source


class Poll(msgspec.Struct, frozen=True):
    """One URL to poll for all datasets that read it."""

    request: FetchRequest
    datasets: tuple[str, ...]
    interval_ms: int

    @property
    def uri(self) -> str:
        return self.request.uri

    @property
    def host(self) -> str:
        return self.uri.partition("://")[2].partition("/")[0].lower() if "://" in self.uri else ""


def merge_polls(wanted: Iterable[tuple[str, FetchRequest, int]]) -> list[Poll]:
    """Merge (dataset, request, interval) of all polled sources into one poll per URL, at the shortest interval."""
    found: dict[str, Poll] = {}
    for dataset, request, interval in wanted:
        known = found.get(request.uri)
        if known is None:
            found[request.uri] = Poll(request=request, datasets=(dataset,), interval_ms=interval)
        else:
            datasets = known.datasets if dataset in known.datasets else (*known.datasets, dataset)
            found[request.uri] = Poll(
                request=known.request, datasets=datasets, interval_ms=min(known.interval_ms, interval)
            )
    return list(found.values())


class Timetable:
    """The due times of polls. Times are those of a monotonic clock, in milliseconds."""

    def __init__(self, polls: Iterable[Poll], now_ms: int, *, jitter: float, host_pause_ms: int) -> None:
        self._polls = {poll.uri: poll for poll in polls}
        self._due = dict.fromkeys(self._polls, now_ms)
        self._failures = dict.fromkeys(self._polls, 0)
        self._turn = dict.fromkeys(self._polls, 0)
        self._host_free: dict[str, int] = {}
        self._jitter = jitter
        self._host_pause_ms = host_pause_ms

    def due(self, now_ms: int) -> Poll | None:
        """Return a poll whose time has come and whose host was not polled just before; the one that waited longest
        comes first."""
        for at, uri in sorted((at, uri) for uri, at in self._due.items()):
            if at > now_ms:
                return None
            poll = self._polls[uri]
            if self._host_free.get(poll.host, now_ms) <= now_ms:
                return poll
        return None

    def due_together(self, now_ms: int, most: int) -> list[Poll]:
        """Return up to so many polls whose time has come, each of another host."""
        found: list[Poll] = []
        for at, uri in sorted((at, uri) for uri, at in self._due.items()):
            poll = self._polls[uri]
            if at > now_ms or len(found) == most:
                break
            is_free = self._host_free.get(poll.host, now_ms) <= now_ms
            if is_free and not (poll.host and any(poll.host == other.host for other in found)):
                found.append(poll)
        return found

    def next_ms(self) -> int | None:
        """Return when the next poll may be due; None if there is nothing to poll."""
        times = (max(at, self._host_free.get(self._polls[uri].host, at)) for uri, at in self._due.items())
        return min(times, default=None)

    def unseen(self) -> bool:
        """Say whether a source was never polled."""
        return not all(self._turn.values())

    def answered(self, poll: Poll, now_ms: int) -> None:
        self._failures[poll.uri] = 0
        self._again(poll, now_ms, poll.interval_ms)

    def failed(self, poll: Poll, now_ms: int, retry_after_ms: int = 0) -> None:
        """Record that a poll failed: its next wait is twice as long, at most an hour, and never shorter than the server
        requested."""
        self._failures[poll.uri] += 1
        longer = min(poll.interval_ms << min(self._failures[poll.uri], 20), max(LONGEST_MS, poll.interval_ms))
        self._again(poll, now_ms, max(longer, retry_after_ms))

    def _again(self, poll: Poll, now_ms: int, wait_ms: int) -> None:
        self._turn[poll.uri] += 1
        spread = _fraction(f"{poll.uri}\n{self._turn[poll.uri]}") * self._jitter
        self._due[poll.uri] = now_ms + wait_ms + round(wait_ms * spread)
        if poll.host:
            self._host_free[poll.host] = now_ms + self._host_pause_ms


def _fraction(text: str) -> float:
    """Return a number in [0, 1) that depends only on the text. The caller puts the number of the poll into the text, so
    that polls spread out."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:6], "big") / (1 << 48)


class TriggerFactory(Protocol):
    def __call__(self, dataset: str) -> Trigger | None:
        """Return the trigger for a dataset; None if it is not triggered now."""


def _no_note(_tx: Tx, _trigger: Trigger) -> None:
    """Record nothing: the default of `noted`."""


def note(
    state: State,
    poll: Poll,
    fetched: Fetched,
    asking: TriggerFactory,
    noted: Callable[[Tx, Trigger], None] = _no_note,
    tell: Callable[[str, KfmError], None] | None = None,
) -> list[Trigger]:
    """Store a trigger for every dataset to which the fetched body is new, together with the source's checkpoint, in one
    transaction: a change that was seen is never lost.

    A body is new if the dataset neither has it nor was triggered for it before; validators do not decide this. A
    dataset whose updater cannot be loaded does not stop the others: `tell` receives its error, and the next poll tries
    it again.
    """
    seen = fetched.ref.content_hash
    marks = {name: state.inbox.checkpoint(MARK + f"{name}/{poll.uri}") for name in poll.datasets}
    stale = [name for name, mark in marks.items() if mark is None or mark.content_hash != seen]
    new = [name for name in stale if not _has(state, name, seen)]
    asked: list[Trigger | None] = []
    for name in new:  # loads authors' code, so not inside the transaction
        try:
            asked.append(asking(name))
        except Refused as problem:
            if tell is None:
                raise
            tell(name, problem)
            stale.remove(name)
    with state.transaction(durable=bool(new)) as tx:
        kept = [tx.inbox.keep(trigger) for trigger in asked if trigger is not None]
        for trigger in kept:
            noted(tx, trigger)
        tx.inbox.keep_checkpoint(fetched.checkpoint)
        for name in stale:
            tx.inbox.keep_checkpoint(_mark(name, poll.uri, fetched.checkpoint))
    return kept


def _has(state: State, dataset: str, content_hash: str) -> bool:
    return any(digest == content_hash for _, digest in state.refs.all(f"{refs.RAW}{dataset}/"))


def _mark(dataset: str, uri: str, of: Checkpoint) -> Checkpoint:
    return msgspec.structs.replace(of, uri=MARK + f"{dataset}/{uri}", etag="", last_modified="")
