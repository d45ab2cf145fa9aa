"""Ten kinds of secret through success, failure and a kill: no byte of any is in the installation or on the screen."""

from __future__ import annotations

import base64
import hashlib
import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from kfm.model.secret import Secret
from kfm.scheduling.webhook_requests import signature
from tests.app.governance.people import Site, by_order, make_list
from tests.engine.protected.conftest import MASK, label, table


def canary(name: str) -> str:
    """The same each time, found nowhere else."""
    return "cnry" + hashlib.sha256(name.encode()).hexdigest()[:44]


HEADER, QUERY, FILE, TOKEN, HOOK, PASSWORD, SLIP, ENVIRONMENT = map(
    canary, ("header", "query", "file", "github", "webhook", "password", "slip", "environment")
)
CUSTODIAN = hashlib.sha256(b"custodian").hexdigest()
ENV = {
    "KFM_SECRET_HEADER": HEADER,
    "KFM_SECRET_QUERY": QUERY,
    "KFM_SECRET_HOOK": HOOK,
    "KFM_SECRET_TOKEN": TOKEN,
    "KFM_SECRET_OFFICE": CUSTODIAN,
    "KFM_SECRET_UNUSED": ENVIRONMENT,
}

UPDATERS = """
import os
import signal

from kfm import Output, Plan, Step, Updater


class Copy(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin(name) for name in self.names]

    def plan(self, inputs):
        return Plan([Step(id=f"part-{n}", key=(f"part-{n}",)) for n in range(3)], complete=True)

    def perform(self, step, read):
        if os.environ.get("FAIL") == step.id:
            raise ValueError("the asked-for failure")
        if os.environ.get("DIE") == step.id:
            os.kill(os.getpid(), signal.SIGKILL)
        return Output(body=step.id.encode() + read.bytes(0), media_type="text/csv")


class Wells(Copy):
    id = "wells"
    names = ("wells", "more")


class Sites(Copy):
    id = "sites"
    names = ("sites",)
"""

CONFIG = """\
kfm: 1
publish: {publish}
github: {{token: 'env:KFM_SECRET_TOKEN', api: 'http://127.0.0.1:{port}', uploads: 'http://127.0.0.1:{port}'}}
network: {{allow: ['127.0.0.1:{port}'], timeout_s: 2, total_s: 4}}
labels: labels.yml
custodians:
  office: {{key: 'env:KFM_SECRET_OFFICE'}}
webhooks:
  wells: {{datasets: [wells], secrets: ['env:KFM_SECRET_HOOK']}}
datasets:
  wells:
    updater: updaters.py:Wells
    title: Wells
    license: CC0-1.0
    sensitivity: public
    sources:
      wells:
        uri: http://127.0.0.1:{port}/wells.csv
        format: csv
        contract: {{columns: [{{name: id}}]}}
        headers: {{Authorization: 'env:KFM_SECRET_HEADER'}}
        query: {{key: 'env:KFM_SECRET_QUERY'}}
      more:
        uri: http://127.0.0.1:{port}/more.csv
        format: csv
        contract: {{columns: [{{name: id}}]}}
        headers: {{X-Key: 'file:../kept-by-people/file.key'}}
  sites:
    updater: updaters.py:Sites
    title: Sites
    license: CC0-1.0
    sensitivity: public
    sources:
      sites: {{uri: sites.csv, format: csv, contract: {{columns: [{{name: id}}]}}, mask: mask.yml}}
"""


class Server(ThreadingHTTPServer):
    """Wants the secrets, and on a bad day says them back in everything a program might quote."""

    daemon_threads = True
    bad_day = False
    asked: set[str]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query).values()
        told = " ".join([*self.headers.values(), *(value for values in asked for value in values)])
        self.server.asked |= {name for name, value in SENT.items() if value in told}
        if self.server.bad_day:
            self.send_response(500, f"no {told}"[:200].encode("ascii", "replace").decode())
            self.send_header("Retry-After", "0")
            self.send_header("X-Echo", told[:200])
            body = told.encode()
        else:
            self.send_response(200)
            self.send_header("ETag", '"1"')
            body = b"well,depth\na,10\nb,20\n"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PATCH = do_DELETE = do_GET

    def log_message(self, *_said: object) -> None:
        """No process listens."""


