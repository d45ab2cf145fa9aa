"""The collector of OpenTelemetry: the follower that sends it traces and logs of runs, and the way to send metrics."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kfm import __version__
from kfm.config.openlineage_settings import address_fault
from kfm.delivery.followers import Follower, each_run
from kfm.delivery.public_runs import public_run
from kfm.delivery.run_times import run_times
from kfm.errors import BadInput
from kfm.projections.otlp.run_trace import otlp_message
from kfm.sinks.http_transport import HttpTransport
from kfm.sinks.otlp_collector import AT_ONCE, Collector, OtlpSink

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.model.ports import Lock, State
    from kfm.model.public_run import PublicRun


def otel_follower(session: Session, lock: Callable[[], Lock]) -> Follower:
    """Return the follower that sends the traces and logs of every run."""
    state, signals = session.state, session.resolved.config.otel.signals

    def message(run: PublicRun) -> dict[str, Any]:
        return otlp_message(run, state.ledger.telemetry(run.run_id), run_times(state, run), signals)

    sink = OtlpSink(collector(session))
    return Follower(sink, each_run(partial(public_run, state, session.objects), message), lock, at_once=AT_ONCE)


def collector(session: Session) -> Collector:
    """Return the configured collector. Its address and the secrets are read when something is sent."""
    resolved = session.resolved
    return Collector(
        partial(_endpoint, resolved),
        partial(_headers, resolved),
        HttpTransport(resolved.config.otel.timeout_s),
        partial(_resource, session.state),
        __version__,
        session.clock.now_ms,
    )


def _resource(state: State) -> dict[str, str | int | float | bool]:
    """Return what all signals of an installation have in common. The first entry of its ledger identifies it, wherever
    its state is carried; an installation without a run has no identity yet."""
    first = state.ledger.entry(1)
    known: dict[str, str | int | float | bool] = {"service.name": "kfm", "service.version": __version__}
    return known if first is None else {**known, "service.instance.id": first.receipt_digest.partition(":")[2][:32]}


def _endpoint(resolved: Resolved) -> str:
    said = resolved.config.otel.endpoint
    if not said.startswith("env:"):
        return said.rstrip("/")
    url = os.environ.get(said.removeprefix("env:"), "")
    wrong, hint = address_fault(url, resolved.config.network.allow)
    if wrong:
        raise BadInput(f"what {said} holds {wrong}", hint=hint)
    return url.rstrip("/")


def _headers(resolved: Resolved) -> dict[str, str]:
    return {name: _secret(resolved, reference) for name, reference in resolved.config.otel.headers.items()}


def _secret(resolved: Resolved, reference: str) -> str:
    value = resolved.secret(reference, os.environ, shortest=1).reveal()
    if not all(0x20 <= byte < 0x7F for byte in value):
        raise BadInput(f"the secret {reference} is no header: it holds letters beyond ASCII", hint="set it again")
    return value.decode("ascii")
