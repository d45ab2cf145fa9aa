"""Sends the metrics of an installation to the collector of OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.maintenance.metrics import Metrics
from kfm.app.metadata.otel_sink import collector
from kfm.app.objectives.kept_counts import keep_counts
from kfm.clock import parse_instant
from kfm.errors import BadInput
from kfm.projections.otlp.metric_points import otlp_metrics

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved


def are_pushed(resolved: Resolved) -> bool:
    """Return whether the configuration has a collector that gets metrics."""
    said = resolved.config.otel
    return bool(said.endpoint) and "metrics" in said.signals


def check_pushed(resolved: Resolved) -> None:
    """Raise BadInput if no collector gets metrics."""
    if not resolved.config.otel.endpoint:
        raise BadInput("no collector is configured", hint="add otel: {endpoint: https://HOST} to kfm.yml")
    if not are_pushed(resolved):
        raise BadInput("otel.signals leaves metrics out", hint="write signals: [traces, metrics, logs]")


class MetricsPush:
    """Sends the metrics of one session, again and again. A push that fails is not repeated: the next one has the same
    counts, and more."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._metrics = Metrics(session)
        self._collector = collector(session)

    def send(self) -> int:
        """Send the metrics as of now. Return how many there are. Raise KfmError if the collector does not take them."""
        session = self._session
        keep_counts(session)
        now_ms = session.clock.now_ms()
        first = session.state.ledger.entry(1)
        start_ms = now_ms if first is None else parse_instant(first.ts, "an entry")
        found = list(otlp_metrics(self._metrics.families(), start_ms, now_ms))
        self._collector.send_metrics(found)
        return len(found)
