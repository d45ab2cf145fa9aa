"""The labels of a version then and now: when it was made, today, and in a new run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kfm.app.authority.classification import classification_now
from kfm.app.stewards.label_report import source_labels
from kfm.clock import rfc3339
from kfm.errors import KfmError
from kfm.model.labels import LEVELS, PUBLISHABLE, Level
from kfm.projections.live_versions import last_move

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import RefEntry


class PresentLabels(NamedTuple):
    """The level of a version: when it was made, today, and that of a version that a run would make now."""

    made: Level
    now: Level
    next: Level

    @property
    def may_be_public(self) -> bool:
        return self.now in PUBLISHABLE

    @property
    def was_tightened(self) -> bool:
        return LEVELS.index(self.now) > LEVELS.index(self.made)

    @property
    def was_loosened(self) -> bool:
        """Whether a run would make a more open version. The version stays as it is."""
        return LEVELS.index(self.next) < LEVELS.index(self.now)


def present_labels(session: Session, dataset: str, version: str) -> PresentLabels:
    """Return the levels of a version. A level that cannot be read today counts as closed."""
    known = session.state.ledger.version(dataset, version)
    made: Level = "public"
    if known is not None:  # without labels, a version keeps the sensitivity that kfm.yml declared when it was made
        made = known.standing.level if known.standing is not None else known.metadata.get("sensitivity") or "public"
    declared = session.config.datasets.get(dataset)
    said: Level = (declared.sensitivity if declared is not None else None) or "public"
    try:
        today = classification_now(session, dataset, version)
        now = _strictest(made, said, today.level if today is not None else "public")
        return PresentLabels(made, now, _next(session, dataset, now))
    except KfmError:
        return PresentLabels(made, "closed", "closed")


def _next(session: Session, dataset: str, now: Level) -> Level:
    """Return the level of a version that a run would make today; that of the present one if it reads other datasets,
    whose levels may change in the same run, or if kfm.yml no longer names it."""
    declared = session.config.datasets.get(dataset)
    if declared is None or not declared.sources or any(source.dataset for source in declared.sources.values()):
        return now
    found = source_labels(session, dataset, rfc3339(session.clock.now_ms())[:10])
    return _strictest(*(one.level for one in found)) if found else now


def _strictest(*levels: Level) -> Level:
    return max(levels, key=LEVELS.index)


def ended_by(moves: list[RefEntry], version: str) -> RefEntry | None:
    """Return the move of the published ref that took a version's place; None if it is the current one or was never
    published."""
    last = last_move(moves, version)
    return None if last is None else next((move for move in moves if move.n > last.n), None)
