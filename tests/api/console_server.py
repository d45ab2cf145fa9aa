"""The console of an installation, served by the real server in threads of this process, to a chosen audience."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from kfm import config
from kfm.api.access import Access, Caller
from kfm.api.server import Served, listening
from kfm.app.session.session import Session, open_session


class Page(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Console:
    def __init__(self, port: int, stop: Callable[[], None]) -> None:
        self.port = port
        self.stop = stop

    def get(self, path: str, **headers: str) -> Page:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            line.request("GET", path, headers=headers)
            answer = line.getresponse()
            return Page(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            line.close()

    @contextmanager
    def events(self, path: str = "/v1/events") -> Iterator[http.client.HTTPResponse]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            line.request("GET", path)
            yield line.getresponse()
        finally:
            line.close()

    def data(self, path: str) -> Any:
        found = self.get(path)
        assert found.status == 200, (path, found.status, found.text[:500])
        return found.data

    def page(self, path: str) -> str:
        found = self.get(path)
        assert found.status == 200, (path, found.status, found.text[:500])
        assert found.headers["content-type"] == "text/html; charset=utf-8"
        return found.text


def told(answer: http.client.HTTPResponse) -> dict[str, Any]:
    """The next event of a stream."""
    while True:
        line = answer.readline()
        assert line, "the stream ended before an event came"
        if line.startswith(b"data: "):
            found: dict[str, Any] = json.loads(line[6:])
            return found


def _opened(path: str) -> Session:
    return open_session(config.load(path, os.environ))


@contextmanager
def console(folder: Path | None = None, audience: str = "") -> Iterator[Console]:
    """Serve the installation in a folder. Without an audience the server finds out on its own who asks."""
    path = str((folder or Path.cwd()) / "kfm.yml")
    served = Served(partial(_opened, path), path, str(Path(path).parent / ".kfm" / "serve" / "items.db"))
    with ExitStack() as stack:
        if audience:
            stack.enter_context(mock.patch.object(Access, "caller", lambda *_: Caller(audience)))
        serving = ExitStack()
        port = serving.enter_context(
            listening(partial(_opened, path), "127.0.0.1", 0, None, metrics=False, served=served)
        )
        stack.enter_context(serving)
        yield Console(port, serving.close)
