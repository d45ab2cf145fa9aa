"""Compare the measures of a run's receipt with declared thresholds, to notice an unusual run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kfm.model.records import Receipt


def measures(receipt: Receipt, before: Receipt | None) -> dict[str, float]:
    """Return the measures of a run as shares. A measure that the receipt does not give is left out and
    crosses nothing.
    """
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
    """Yield the thresholds that this run crosses and the run before did not. A drop of rows counts every time, because
    it is a comparison with the run before already.
    """
    now, then = measures(receipt, before), measures(before, None) if before is not None else {}
    for name, limit in thresholds.items():
        if now.get(name, 0.0) > limit and not then.get(name, 0.0) > limit:
            yield name
