"""The event log: one line per fact, with an event name and fields, without prose.

Every line begins with the same fields, in a file, on the terminal and in the artifacts of a run. Values are cleaned
first, so that no value can start a new line, colour a terminal or look like another field.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TextIO

from kfm.clock import Clock, rfc3339
from kfm.errors import KfmError
from kfm.model.canonical import canonical
from kfm.model.redaction import redacted
from kfm.parsing.characters import is_printable

FIELDS = (
    "timestamp", "service", "job_type", "job_id", "run_id", "correlation_id", "dataset_ids",
    "zone_in", "zone_out", "policy_label", "status", "duration_ms", "error",
)  # fmt: skip

# Words for the status of a log line, next to those of a receipt.
STATUS_WORDS = {
    "RUNNING": "started",
    "SUCCESS": "succeeded",
    "COMMITTED": "succeeded",
    "PARTIAL": "succeeded",  # some data were published; quarantined rows have findings of their own
    "FAILED": "failed",
    "SKIPPED": "skipped",
}

MAX_TEXT = 2000

Sink = Callable[[dict[str, Any]], None]


class NullLog:
    """A log that discards every event."""

    def event(self, name: str, **fields: object) -> None:
        pass

    def bind(self, **_fields: object) -> NullLog:
        return self


class EventLog:
    """A log that passes each event to every sink. Bound fields are on every later line."""

    __slots__ = ("_bound", "_causes", "_clock", "_lock", "_sinks")

    def __init__(
        self,
        clock: Clock,
        *sinks: Sink,
        service: str = "kfm",
        causes: Callable[[BaseException], None] | None = None,
    ) -> None:
        """`causes` receives the cause of an error with its values: for an author at a terminal, never for a
        log file.
        """
        self._clock = clock
        self._sinks = sinks
        self._causes = causes
        self._lock = threading.Lock()
        self._bound: dict[str, Any] = {"service": service}

    def bind(self, **fields: object) -> EventLog:
        other = EventLog(self._clock, *self._sinks, causes=self._causes)
        other._lock = self._lock
        other._bound = {**self._bound, **_cleaned(fields)}
        return other

    def event(self, name: str, **fields: object) -> None:
        problem = fields.get("error")
        if self._causes is not None and isinstance(problem, BaseException) and problem.__cause__ is not None:
            self._causes(problem.__cause__)
        line: dict[str, Any] = dict.fromkeys(FIELDS)
        line["event"] = name
        line.update(self._bound)
        line.update(_cleaned(fields))
        with self._lock:
            # Under the lock, so that the lines are in the order of their timestamps.
            line["timestamp"] = rfc3339(self._clock.now_ms())
            for sink in self._sinks:
                sink(line)


class MemoryLog(EventLog):
    """A log that keeps all events in memory, for the artifacts of a run and for tests."""

    __slots__ = ("events",)

    def __init__(self, clock: Clock, *sinks: Sink, service: str = "kfm") -> None:
        self.events: list[dict[str, Any]] = []
        super().__init__(clock, self.events.append, *sinks, service=service)


def tracebacks(stream: TextIO) -> Callable[[BaseException], None]:
    """Return a function that writes the whole traceback of an error's cause."""

    def write(cause: BaseException) -> None:
        import traceback

        lines = "".join(traceback.format_exception(cause)).splitlines()
        _put(stream, "".join(printable(line) + "\n" for line in lines))

    return write


def jsonl(stream: TextIO) -> Sink:
    """Return a sink that writes canonical JSON, one flushed line per event."""
    return lambda line: _put(stream, canonical(line).decode() + "\n")


def human(stream: TextIO) -> Sink:
    """Return a sink for people: `12:00:01.250 run.committed dataset_ids=noaa-stations steps=4`. Empty fields are left
    out.
    """

    def sink(line: dict[str, Any]) -> None:
        shown = [line["timestamp"][11:23], line["event"]]
        for key, value in line.items():
            if value is not None and key not in ("timestamp", "event", "service"):
                shown.append(f"{key}={_word(value)}")
        _put(stream, " ".join(shown) + "\n")

    return sink


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        pass  # a log that cannot be written must not stop the work


def _word(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_word(item) for item in value)
    if isinstance(value, dict):
        return canonical(value).decode()
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if text and not any(c in ' "=,' for c in text) else canonical(text).decode()


def _cleaned(fields: dict[str, object]) -> dict[str, Any]:
    found: dict[str, Any] = redacted(_plain(fields))
    status = found.get("status")
    if status in STATUS_WORDS:
        found["status"] = STATUS_WORDS[status]
    if isinstance(found.get("dataset_ids"), str):
        found["dataset_ids"] = [found["dataset_ids"]]
    return found


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= 2**53 else str(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, BaseException):
        return _error(value)
    return printable(type(value).__name__)  # never the repr: it could hold any value


def _error(problem: BaseException) -> dict[str, Any]:
    """Return the fields of an error for a log line: code and message of a KfmError; of any other error its type and
    stack, without values."""
    if isinstance(problem, KfmError):
        return {"code": problem.code, "message": printable(str(problem))}
    import traceback

    frames = traceback.extract_tb(problem.__traceback__)[-8:]
    stack = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
    return {"code": "internal", "message": type(problem).__name__, "stack": [printable(text) for text in stack]}


def printable(text: str) -> str:
    """Return a text on one line, with escapes for unprintable characters."""
    cut = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    if is_printable(cut):
        return cut
    return "".join(
        c if is_printable(c) else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}" for c in cut
    )
