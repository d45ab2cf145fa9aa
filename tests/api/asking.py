"""A governed application inside the test process: requests as ASGI messages, under a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kfm import config
from kfm.api.access import Access, Rules
from kfm.api.application import GovernedApp
from kfm.api.changes.acceptance import Desk
from kfm.api.rate_limit import RateLimit
from kfm.api.readers import Readers
from kfm.api.route_table import ROUTES
from kfm.api.webhooks import InboxWriter
from kfm.app.serving.item_catalog import ItemCatalog
from kfm.app.session.session import Session, open_session
from kfm.app.sign_in.sign_ins import SignIns
from kfm.clock import FixedClock
from kfm.model.ports import Log


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class Asked:
    """Answers requests as `kfm serve` would, without a socket."""

    def __init__(
        self,
        folder: Path,
        clock: FixedClock,
        rules: Rules | None = None,
        log: Log | None = None,
        beyond: Any = None,
        *,
        stores: bool = False,
    ) -> None:
        self.clock = clock
        self.path = str(folder / "kfm.yml")
        self.limit = RateLimit(monotonic=clock.monotonic)
        self.access = Access(rules or Rules(), self.limit, SignIns(clock))
        self.readers = Readers(self._opened, self.path, threads=2)
        items = ItemCatalog(str(folder / ".kfm" / "serve" / "items.db"))
        self.writer = InboxWriter(self._opened) if stores else None
        self.app = GovernedApp(
            ROUTES, self.readers, items, beyond, rules=rules, access=self.access, log=log, desk=Desk(self.writer)
        )
        if self.writer is not None:
            self.writer.start()

    def _opened(self) -> Session:
        return open_session(config.load(self.path, {"KFM_ACCEPT_WEAK_STORAGE": "true"}), clock=self.clock)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.app.close()

    def get(
        self,
        path: str,
        token: str | None = None,
        *,
        host: str = "127.0.0.1:8750",
        client: str = "127.0.0.1",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Reply:
        sent = {"host": host, **({"authorization": f"Bearer {token}"} if token is not None else {}), **(headers or {})}
        return asyncio.run(self._ask(method, path, sent, client, body))

    async def _ask(self, method: str, path: str, headers: Mapping[str, str], client: str, body: bytes) -> Reply:
        at, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": at, "raw_path": at.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "scheme": "http",
            "server": ("127.0.0.1", 8750), "client": (client, 1), "http_version": "1.1", "root_path": "",
        }  # fmt: skip
        messages: list[dict[str, Any]] = []
        waiting = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if waiting.is_set():
                await asyncio.sleep(3600)
            waiting.set()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        start = messages[0]
        found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], found, b"".join(one.get("body", b"") for one in messages[1:]))
