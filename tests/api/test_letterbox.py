"""The thread that stores verified requests: every request gets an answer, whatever the state does."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from kfm.api import webhooks
from kfm.api.webhooks import Answer, InboxWriter, WebhookApp
from kfm.app.runs.trigger_inbox import Message, reception_of
from kfm.app.session.session import Session, open_session
from kfm.config import load
from kfm.errors import KfmError, Unavailable
from tests.api.door import SECRETS, installation


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in SECRETS.items():
        monkeypatch.setenv(f"KFM_SECRET_{name.upper()}", value)
    return installation(tmp_path)


def message(number: int) -> Message:
    return Message(
        source_id="plain",
        scheme="kfm",
        trigger="t",
        event_type="e",
        sent_ms=1,
        delivery_ids=(f"{number:064x}",),
        expires_ms=1 << 50,
    )


def asked(door: WebhookApp, path: str) -> int:
    told: list[Any] = []

    async def send(event: Any) -> None:
        told.append(event)

    async def receive() -> Any:
        raise AssertionError("nothing is read of such a request")

    scope = {"type": "http", "path": path, "method": "GET", "headers": []}
    asyncio.run(door(scope, receive, send))
    return int(told[0]["status"])


def test_while_the_state_does_not_open_every_request_gets_an_error_and_later_requests_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "SECONDS_TO_OPEN", 0.01)
    shut, refused = [True], [0]

    def opened() -> Session:
        if shut[0]:
            refused[0] += 1
            raise Unavailable("the disk is not there")
        return open_session(load(str(folder / "kfm.yml"), {}))

    with open_session(load(str(folder / "kfm.yml"), {})) as session:
        letterbox = InboxWriter(opened)
        door = WebhookApp(reception_of(session), letterbox)
        letterbox.start()
        answers: SimpleQueue[Answer] = SimpleQueue()
        letterbox.put(message(1), answers.put)
        assert isinstance(answers.get(timeout=60), KfmError) and refused[0], "the fault did not fire"
        assert asked(door, "/readyz") == 503 and asked(door, "/livez") == 200
        shut[0] = False
        for _ in range(6000):
            if asked(door, "/readyz") == 200:
                break
            time.sleep(0.01)
        letterbox.put(message(1), answers.put)
        letterbox.put(message(1), answers.put)
        letterbox.close()
        taken, again = answers.get_nowait(), answers.get_nowait()
        assert isinstance(taken, list) and again is None, "taken once; what was refused was not"
        assert [trigger.trigger_id for trigger in session.state.inbox.waiting()] == taken
