"""What ties a request to what it causes: its correlation id, its trace (W3C Trace Context), and one log line."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kfm.parsing.lazy_regex import pattern

if TYPE_CHECKING:
    from kfm.model.ports import Log

CORRELATION, TRACEPARENT = "x-correlation-id", "traceparent"
_UUID = pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TRACE = pattern(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Visit:
    """One request, as the log and the headers of its answer name it. It holds no address, token or name."""

    __slots__ = ("audience", "correlation_id", "route", "status", "traceparent")

    def __init__(self, headers: Mapping[str, str]) -> None:
        """Take over the ids that the caller sent. One that is missing or malformed is made."""
        trace_id, flags = _trace_of(headers.get(TRACEPARENT, ""))
        sent = headers.get(CORRELATION, "").lower()
        self.correlation_id = sent if _UUID.fullmatch(sent) else str(uuid.UUID(trace_id))
        self.traceparent = f"00-{trace_id}-{os.urandom(8).hex()}-{flags}"
        self.route = ""  # of the table; empty: no route
        self.audience = ""  # empty: it ended before anybody was asked who it is
        self.status = 0

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (CORRELATION.encode(), self.correlation_id.encode()),
            (TRACEPARENT.encode(), self.traceparent.encode()),
        ]

    def log(self, log: Log, method: str, milliseconds: int) -> None:
        """Write the line about this request. The raw path and the query are never in it: they may name anything."""
        log.event(
            "request.answered",
            correlation_id=self.correlation_id,
            trace_id=self.traceparent[3:35],
            method=method if method in _METHODS else "other",
            route=self.route or None,
            http_status=self.status,
            audience=self.audience or None,
            duration_ms=milliseconds,
        )


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _trace_of(text: str) -> tuple[str, str]:
    """Return the id and the flags of a trace; those of a new one if the text is no traceparent of W3C."""
    found = _TRACE.fullmatch(text.strip()) if len(text) <= 512 else None
    if found is not None:
        version, trace_id, parent, flags, more = found.groups()
        known = version != "ff" and (version != "00" or more is None)
        if known and trace_id.strip("0") and parent.strip("0"):
            return trace_id, f"{int(flags, 16) & 1:02x}"
    return uuid.uuid4().hex, "00"
