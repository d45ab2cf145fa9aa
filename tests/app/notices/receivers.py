"""A receiver of notices on loopback that verifies what it gets, and an installation that sends to it."""

from __future__ import annotations

import base64
import hmac
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kfm.app.runs.auto_promotion import with_promotions
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Mode, Session, open_session
from kfm.clock import Clock, FixedClock
from kfm.config import load
from kfm.model.records import Receipt

SECRET = "whsec_" + base64.b64encode(b"canary-of-a-secret-of-32-bytes!!").decode()
OTHER = "whsec_" + base64.b64encode(b"another-secret-of-24-byt").decode()
EVERY = "[failed, held, published, withdrawn, late, burnt, review]"

SAID = """\
accept_weak_storage: true
catalog: ""
pages: false
publish: noop
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    freshness: {{max_age: 26h}}
    sources:
      rain:
        uri: rain.csv
        format: csv
        contract: {{max_held_share: 0.5, columns: [{{name: n, type: integer, mode: discard-row}}]}}
    outputs: {{rain: {{from: rain}}}}
  snow:
    version: "1.0.0"
    title: Snow
    license: CC0-1.0
    sensitivity: public
    sources:
      snow: {{uri: snow.csv, format: csv, contract: {{columns: [{{name: n, type: integer}}]}}}}
    outputs: {{snow: {{from: snow}}}}
notify:
{receivers}"""


def signature(secret: str, id: str, sent: str, body: bytes) -> str:
    """A signature of Standard Webhooks, written from its specification alone."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return (
        "v1," + base64.b64encode(hmac.digest(key, id.encode() + b"." + sent.encode() + b"." + body, "sha256")).decode()
    )


class Got(NamedTuple):
    """A request, as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        return str(self.event["type"]).removeprefix("org.kfm.").removesuffix(".v1")

    def is_signed_with(self, secret: str) -> bool:
        wanted = signature(secret, self.id, self.headers["webhook-timestamp"], self.body)
        return wanted in self.headers["webhook-signature"].split(" ")


Answer = Callable[[http.server.BaseHTTPRequestHandler, Got], None]


def status(code: int, **headers: str) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler, _got: Got) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


class Receiver:
    """What came, in order. `answers` says how the next requests are answered; after them each is taken."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.got: list[Got] = []
        self.answers: list[Answer] = []
        self.always: Answer = status(204)

    @property
    def kinds(self) -> list[str]:
        return [each.kind for each in self.got]

    def take(self) -> list[str]:
        """The kinds that came since the last call."""
        kinds = self.kinds
        self.got.clear()
        return kinds


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got = Got(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            receiver.got.append(got)
            answer = receiver.answers.pop(0) if receiver.answers else receiver.always
            with suppress(OSError):  # the sender hung up
                answer(self, got)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hook")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def receiver_lines(url: str, name: str = "ops", *, on: str = EVERY, more: str = "") -> str:
    secrets = "" if "secrets:" in more else ", secrets: [env:KFM_SECRET_HOOK]"
    return f"  {name}: {{url: '{url}', on: {on}{secrets}{more}}}\n"


class Site:
    """An installation at a clock of its own."""

    def __init__(self, folder: Path, receivers: str, said: str = SAID) -> None:
        self.folder = folder
        self.clock: Clock = FixedClock()
        folder.mkdir(parents=True, exist_ok=True)
        self.configure(receivers, said)
        for name in ("rain", "snow"):
            self.source("n\n1\n", name)

    def configure(self, receivers: str, said: str = SAID) -> None:
        (self.folder / "kfm.yml").write_text(said.format(receivers=receivers))

    def source(self, text: str, name: str = "rain") -> None:
        (self.folder / f"{name}.csv").write_text(text)

    def open(self, mode: Mode = "write", clock: Clock | None = None) -> Session:
        return open_session(load(str(self.folder / "kfm.yml"), {}), mode=mode, clock=clock or self.clock)

    def advance(self, **spans: float) -> None:
        from datetime import timedelta

        assert isinstance(self.clock, FixedClock)
        self.clock.advance(round(timedelta(**spans).total_seconds() * 1000))

    def settle(self) -> Session:
        """Settle, as every command does at its end."""
        with self.open() as session:
            settle_session(session)
            return session

    def run(self, name: str = "rain", text: str = "") -> list[Receipt]:
        """Run a dataset with its automatic promotion, and settle."""
        if text:
            self.source(text, name)
        with self.open() as session:
            run = [run_trigger(session, new_trigger(session, name))]
            receipts = list(with_promotions(session, run, lambda _about, _problem: None))
            settle_session(session)
        return receipts

    def operate(self, operation: str, name: str = "rain", params: dict[str, str] | None = None) -> Receipt:
        with self.open() as session:
            receipt = run_operation(session, operation, name, params or {}, reason="a test")
            settle_session(session)
        return receipt
