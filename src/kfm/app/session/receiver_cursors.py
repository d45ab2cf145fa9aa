"""Where a new receiver of notices begins: at what happens from now on, not at the first entry of the ledger."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kfm.config.config_file import notice_sink
from kfm.delivery.followers import states_of
from kfm.model.outbox_messages import STATES
from kfm.model.ports import State

RECEIVERS = "receivers"  # the note that names those that have begun


def begin_receivers(state: State, receivers: Collection[str]) -> None:
    """Move the cursors of receivers that are new in kfm.yml to the end of the ledger. This comes before the first work
    of a session, so that a receiver gets all that happens after it was configured. A receiver that has begun is never
    forgotten: another machine, or another kfm.yml for the same state, may still send to it. So one that was taken out
    and comes back gets what happened meanwhile."""
    wanted = sorted(receivers)
    if not {*wanted} - {*begun_receivers(state)}:
        return
    with state.transaction(durable=False) as tx:
        begun = begun_receivers(state)
        newest = next((entry.index for entry in state.ledger.entries(reverse=True, limit=1)), 0)
        for name in wanted:
            if name not in begun:
                sink = notice_sink(name)
                tx.outbox.advance(sink, newest)
                tx.outbox.advance(states_of(sink), tx.outbox.cursor(STATES))
        tx.outbox.keep_note(STATES, RECEIVERS, msgspec.json.encode(sorted({*begun, *wanted})))


def begun_receivers(state: State) -> list[str]:
    """Return the names of all receivers that have begun, also those of another kfm.yml."""
    body = state.outbox.note(STATES, RECEIVERS)
    return [] if body is None else msgspec.json.decode(body, type=list[str])
