"""Which previews have had their time."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kfm.app.previews.branch_previews import below, previews, sweep
from kfm.app.previews.git_branches import Repository
from kfm.clock import parse_instant
from kfm.errors import BadInput
from kfm.model.records import Receipt
from kfm.scheduling.triggers import DAY_MS

if TYPE_CHECKING:
    from kfm.app.session.session import Session


DAYS = 14  # after which one that nobody built anew has had its time


class Old(NamedTuple):
    name: str  # in refs
    branch: str
    preview: str
    why: str


def old(session: Session, days: int, *, by_age: bool = False) -> list[Old]:
    """Of branches that are gone, and those that were not built anew for so long. Without a repository, or where nobody
    asked whether all branches were fetched, by age alone."""
    repository: Repository | None = None
    if not by_age:
        with suppress(BadInput):
            repository = Repository(session.resolved.root)
    found = []
    for name, each, at, built in previews(session):
        age_ms = session.clock.now_ms() - parse_instant(built, "the time of a preview")
        if repository is not None and not repository.has(each.branch):
            found.append(Old(name, each.branch, at, "the branch is gone"))
        elif age_ms >= days * DAY_MS:
            found.append(Old(name, each.branch, at, f"it is older than {days} days"))
    return found


def swept(session: Session, each: Old, *, reason: str, actor: str) -> Receipt:
    return sweep(session, each.name, below(session, each.name), reason=reason or each.why, actor=actor)
