"""The withdrawal of a version: by whom it was taken back, when and why."""

from __future__ import annotations

from kfm.model.records import Record


class Withdrawal(Record, frozen=True):
    """A version that was public, was taken back and not published since."""

    version: str  # empty if it may not be shown
    by: str
    at: str
    reason: str  # empty if the operator gave none
    run_id: str
    current: str  # the version that was made public instead; empty: none, or it may not be shown
