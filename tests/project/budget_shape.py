"""The shape of a budget, as `kfm slo --json` writes it."""

from __future__ import annotations

BUDGET = {
    "name": "of the objective",
    "indicator": "`success`, `latency`, `rollback_time` or `freshness`",
    "datasets": "the datasets that it is about; empty: all",
    "limit_seconds": "the most that is good; null for success",
    "window_seconds": "the time over which its budget counts",
    "target": "the share that must be good",
    "actual": "the share that was good; null: nothing happened",
    "budget_left": "the share of the error budget that is left; below 0: more is spent than there was",
    "burn": "how fast the budget was spent in the last `1h`, `6h`, `3d` and `30d`; 1: it lasts for just its time",
    "burnt": "whether nothing is left",
    "override": "until when a steward has overridden it, or null",
    "closes": "whether it closes risky operations now",
}
