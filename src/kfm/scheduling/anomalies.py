"""Whether a run was not as usual: measures of its receipt, held against declared thresholds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kfm.model.records import Receipt


def measures(receipt: Receipt, before: Receipt | None) -> dict[str, float]:
    """What can be said of this run, as shares. What it does not tell is left out, and crosses nothing."""
    found: dict[str, float] = {}
    if receipt.outcome == "held":
        found["held_share"] = 1.0
    elif receipt.rows:
        found["held_share"] = receipt.held_rows / receipt.rows
    removed, keys = receipt.changes.get("removed", 0), receipt.changes.get("keys", 0)
    if receipt.changes and removed + keys:
        found["removed_share"] = removed / (removed + keys)
    if before is not None and before.rows and receipt.status == "SUCCESS":
        found["rows_drop"] = max(0.0, 1 - receipt.rows / before.rows)
    return found


def crossed(thresholds: Mapping[str, float], receipt: Receipt, before: Receipt | None) -> Iterator[str]:
    """The names of those that this run is beyond and the one before was not. A drop is told each time: it is a
    difference already."""
    now, then = measures(receipt, before), measures(before, None) if before is not None else {}
    for name, limit in thresholds.items():
        if now.get(name, 0.0) > limit and not then.get(name, 0.0) > limit:
            yield name