SENT = {"header": HEADER, "query": QUERY, "file": FILE, "token": TOKEN}


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server(("127.0.0.1", 0), Handler)
    found.asked = set()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def encodings(secret: bytes) -> dict[str, bytes]:
    """How it might lie somewhere."""
    text = secret.decode("latin-1")
    found = {
        "plain": secret,
        "upper": secret.upper(),
        "utf-16-le": text.encode("utf-16-le"),
        "utf-16-be": text.encode("utf-16-be"),
        "hex": secret.hex().encode(),
        "HEX": secret.hex().upper().encode(),
        "quoted": quote(text, safe="").encode(),
        "every byte quoted": "".join(f"%{byte:02X}" for byte in secret).encode(),
        "base32": base64.b32encode(secret).rstrip(b"=")[:-2],
        "base85": base64.b85encode(secret)[:-5],
        "backwards": secret[::-1],
        "json": json.dumps(text).encode()[1:-1],
        "html": "".join(f"&#{byte};" for byte in secret).encode(),
        "python": repr(secret)[2:-1].encode(),
        "sha-256": hashlib.sha256(secret).hexdigest().encode(),
    }
    for shift in range(3):  # wherever it begins in what was encoded
        body = base64.b64encode(b"\0" * shift + secret)[4 if shift else 0 : -4]
        found[f"base64 {shift}"] = body
        found[f"base64url {shift}"] = body.translate(bytes.maketrans(b"+/", b"-_"))
    return found


def hits(secrets: dict[str, bytes], places: dict[str, bytes]) -> list[str]:
    return [
        f"{name} as {form} in {place}"
        for place, body in places.items()
        for name, secret in secrets.items()
        for form, bytes_ in encodings(secret).items()
        if bytes_ in body or bytes_ in place.encode()
    ]


@pytest.fixture
def session(site: Site, server: Server, monkeypatch: pytest.MonkeyPatch) -> Site:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    (site.safe / "file.key").write_text(FILE + "\n")
    (site.safe / "file.key").chmod(0o600)
    (site.folder / "updaters.py").write_text(UPDATERS)
    (site.folder / "sites.csv").write_text(table())
    (site.folder / "mask.yml").write_text(MASK)
    (site.folder / "labels.yml").write_text("version: 1\nlabels:\n" + label("dataset: sites"))
    configure(site, server)
    return site


def configure(site: Site, server: Server, publish: str = "file:public") -> None:
    (site.folder / "kfm.yml").write_text(CONFIG.format(port=server.server_address[1], publish=publish))


