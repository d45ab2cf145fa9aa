"""The messages to a sink, and what the state stores about a sink that follows the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kfm.model import refs
from kfm.model.records import Record, RefMove

PUBLIC = "publish"  # the sink that writes the public files


class Letter(Record, frozen=True):
    """One message to a sink. It may arrive twice or late: `index` decides which message is newer."""

    index: int  # of its ledger entry: an older message never overwrites a newer one
    run_id: str
    dataset: str
    key: str  # the subject, the same in every repetition: a path or the id of a run
    body: Any  # the document in the sink's format; None: it was removed


class Stopped(Record, frozen=True):
    """Why a sink is stopped, and when it is tried again. A sink that works has no such record."""

    tries: int  # consecutive failures
    since: str  # when the first of them happened
    not_before: int  # ms since 1970
    code: str
    message: str


class DeadLetter(Record, frozen=True):
    """A run that a sink will not receive, because it refused the message or the message cannot be built. The content is
    not stored here; it is built again from the ledger."""

    index: int
    run_id: str
    dataset: str
    code: str
    message: str
    since: str
    tries: int


class Followed(Record, frozen=True):
    """A sink that has followed a run."""

    sink: str
    at: str  # when KFM recorded it


class PendingRun(Record, frozen=True):
    """A committed run that some sinks have not followed yet. The commit stores it, before any sink is
    notified."""

    index: int  # of its ledger entry
    run_id: str
    dataset: str
    receipt: str  # the digest of its receipt
    sinks: list[str]  # every sink that must follow it
    since: str  # when it was committed
    followed: list[Followed] = []  # the sinks that have, in the order of their records

    def left(self) -> list[str]:
        """Return the sinks that are not recorded as having followed."""
        done = {each.sink for each in self.followed}
        return [sink for sink in self.sinks if sink not in done]


class Completion(Record, frozen=True):
    """The second record of a run: every sink has followed it. It names the receipt by its digest."""

    run_id: str
    dataset: str
    index: int  # of its ledger entry
    receipt: str  # the digest of its receipt
    since: str  # when the run was committed
    followed: list[Followed]  # the sinks that have followed
    removed: list[str]  # sinks that were removed from kfm.yml before they had followed
    completed_at: str


_ABOUT_SINKS = (refs.maintenance("catalog"), refs.maintenance("sinks"))


def expected_sinks(configured: Iterable[str], moves: Iterable[RefMove]) -> list[str]:
    """Return the sinks that must follow a run with these moves: the public files if a published ref moved, and every
    configured sink. No sink follows a record about the sinks themselves."""
    moves = list(moves)
    if any(move.ref in _ABOUT_SINKS for move in moves):
        return []
    is_public = any(move.ref.startswith(refs.PUBLISHED) for move in moves)
    return [*([PUBLIC] if is_public else []), *configured]
