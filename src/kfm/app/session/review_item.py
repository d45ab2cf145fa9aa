"""What waits for a person, of whatever kind it is."""

from __future__ import annotations

from typing import Any

import msgspec


class Item(msgspec.Struct, frozen=True):
    """`more` is told by `kfm review show`: evidence, by its names."""

    kind: str  # order | held | gate
    id: str
    dataset: str
    what: str
    state: str  # open, approved, used, rejected or expired; of others: held, stopped
    since: str
    until: str = ""
    asked_by: str = ""
    reason: str = ""
    missing: list[str] = []
    more: dict[str, Any] = {}
