"""The HTTP interface: an ASGI application that answers a webhook with 202 only when its trigger is durable.

Requests that are verified at the same time share one commit: a thread takes all waiting messages, writes them in one
transaction, and then all of them are answered.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from typing import Any

from kfm.api.metrics_collector import CONTENT_TYPE, MetricsCollector
from kfm.app.runs.trigger_inbox import Message, Reception, take
from kfm.app.session.session import Session
from kfm.errors import KfmError, Unavailable

MAX_BYTES = 256 * 1024
SECONDS_TO_SEND = 10.0  # for the whole body
SECONDS_TO_OPEN = 5.0  # between two attempts, if no request comes
MOST_AT_ONCE = 512  # most requests in one commit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer = list[str] | None | KfmError
Work = Callable[[Session], Any]  # something else to write, alone
_TEXT = {
    200: b'{"status":"known"}\n',
    400: b'{"error":"malformed"}\n',
    403: b'{"error":"forbidden"}\n',
    404: b'{"error":"not found"}\n',
    405: b'{"error":"use POST"}\n',
    408: b'{"error":"too slow"}\n',
    413: b'{"error":"too large"}\n',
    503: b'{"error":"try again later"}\n',
}


class InboxWriter(threading.Thread):
    """Writes verified messages, and what people request. It alone holds the session, and tries to open it again after a
    failure."""

    def __init__(self, opened: Callable[[], Session]) -> None:
        super().__init__(name="letterbox", daemon=True)
        self._opened = opened
        self.is_open = False
        self._waiting: SimpleQueue[tuple[Message | Work, Callable[[Any], None]] | None] = SimpleQueue()

    def put(self, message: Message | Work, answer: Callable[[Any], None]) -> None:
        """Write a message together with all that wait, or do another piece of work. `answer` is called when it is
        durable, or with a KfmError."""
        self._waiting.put((message, answer))

    async def written(self, message: Message | Work) -> Any:
        """Return the answer once it is there. It may be a KfmError."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Any] = loop.create_future()

        def settle(answer: Any) -> None:
            if not waiting.done():  # it is done already if the client hung up
                waiting.set_result(answer)

        def tell(answer: Any) -> None:
            loop.call_soon_threadsafe(settle, answer)

        self.put(message, tell)
        return await waiting

    def close(self) -> None:
        """Write all messages that wait, then end the writer."""
        self._waiting.put(None)
        self.join()

    def run(self) -> None:
        with ExitStack() as opened:
            session: Session | None = None
            for batch in self._batches():
                messages = [(each, answer) for each, answer in batch if isinstance(each, Message)]
                answers: list[Answer]
                try:
                    session = session or opened.enter_context(self._opened())
                    self.is_open = True
                    answers = list(take(session, [message for message, _ in messages])) if messages else []
                except KfmError as problem:
                    answers = [problem] * len(messages)
                except Exception as problem:  # every request must get an answer
                    answers = [KfmError(type(problem).__name__)] * len(messages)
                for (_, answer), result in zip(messages, answers, strict=True):
                    answer(result)
                for work, answer in batch:
                    if not isinstance(work, Message):
                        answer(_done(session, work))

    def _batches(self) -> Iterator[list[tuple[Message | Work, Callable[[Any], None]]]]:
        """Yield the messages that wait together; empty batches until the session is open, so that it is open before a
        request comes.
        """
        yield []
        while True:
            try:
                first = self._waiting.get(timeout=None if self.is_open else SECONDS_TO_OPEN)
            except Empty:
                yield []
                continue
            if first is None:
                return
            batch = [first]
            while len(batch) < MOST_AT_ONCE and not self._waiting.empty():
                another = self._waiting.get()
                if another is None:
                    yield batch
                    return
                batch.append(another)
            yield batch


def _done(session: Session | None, work: Work) -> Any:
    """Return what this work returns, or why it failed."""
    if session is None:
        return Unavailable("the state does not open", hint="try again later")
    try:
        return work(session)
    except KfmError as problem:
        return problem
    except Exception as problem:  # every request must get an answer
        return KfmError(type(problem).__name__)


class WebhookApp:
    """Serves POST /webhooks/{source_id}; GET /livez, /readyz and, with a collector, /metrics for monitoring."""

    def __init__(self, reception: Reception, letterbox: InboxWriter, collector: MetricsCollector | None = None) -> None:
        self._reception = reception
        self._letterbox = letterbox
        self._collector = collector

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            while (event := await receive())["type"] != "lifespan.shutdown":
                await send({"type": event["type"] + ".complete"})
            await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path in ("/livez", "/readyz"):
            ready = path == "/livez" or self._letterbox.is_open
            await _respond(send, 200 if ready else 503, b'{"status":"ok"}\n' if ready else None, retry=not ready)
            return
        if path == "/metrics" and self._collector is not None:
            await self._metrics(scope["method"], self._collector, send)
            return
        source_id = path.removeprefix("/webhooks/")
        if source_id == path or not source_id or "/" in source_id:
            await _respond(send, 404)
            return
        if scope["method"] != "POST":
            await _respond(send, 405)
            return
        body = await self._body(scope, receive, source_id)
        if isinstance(body, int):
            # A client that still sends would see a reset instead of the answer: a small rest is read and dropped.
            declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
            small = declared.isdigit() and len(declared) < 8
            await _respond(send, body, closing=body == 408 or not small)
            return
        found = self._reception.examine(source_id, scope["headers"], body)
        if isinstance(found, int):
            await _respond(send, found)
            return
        answer = await self._letterbox.written(found)
        if answer is None:
            await _respond(send, 200)
        elif isinstance(answer, KfmError):
            await _respond(send, 503, retry=True)
        else:
            ids = ",".join(f'"{each}"' for each in answer)
            await _respond(send, 202, f'{{"status":"accepted","triggers":[{ids}]}}\n'.encode())

    async def _metrics(self, method: str, collector: MetricsCollector, send: Send) -> None:
        if method not in ("GET", "HEAD"):
            await _respond(send, 405, b'{"error":"use GET"}\n', closing=True)
            return
        body = await collector.text()
        if body is None:
            await _respond(send, 503, retry=True)
        else:
            await _respond(send, 200, body, kind=CONTENT_TYPE)

    async def _body(self, scope: Scope, receive: Receive, source_id: str) -> bytes | int:
        """Return the raw bytes; or a status if there are too many or they arrive too slowly. Bytes beyond the limit are
        not read.
        """
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(not length.isdigit() or len(length) > 9 or int(length) > MAX_BYTES for length in lengths):
            self._reception.turn_away(source_id, "body.too_large", MAX_BYTES + 1)
            return 413
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(SECONDS_TO_SEND):
                while True:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        return 400
                    part: bytes = event.get("body", b"")
                    size += len(part)
                    if size > MAX_BYTES:
                        self._reception.turn_away(source_id, "body.too_large", size)
                        return 413
                    parts.append(part)
                    if not event.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            self._reception.turn_away(source_id, "body.too_slow", size)
            return 408


async def _respond(
    send: Send,
    status: int,
    body: bytes | None = None,
    *,
    closing: bool = False,
    retry: bool = False,
    kind: bytes = b"application/json",
) -> None:
    text = _TEXT[status] if body is None else body
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(text))]
    if closing:
        headers.append((b"connection", b"close"))
    if retry:
        headers.append((b"retry-after", b"5"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
