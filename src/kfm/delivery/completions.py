"""Completions: a committed run is pending until every sink has followed it, and then gets a second record.

The commit marks the run as pending. The second record names the digest of the receipt and the sinks that have followed.
Both are in the outbox: the ledger stays the chain of what was done, and the second record costs no sync of its own.
After a power cut the cursors of the sinks and the record are lost together, and both are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kfm.model.canonical import canonical
from kfm.model.outbox_messages import PUBLIC, Completion, Followed, PendingRun
from kfm.model.ports import State

BATCH = 256  # runs that are looked at together


def complete_runs(
    state: State, configured: Sequence[str], now: str, signed: Callable[[bytes], bytes] = lambda body: body
) -> int:
    """Record which sinks have followed each pending run, and store the completion of every run that all have followed.
    Return how many runs are complete now. `signed` wraps the record into an envelope. A sink that is no longer
    configured is not waited for, and the record says so.

    A record that another process has changed meanwhile is left to it, or to the next call.
    """
    sinks = SinkPositions(state, configured)
    count = 0
    pending = list(state.outbox.pending())
    for at in range(0, len(pending), BATCH):
        runs = pending[at : at + BATCH]
        moved = [(run, noted) for run in runs if (noted := sinks.noted(run, now)) != run or not sinks.wanted(noted)]
        bodies = [
            (run, noted, None if sinks.wanted(noted) else signed(canonical(_completion(noted, now))))
            for run, noted in moved
        ]
        if not bodies:
            continue
        with state.transaction(durable=False) as tx:
            for run, noted, body in bodies:
                if body is None:
                    tx.outbox.note_followed(run, noted)
                else:
                    count += tx.outbox.complete(run, body)
    return count


class SinkPositions:
    """How far the public files and the configured sinks are, read once."""

    def __init__(self, state: State, configured: Sequence[str]) -> None:
        outbox = state.outbox
        self._cursors = {sink: outbox.cursor(sink) for sink in (PUBLIC, *configured)}
        self._late = {sink: {*outbox.waiting(sink), *(each.index for each in outbox.dead(sink))} for sink in configured}
        self._due = frozenset(outbox.due(PUBLIC))

    def wanted(self, run: PendingRun) -> list[str]:
        """Return the sinks that the run still waits for: those that are configured and not recorded."""
        return [sink for sink in run.left() if sink in self._cursors]

    def behind(self, run: PendingRun) -> list[str]:
        """Return the configured sinks that have not followed a run."""
        return [sink for sink in self.wanted(run) if not self._has_followed(sink, run)]

    def noted(self, run: PendingRun, now: str) -> PendingRun:
        """Return the record of a run with the sinks that have followed it by now."""
        new = [Followed(sink=sink, at=now) for sink in self.wanted(run) if self._has_followed(sink, run)]
        return msgspec.structs.replace(run, followed=[*run.followed, *new]) if new else run

    def _has_followed(self, sink: str, run: PendingRun) -> bool:
        if self._cursors[sink] < run.index:
            return False
        return run.dataset not in self._due if sink == PUBLIC else run.index not in self._late[sink]


def _completion(run: PendingRun, now: str) -> Completion:
    return Completion(
        run_id=run.run_id,
        dataset=run.dataset,
        index=run.index,
        receipt=run.receipt,
        since=run.since,
        followed=run.followed,
        removed=run.left(),
        completed_at=now,
    )
