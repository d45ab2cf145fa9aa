"""`--wait`: waits until every sink has followed the runs of some datasets."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from kfm.app.metadata.completion_records import SinkStatus, pending_at
from kfm.app.runs.settlement import settle_session
from kfm.errors import KfmError, Unavailable

if TYPE_CHECKING:
    from kfm.app.session.session import Session

PAUSE_S = 0.5


def wait_for_sinks(session: Session, datasets: Collection[str], limit_s: int) -> list[SinkStatus]:
    """Wait until all sinks have followed every committed run of these datasets, at most `limit_s` seconds. Return the
    sinks that have not; without any, the completions are durable.

    A sink that waits for a thaw or for an operator is not waited for. Pauses between two tries are those of the sinks.
    """
    for _ in range(round(limit_s / PAUSE_S)):
        left = pending_at(session, datasets)
        if not any(each.waits_for == "sink" for each in left):
            break
        session.clock.sleep(PAUSE_S)
        with suppress(KfmError):  # files that cannot be published stay pending
            settle_session(session)
    left = pending_at(session, datasets)
    if not left:
        session.state.sync()
    return left


def not_followed(each: SinkStatus, limit_s: int) -> KfmError:
    """Return the error for a sink that has not followed."""
    many = "1 run" if each.runs == 1 else f"{each.runs} runs"
    what = f"{each.sink} has not followed {many}, the oldest of {each.since[:16]}Z"
    cure = {
        "sink": f"waited {limit_s} s; it follows later: see `kfm sinks`, and do not repeat the run",
        "thaw": f"it follows after `kfm thaw {each.dataset} --reason …`",
        "retry": f"it refused the run: see `kfm sinks`, then `kfm sinks retry {each.sink}`",
    }[each.waits_for]
    return Unavailable(what, hint=cure)
