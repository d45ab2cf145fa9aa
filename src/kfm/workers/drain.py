"""How a worker stops: a first signal lets the job at work end, a second one leaves it to be resumed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A second signal came: the process ends now, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Drain:
    """Hears SIGTERM and SIGINT."""

    def __init__(self, told: Callable[[int], None], *, ends_at: int = 2) -> None:
        """`told` receives the number of signals so far, at each. With the signal number `ends_at`, Stopped is
        raised."""
        self._told = told
        self._ends_at = ends_at
        self.signals = 0

    def goes_on(self) -> bool:
        return not self.signals

    def stop(self) -> None:
        """Stop as after a first signal."""
        self.signals = max(self.signals, 1)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.signals += 1
        with suppress(RuntimeError):  # the signal came while a line was being written
            self._told(self.signals)
        if self.signals >= self._ends_at:
            raise Stopped(128 + number)

    @contextmanager
    def hearing(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
