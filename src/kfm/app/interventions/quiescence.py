"""`kfm freeze --wait`: waits until no run is at work any more, and measures how long that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kfm.app.runs.queries import worker

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Run

PAUSE_S = 0.05


class Quiescence(NamedTuple):
    """How long it took until no run was at work, and the runs that still are when the time is over."""

    waited_s: float
    left: tuple[Run, ...]


def wait_until_quiet(session: Session, scope: str, limit_s: int) -> Quiescence:
    """Wait until no process works on a run of this dataset, or of any for `global`; at most `limit_s` seconds. A run
    whose process is dead works no more."""
    begun = session.clock.now_ms()
    while True:
        left = at_work(session, scope)
        waited_s = (session.clock.now_ms() - begun) / 1000
        if not left or waited_s >= limit_s:
            return Quiescence(waited_s, left)
        session.clock.sleep(PAUSE_S)


def at_work(session: Session, scope: str) -> tuple[Run, ...]:
    """Return the runs of a dataset, or of all for `global`, that a living process executes."""
    dataset = "" if scope == "global" else scope
    return tuple(run for run in session.state.runs.unfinished(dataset) if worker(session, run) is not None)
