"""A stand-in for the endpoints of GitHub that are used, with its answers, its refusals and its bad days.

After docs.github.com/rest/releases and /rest/repos (2022-11-28): a release is found by its tag unless it is a draft, a
tag or an asset name is taken once (422), half an upload stays behind in the state `starter`, assets come a hundred
at a time, a release goes with its assets, and without a token there is nothing but 401. Pull requests, statuses and
checks are in pulls.py, over a real bare repository: `hub.pulls.repository`.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote

from tests.sinks.github import pulls

TOKEN = "ghs_0123456789abcdefghijklmnopqrstuvwxyz"
REPOSITORY = "kansas/archive"


class GitHub:
    """What the repository holds. `bad_day` says what happens to the n-th request instead of its answer."""

    def __init__(self) -> None:
        self.releases: dict[int, dict[str, Any]] = {}
        self.assets: dict[int, dict[str, Any]] = {}
        self.bodies: dict[int, bytes] = {}
        self.dispatches: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.bad_day: dict[int, str] = {}  # by number of the call: lost | dropped | 500 | 429 | cut
        self.fired: list[str] = []
        self.next_id = 1
        self.pulls = pulls.Pulls()
        self.url = ""
        self.lock = threading.Lock()

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def shown(self, release: dict[str, Any]) -> dict[str, Any]:
        mine = [a for a in self.assets.values() if a["release"] == release["id"]]
        return {**release, "assets": [self.asset(a) for a in mine][:30]}

    def asset(self, asset: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in asset.items() if name != "release"}

    def contents(self) -> dict[str, Any]:
        """All that a reader sees, without the numbers GitHub gives."""
        found: dict[str, Any] = {}
        for release in self.releases.values():
            assets = {
                a["name"]: (a["state"], self.bodies.get(a["id"], b""))
                for a in self.assets.values()
                if a["release"] == release["id"]
            }
            assert release["tag_name"] not in found
            found[release["tag_name"]] = (release["body"], release["prerelease"], assets)
        return found


def answer(hub: GitHub, method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, Any]:
    if method == "GET" and (found := re.fullmatch(r"/releases/tags/(.+)", path)):
        for release in hub.releases.values():
            if release["tag_name"] == found[1] and not release["draft"]:
                return 200, hub.shown(release)
        return 404, {"message": "Not Found"}
    if method == "GET" and (found := re.fullmatch(r"/releases/(\d+)/assets", path)):
        size, page = int(query.get("per_page", "30")), int(query.get("page", "1"))
        mine = [hub.asset(a) for a in hub.assets.values() if a["release"] == int(found[1])]
        return 200, mine[(page - 1) * size : page * size]
    if method == "GET" and path == "/releases":
        size, page = int(query.get("per_page", "30")), int(query.get("page", "1"))
        newest = sorted(hub.releases.values(), key=lambda release: -int(release["id"]))
        return 200, [hub.shown(release) for release in newest][(page - 1) * size : page * size]
    if method == "DELETE" and (found := re.fullmatch(r"/releases/(\d+)", path)):
        if hub.releases.pop(int(found[1]), None) is None:
            return 404, {"message": "Not Found"}
        for number in [a["id"] for a in hub.assets.values() if a["release"] == int(found[1])]:
            del hub.assets[number]
        return 204, None
    if method == "POST" and path == "/releases":
        said = json.loads(body)
        if any(release["tag_name"] == said["tag_name"] for release in hub.releases.values()):
            return 422, {"message": "Validation Failed", "errors": [{"code": "already_exists", "field": "tag_name"}]}
        number = hub.new_id()
        hub.releases[number] = {
            "id": number,
            "tag_name": said["tag_name"],
            "name": said.get("name"),
            "body": said.get("body"),
            "draft": said.get("draft", False),
            "prerelease": said.get("prerelease", False),
        }
        return 201, hub.shown(hub.releases[number])
    if method == "PATCH" and (found := re.fullmatch(r"/releases/(\d+)", path)):
        release = hub.releases.get(int(found[1]))
        if release is None:
            return 404, {"message": "Not Found"}
        said = json.loads(body)
        release.update({name: said[name] for name in ("body", "prerelease", "draft", "name") if name in said})
        return 200, hub.shown(release)
    if method == "POST" and (found := re.fullmatch(r"/releases/(\d+)/assets", path)):
        return upload(hub, int(found[1]), query.get("name", ""), body, len(body))
    if method == "DELETE" and (found := re.fullmatch(r"/releases/assets/(\d+)", path)):
        gone = hub.assets.pop(int(found[1]), None)
        return (204, None) if gone else (404, {"message": "Not Found"})
    if method == "POST" and path == "/dispatches":
        said = json.loads(body)
        if len(said["event_type"]) > 100 or len(said.get("client_payload", {})) > 10:
            return 422, {"message": "Invalid request"}
        hub.dispatches.append(said)
        return 204, None
    return pulls.answer(hub, REPOSITORY.partition("/")[0], method, path, query, body)


def upload(hub: GitHub, release: int, name: str, body: bytes, declared: int) -> tuple[int, Any]:
    if release not in hub.releases:
        return 404, {"message": "Not Found"}
    if any(a["release"] == release and a["name"] == name for a in hub.assets.values()):
        return 422, {"message": "Validation Failed", "errors": [{"code": "already_exists", "field": "name"}]}
    if re.search(r"[^A-Za-z0-9._-]", name):
        name = re.sub(r"[^A-Za-z0-9._-]", ".", name)
    number = hub.new_id()
    whole = len(body) == declared
    hub.bodies[number] = body
    hub.assets[number] = {
        "release": release,
        "id": number,
        "name": name,
        "size": len(body),
        "state": "uploaded" if whole else "starter",
        "digest": "sha256:" + hashlib.sha256(body).hexdigest() if whole else None,
    }
    return 201, hub.asset(hub.assets[number])


@contextmanager
def github() -> Iterator[GitHub]:
    hub = GitHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve()

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

        def _serve(self) -> None:
            with hub.lock:
                self._answer()

        def _answer(self) -> None:
            declared = int(self.headers.get("Content-Length", "0"))
            prefix = f"/repos/{REPOSITORY}"
            full, _, asked = self.path.partition("?")
            query = dict(parse_qsl(asked))
            hub.calls.append(f"{self.command} {full}")
            trouble = hub.bad_day.get(len(hub.calls), "")
            path = unquote(full.removeprefix(prefix))
            if trouble == "cut" and self.command == "POST" and path.endswith("/assets"):
                half = self.rfile.read(declared // 2)
                upload(hub, int(path.split("/")[2]), query["name"], half, declared)
                self._hang_up(trouble)
                return
            body = self.rfile.read(declared)
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._say(401, {"message": "Bad credentials"})
            elif not full.startswith(prefix):
                self._say(404, {"message": "Not Found"})
            elif trouble in ("500", "429"):
                hub.fired.append(trouble)
                self._say(int(trouble), {"message": "not today"}, {"Retry-After": "7"} if trouble == "429" else {})
            elif trouble in ("dropped", "cut"):
                self._hang_up(trouble)
            else:
                status, value = answer(hub, self.command, path, query, body)
                if trouble == "lost":
                    self._hang_up(trouble)
                else:
                    self._say(status, value)

        def _hang_up(self, trouble: str) -> None:
            hub.fired.append(trouble)
            self.close_connection = True

        def _say(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
            body = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            for name, text in (headers or {}).items():
                self.send_header(name, text)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
