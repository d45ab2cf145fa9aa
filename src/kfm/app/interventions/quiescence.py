"""`kfm freeze --wait`: waits until no run is at work any more, and measures how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
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


def wait_until_quiet(session: Session, datasets: Sequence[str], limit_s: int) -> Quiescence:
    """Wait until no process works on a run of these datasets, or of any if none is named; at most `limit_s` seconds. A
    run whose process is dead works no more."""
    begun = session.clock.now_ms()
    while True:
        left = at_work(session, datasets)
        waited_s = (session.clock.now_ms() - begun) / 1000
        if not left or waited_s >= limit_s:
            return Quiescence(waited_s, left)
        session.clock.sleep(PAUSE_S)


def at_work(session: Session, datasets: Sequence[str]) -> tuple[Run, ...]:
    """Return the runs of these datasets, or of all if none is named, that a living process executes."""
    unfinished = (run for dataset in datasets or [""] for run in session.state.runs.unfinished(dataset))
    return tuple(run for run in unfinished if worker(session, run) is not None)
