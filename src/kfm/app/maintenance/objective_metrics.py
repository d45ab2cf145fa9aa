"""The metrics of objectives: what they promise, how much of it went wrong, and what is closed because of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.app.objectives.error_budgets import budgets, events_of, late_share
from kfm.errors import BadInput
from kfm.projections.signals import Metric

if TYPE_CHECKING:
    from kfm.app.session.session import Session

Sample = tuple[dict[str, str], float]


def objective_metrics(session: Session) -> Iterator[Metric]:
    """Yield the metrics by objective. If the objectives cannot be read, that is the only one."""
    if not session.resolved.has_objectives:
        return
    try:
        found = budgets(session)
    except BadInput:
        yield _gauge("kfm_slo_readable", "whether the objectives can be read", [({}, 0.0)])
        return
    yield _gauge("kfm_slo_readable", "whether the objectives can be read", [({}, 1.0)])
    events: list[Sample] = []
    bad: list[Sample] = []
    late: list[Sample] = []
    burn: list[Sample] = []
    for each in found:
        labels = {"slo": each.objective.name}
        if each.objective.counts_events:
            well, badly = events_of(session, each.objective)
            events.append((labels, float(well + badly)))
            bad.append((labels, float(badly)))
        elif (share := late_share(session, each.objective)) is not None:
            late.append((labels, share))
        burn += [({**labels, "window": window}, rate) for window, rate in each.burn.items() if rate is not None]
    yield Metric("kfm_slo_events_total", "counter", "events that an objective counts", events)
    yield Metric("kfm_slo_bad_events_total", "counter", "events that were not as an objective promises", bad)
    yield _gauge("kfm_slo_late_ratio", "share of datasets that are too old now", late)
    yield _gauge("kfm_slo_burn_rate", "how fast the budget is spent; 1: it lasts for just its time", burn)
    rows = [({"slo": each.objective.name}, each) for each in found]
    about = "share that an objective promises"
    yield _gauge("kfm_slo_target_ratio", about, [(labels, each.objective.target) for labels, each in rows])
    about = "share of the error budget that is left; below 0: more is spent than there was"
    yield _gauge("kfm_slo_error_budget_remaining_ratio", about, [(labels, each.left) for labels, each in rows])
    about = "whether an objective closes risky operations"
    yield _gauge("kfm_slo_closed", about, [(labels, float(each.closes)) for labels, each in rows])


def _gauge(name: str, about: str, samples: list[Sample]) -> Metric:
    return Metric(name, "gauge", about, samples)
