"""The metrics of an installation as OpenTelemetry has them, made of the same samples as the text for Prometheus. Pure.

Names stay as Prometheus knows them, so that rules and dashboards fit both ways. Counters and histograms are cumulative:
they count from the first ledger entry, and a restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kfm.projections.signals import Histogram, Metric

LEFT_OUT = ("kfm_artifact_uri",)  # its label has a new value with every version


def otlp_metrics(metrics: Iterable[Metric | Histogram], start_ms: int, now_ms: int) -> Iterator[dict[str, Any]]:
    """Yield each metric that has a sample as plain values."""
    start_ms = min(start_ms, now_ms)
    for each in metrics:
        if each.name in LEFT_OUT or not each.samples:
            continue
        about = {"name": each.name, "help": each.help, "start_ms": start_ms, "now_ms": now_ms}
        if isinstance(each, Histogram):
            points = [
                {"labels": labels, "bounds": list(each.bounds), "counts": list(counts), "sum": total}
                for labels, counts, total in each.samples
            ]
            yield {**about, "kind": "histogram", "points": points}
        else:
            kind = "sum" if each.kind == "counter" else "gauge"
            values = [{"labels": labels, "value": value} for labels, value in each.samples]
            yield {**about, "kind": kind, "points": values}
