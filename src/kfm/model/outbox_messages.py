"""What a sink is told, and what the state remembers of a sink that follows the ledger."""

from __future__ import annotations

from typing import Any

from kfm.model.records import Record


class Letter(Record, frozen=True):
    """One thing for a sink to make so. It may come twice, and late: `index` tells what counts."""

    index: int  # of the entry of the ledger it is about: what is older never overwrites what is newer
    run_id: str
    dataset: str
    key: str  # what it is about, the same whenever it is told: a path, the id of a run
    body: Any  # as the sink's grammar says it; None: it is gone


class Stopped(Record, frozen=True):
    """Why a sink does not go on, and when it is tried again. There is none of one that goes on."""

    tries: int  # in a row that failed
    since: str  # when the first of them did
    not_before: int  # ms since 1970
    code: str
    message: str


class DeadLetter(Record, frozen=True):
    """A run that a sink will not be told of: it refused, or what there is to say cannot be read. Nothing of what was
    to be said is kept here; it is made again from the ledger."""

    index: int
    run_id: str
    dataset: str
    code: str
    message: str
    since: str
    tries: int
