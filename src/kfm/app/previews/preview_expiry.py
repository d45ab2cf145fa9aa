"""Finds previews that have expired."""

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


DAYS = 14  # after which a preview expires unless it is built again


class ExpiredPreview(NamedTuple):
    """An expired preview, and why."""

    name: str  # its name in refs
    branch: str
    preview: str
    why: str


def expired_previews(session: Session, days: int, *, by_age: bool = False) -> list[ExpiredPreview]:
    """Return the previews whose branch is gone, or that were not built for this many days. With `by_age`, or without a
    repository, age alone decides, because branches may not have been fetched."""
    repository: Repository | None = None
    if not by_age:
        with suppress(BadInput):
            repository = Repository(session.resolved.root)
    found = []
    for name, each, at, built in previews(session):
        age_ms = session.clock.now_ms() - parse_instant(built, "the time of a preview")
        if repository is not None and not repository.has(each.branch):
            found.append(ExpiredPreview(name, each.branch, at, "the branch is gone"))
        elif age_ms >= days * DAY_MS:
            found.append(ExpiredPreview(name, each.branch, at, f"it is older than {days} days"))
    return found


def remove_expired(session: Session, each: ExpiredPreview, *, reason: str, actor: str) -> Receipt:
    """Remove an expired preview and return the receipt."""
    return sweep(session, each.name, below(session, each.name), reason=reason or each.why, actor=actor)
