"""The messages to a sink, and what the state stores about a sink that follows the ledger."""

from __future__ import annotations

from typing import Any

from kfm.model.records import Record


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
