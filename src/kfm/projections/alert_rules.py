"""Alerts for Prometheus, made of the objectives and of what every installation wants to hear. Pure.

Each objective has the four alerts of the SRE workbook: a long window says that much of the budget is spent, and a short
one that it is still being spent, so that an alert ends soon after its cause. The windows scale with the objective's
own: the usual ones are for thirty days.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kfm.model.reports.objective import DAY_MS, Objective
from kfm.projections.yaml_dump import yaml

HEAD = """\
# Rules for Prometheus, written by `kfm alerts write`. Change the objectives and write them again.
"""
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


class Burn(NamedTuple):
    """An alert when the budget of thirty days is spent `rate` times as fast as it may be."""

    rate: float
    long_s: int
    short_s: int
    severity: str


BURNS = (
    Burn(14.4, HOUR_S, 5 * MINUTE_S, "page"),
    Burn(6.0, 6 * HOUR_S, 30 * MINUTE_S, "page"),
    Burn(3.0, DAY_S, 2 * HOUR_S, "ticket"),
    Burn(1.0, 3 * DAY_S, 6 * HOUR_S, "ticket"),
)
LEAST_S = 2 * MINUTE_S  # a shorter window holds too few scrapes


def rules_text(objectives: Iterable[Objective]) -> str:
    """Return the rules as a file of Prometheus."""
    groups: list[dict[str, Any]] = []
    for each in objectives:
        groups.append({"name": f"kfm-slo-{each.name}", "rules": [*_records(each), *_alerts(each), _burnt(each)]})
    groups.append({"name": "kfm", "rules": list(_operations())})
    return HEAD + yaml({"groups": groups})


def _scaled(objective: Objective, seconds: int) -> int:
    return max(seconds * objective.window_ms // (30 * DAY_MS), LEAST_S)


def _length(seconds: int) -> str:
    for unit, size in (("d", DAY_S), ("h", HOUR_S), ("m", MINUTE_S)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _windows(objective: Objective) -> list[int]:
    found = {_scaled(objective, each) for burn in BURNS for each in (burn.long_s, burn.short_s)}
    return sorted(found)


def _record_name(seconds: int) -> str:
    return f"kfm:slo_errors:ratio_{_length(seconds)}"


def _records(objective: Objective) -> Iterator[dict[str, Any]]:
    """Yield a recording rule for each window: the share of what went wrong in it."""
    of = f'{{slo="{objective.name}"}}'
    for seconds in _windows(objective):
        window = _length(seconds)
        if objective.counts_events:
            expr = (
                f"sum(increase(kfm_slo_bad_events_total{of}[{window}])) / "
                f"(sum(increase(kfm_slo_events_total{of}[{window}])) > 0)"
            )
        else:
            expr = f"max(avg_over_time(kfm_slo_late_ratio{of}[{window}]))"
        yield {"record": _record_name(seconds), "expr": expr, "labels": {"slo": objective.name}}


def _alerts(objective: Objective) -> Iterator[dict[str, Any]]:
    of = f'{{slo="{objective.name}"}}'
    for burn in BURNS:
        if burn.rate * (1 - objective.target) >= 1:  # no share can be larger: all of it may go wrong for so long
            continue
        most = f"{burn.rate * (1 - objective.target):.6g}"
        long_s, short_s = _scaled(objective, burn.long_s), _scaled(objective, burn.short_s)
        yield {
            "alert": "KfmErrorBudgetBurn",
            "expr": f"{_record_name(long_s)}{of} > {most} and {_record_name(short_s)}{of} > {most}",
            "labels": {"severity": burn.severity, "slo": objective.name, "window": _length(long_s)},
            "annotations": {
                "summary": f"{objective.name} spends its error budget {burn.rate:g} times as fast as it may",
                "description": f"Over {_length(long_s)}. See `kfm slo show {objective.name}`.",
            },
        }


def _burnt(objective: Objective) -> dict[str, Any]:
    """Return the alert that the budget is gone. It is computed from the ledger, so few runs are enough for it."""
    return {
        "alert": "KfmErrorBudgetBurnt",
        "expr": f'kfm_slo_error_budget_remaining_ratio{{slo="{objective.name}"}} <= 0',
        "labels": {"severity": "ticket", "slo": objective.name},
        "annotations": {
            "summary": f"the error budget of {objective.name} is spent",
            "description": f"Backfills, hotfixes and promote: auto may be closed. See `kfm slo show {objective.name}`.",
        },
    }


def _operations() -> Iterator[dict[str, Any]]:
    """Yield the alerts that every installation has."""
    for name, expr, wait, severity, summary, description in (
        (
            "KfmAbsent", "absent(kfm_build_info)", "5m", "page",
            "no metrics of KFM come in", "Is `kfm up --listen` running, and scraped?",
        ),
        (
            "KfmFrozen", 'sum by (scope) (kfm_frozen{level="red"}) > 0', "1h", "ticket",
            "work has been frozen for more than an hour", "See `kfm status`; `kfm thaw --reason …` allows it again.",
        ),
        (
            "KfmTickOverdue", "kfm_tick_overdue_seconds > 900", "5m", "page",
            "a scheduled instant has passed and no process claims it", "See `kfm schedule list`. Is `kfm up` running?",
        ),
        (
            "KfmDeadLetters", "kfm_jobs_dead > 0 or sum by (sink) (kfm_sink_dead_letters) > 0", "5m", "ticket",
            "a job or a message of a sink is a dead letter", "See `kfm jobs dead` and `kfm sinks`.",
        ),
        (
            "KfmSinkBehind", "kfm_sink_up == 0 or kfm_sink_lag_entries > 0", "1h", "ticket",
            "a sink has not received everything for an hour", "See `kfm sinks`.",
        ),
        (
            "KfmBrokenLinks", "kfm_ops_broken_links > 0", "5m", "page",
            "a ref leads to a version that the state does not have", "See `kfm doctor --deep`.",
        ),
        (
            "KfmObjectivesUnreadable", "kfm_slo_readable == 0", "5m", "ticket",
            "the objectives cannot be read, so risky operations are closed", "See `kfm config check`.",
        ),
    ):  # fmt: skip
        yield {
            "alert": name,
            "expr": expr,
            "for": wait,
            "labels": {"severity": severity},
            "annotations": {"summary": summary, "description": description},
        }
