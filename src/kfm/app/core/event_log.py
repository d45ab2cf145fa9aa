"""Opens the event log of a command: lines for people or programs, and a list for the artifacts."""

from __future__ import annotations

from typing import Any, Literal, TextIO

from kfm.clock import Clock, from_environment
from kfm.model.ports import Log


def open_log(
    stream: TextIO | None,
    *,
    lines: Literal["human", "jsonl"] = "human",
    events: list[dict[str, Any]] | None = None,
    causes: TextIO | None = None,
    clock: Clock | None = None,
) -> Log:
    """Events as lines on a stream, for people or for programs, and into a list for the artifacts.

    `causes` gets the traceback of what an author's code raised, with the values in it.
    """
    from kfm.telemetry.log import EventLog, Sink, human, jsonl, tracebacks

    sinks: list[Sink] = [] if events is None else [events.append]
    if stream is not None:
        sinks.append(human(stream) if lines == "human" else jsonl(stream))
    return EventLog(clock or from_environment(), *sinks, causes=tracebacks(causes) if causes is not None else None)