class Screen:
    """Types commands, and keeps all that was said."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.said: dict[str, bytes] = {}

    def __call__(self, *words: str, code: int | None = 0, child: bool = False, **env: str) -> int:
        answer = self.site.child(*words, env=env) if child else self.site.kfm(*words, **env)
        self.said[f"screen {len(self.said)} {' '.join(words)}"] = (answer.out + answer.err).encode()
        assert code is None or answer.code == code, (words, answer.err)
        return answer.code


def everywhere(site: Site, screen: Screen) -> dict[str, bytes]:
    files = {str(path): path.read_bytes() for path in site.folder.rglob("*") if path.is_file()}
    assert any(name.endswith("state.db") for name in files)
    return {**files, **screen.said}


def everything_that_can_happen(site: Site, server: Server, screen: Screen) -> None:
    for words in (("run", "--verbose", "--artifacts", "artifacts"), ("run", "--json"), ("resume",)):
        screen(*words)
    screen("run", "wells", "--force", "--reason", "x", "--verbose", code=1, FAIL="part-1")
    screen("run", "wells", "--force", "--reason", "x", child=True, DIE="part-1", code=-signal.SIGKILL)
    screen("run", "sites", "--force", "--reason", "x", child=True, DIE="part-2", code=-signal.SIGKILL)
    screen("resume", "--verbose")
    server.bad_day = True
    screen("run", "wells", "--force", "--reason", "x", "--verbose", code=None)
    screen("triggers", "watch", "--once", "--verbose", code=None)
    server.bad_day = False
    screen("run", "wells", "--dry-run", "--force", "--reason", "x", "--json")
    for words in (
        ("config", "show", "--resolved"),
        ("config", "show", "--resolved", "--json"),
        ("plan", "wells"),
        ("runs", "show", "last"),
        ("runs", "receipt", "last", "--json"),
        ("runs", "wal", "last"),
        ("runs", "telemetry"),
        ("keys", "list", "--json"),
        ("review", "list", "--all", "--json"),
        ("doctor", "--deep"),
        ("runners", "workflow"),
        ("refs", "list"),
        ("audit", "export"),
    ):
        screen(*words, code=None)


def a_message(site: Site, screen: Screen) -> None:
    """To the webhook: one that is right, one that is not."""
    said = {"source_id": "wells", "trigger": "t", "event_type": "e", "sent_at": "2026-01-01T00:00:00Z"}
    body = json.dumps({**said, "integrity": {"version": "v1"}}).encode()
    (site.folder / "message.json").write_bytes(body)
    good = f"X-KFM-Signature: {signature('kfm', Secret(HOOK.encode()), body)}"
    now = {"KFM_NOW": "2026-01-01T00:00:00Z"}
    screen("webhook", "sign", "wells", "--body", "message.json", **now)
    screen("webhook", "verify", "wells", "--body", "message.json", "--header", good, **now)
    screen("webhook", "replay", "wells", "--body", "message.json", "--header", good, **now)
    screen("webhook", "verify", "wells", "--body", "message.json", "--header", "X-KFM-Signature: sha256=00", code=4)


def mistakes(site: Site, server: Server, screen: Screen) -> None:
    """What an attacker might write where it does not belong: it is refused, and not said back."""
    port = server.server_address[1]
    files = {
        "kfm.yml": [
            ("env:KFM_SECRET_OFFICE", SLIP),
            ("env:KFM_SECRET_HEADER", SLIP),
            ("env:KFM_SECRET_HOOK", SLIP),
            (f"http://127.0.0.1:{port}/wells.csv", f"http://user:{PASSWORD}@127.0.0.1:{port}/wells.csv"),
            (f"http://127.0.0.1:{port}/wells.csv", f"http://127.0.0.1:{port}/wells.csv?api_key={PASSWORD}"),
        ],
        "labels.yml": [("custodian: office", f"custodian: office, key: {SLIP}"), ("version: 1", f"version: {SLIP}")],
        "mask.yml": [("id: sites", f"id: sites\nkey: {SLIP}"), ("resolution: 6", f"resolution: {SLIP}")],
    }
    for name, changes in files.items():
        path = site.folder / name
        good = path.read_text()
        for old, new in changes:
            assert old in good
            path.write_text(good.replace(old, new, 1))
            for words in (("run", "--force", "--reason", "x", "--verbose"), ("config", "show"), ("doctor",)):
                screen(*words, code=None)
            assert any(b"kfm: " in said for said in list(screen.said.values())[-3:]), "it was refused"
        path.write_text(good)


def test_no_secret_is_found_anywhere(session: Site, server: Server) -> None:
    make_list(session.kfm, session.safe, "office")
    screen = Screen(session)
    everything_that_can_happen(session, server, screen)
    a_message(session, screen)
    for words in (("promote", "wells"), ("promote", "sites")):
        answer = by_order(session.kfm, session.safe, *words)
        screen.said[f"screen {words}"] = (answer.out + answer.err).encode()
    key = str(session.safe / "olli.key")
    screen("freeze", "--key", key, "--reason", "x")
    screen("thaw", "--key", key, "--reason", "x", code=4)
    screen("keys", "new", "--person", "eve", "--role", "viewer", "--out", str(session.safe / "eve.key"), code=4)
    configure(session, server, "github:kansas/archive")
    screen("resume", "--verbose", code=None)
    screen("reconcile", "--public", code=None)
    screen("reconcile", "--public", "--repair", code=None)
    configure(session, server)
    mistakes(session, server, screen)
    assert server.asked == set(SENT), "every one of these was sent to whom it is for"
    secrets = {name: value.encode() for name, value in {**SENT, "webhook": HOOK, "environment": ENVIRONMENT}.items()}
    secrets |= {"custodian": CUSTODIAN.encode(), "custodian's bytes": bytes.fromhex(CUSTODIAN)}
    secrets |= {"password": PASSWORD.encode(), "by mistake": SLIP.encode()}
    for path in Path(session.safe).glob("*.key"):
        if path.name != "file.key":
            secrets |= {path.name: path.read_bytes().strip(), f"{path.name}, bytes": bytes.fromhex(path.read_text())}
    assert len(secrets) >= 10 + 4
    assert hits(secrets, everywhere(session, screen)) == []


@pytest.mark.parametrize("form", encodings(b"x" * 48))
def test_the_scan_finds_what_is_there(form: str) -> None:
    secret = canary("planted").encode()
    planted = b"\0\xff before " + encodings(secret)[form] + b" after"
    assert hits({"planted": secret}, {"a file": planted})
