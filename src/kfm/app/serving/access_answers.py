"""The answer about who asks."""

from __future__ import annotations

from kfm.model.records import Record


class Me(Record, frozen=True):
    """Who asks, as the server understood the request."""

    person: str  # of the key list; empty: nobody by name
    role: str  # public, single, viewer, operator, steward or admin
    until: str  # when the token ends; empty: without a token
    ledger_entries: int
