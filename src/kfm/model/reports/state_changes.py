"""States that no ledger entry records, and when they changed: a dataset is late, an error budget is spent."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record


class StateChange(Record, frozen=True):
    """One change of a state. It is kept until every receiver of notices has passed it."""

    n: int  # counted from 1
    event: Literal["late", "burnt"]
    is_over: bool  # the dataset is in time again, or the budget has recovered
    at: str  # when KFM noticed it
    datasets: tuple[str, ...]  # empty: all
    objective: str = ""  # whose budget it is; empty if that may not be named
    version: str = ""  # that is too old; empty if it may not be named
    made_at: str = ""  # when that version was made


class KnownStates(Record, frozen=True):
    """What is known of the states: which hold now, and the changes that receivers may not have got yet."""

    last: int = 0  # the number of the last change
    late: tuple[str, ...] = ()  # datasets
    burnt: tuple[str, ...] = ()  # objectives
    changes: tuple[StateChange, ...] = ()
