"""The thread of `kfm up` that sends metrics to the collector of OpenTelemetry, about once a minute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

from kfm.app.maintenance.metrics_push import MetricsPush
from kfm.app.session.session import Session
from kfm.errors import KfmError
from kfm.model.ports import Log

SECONDS = 60.0  # between two pushes


class MetricsThread(threading.Thread):
    """Sends the metrics while this process leads. It has a session of its own, so a collector that does not answer
    delays no run, and after a failure it opens another one."""

    def __init__(
        self,
        opened: Callable[[], Session],
        leads: Callable[[], bool],
        log: Log,
        *,
        pause_s: float = SECONDS,
    ) -> None:
        super().__init__(name="metrics-push", daemon=True)
        self._opened = opened
        self._leads = leads
        self._log = log
        self._pause_s = pause_s
        self._ended = threading.Event()
        self.sent = 0  # pushes that the collector took

    def end(self) -> None:
        """End the thread. A push that is at work is left behind: it changes nothing here."""
        self._ended.set()
        self.join(timeout=1.0)

    def run(self) -> None:
        failed = ""
        with ExitStack() as stack:
            push: MetricsPush | None = None
            while not self._ended.wait(self._pause_s if push is not None or failed else min(self._pause_s, 1.0)):
                if not self._leads():
                    continue
                try:
                    if push is None:
                        push = MetricsPush(stack.enter_context(self._opened()))
                    push.send()
                except Exception as problem:  # whatever fails: the next push begins anew
                    push = None
                    stack.close()
                    if failed != type(problem).__name__:  # said once, not once a minute
                        known = {"error": problem} if isinstance(problem, KfmError) else {}
                        self._log.event("metrics.unsent", error_type=type(problem).__name__, **known)
                    failed = type(problem).__name__
                else:
                    self.sent += 1
                    if failed:
                        self._log.event("metrics.sent")
                    failed = ""
