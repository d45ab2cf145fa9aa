"""An item of the review queue."""

from __future__ import annotations

from typing import Any

import msgspec


class ReviewItem(msgspec.Struct, frozen=True):
    """Something that waits for a person. `more` is the evidence that `kfm review show` prints, by name."""

    kind: str  # order | held | gate | hotfix
    id: str
    dataset: str
    what: str
    state: str  # change requests: open, approved, used, rejected or expired; others: held, stopped
    since: str
    until: str = ""
    asked_by: str = ""
    reason: str = ""
    missing: list[str] = []
    more: dict[str, Any] = {}
