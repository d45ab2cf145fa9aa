"""One fetch from a scripted server, within its limits."""

from __future__ import annotations

import threading
from typing import Any

from kfm.model.records import Checkpoint, Fetched, FetchRequest
from kfm.sources.http import HttpSource
from tests.sources.hostile_server import ScriptedServer
from tests.sources.memory_objects import MemoryObjects

NOW = 1_767_225_600_000
SLACK_S = 2.0
TICK_S = 0.01


def request_for(server: ScriptedServer, **fields: Any) -> FetchRequest:
    given: dict[str, Any] = {
        "uri": f"http://{server.here}/data.csv?key=canary-secret",
        "allow": (server.here,),
        "timeout_ms": 30_000,
        "total_ms": 60_000,
        "max_bytes": 1 << 20,
        "now_ms": NOW,
    }
    return FetchRequest(**(given | fields))


def fetch_in_time(
    request: FetchRequest, objects: MemoryObjects, source: HttpSource | None = None, known: Checkpoint | None = None
) -> Fetched | BaseException:
    """What the fetch gave or raised; fails if it took longer than its limit allows."""
    outcome: list[Fetched | BaseException] = []

    def run() -> None:
        try:
            outcome.append((source or HttpSource()).fetch(request, known, objects))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    for _ in range(int((request.total_ms / 1000 + SLACK_S) / TICK_S)):  # a time that stands still when we do
        thread.join(TICK_S)
        if outcome:
            break
    assert outcome, "the fetch was still running after its limit"
    return outcome[0]
