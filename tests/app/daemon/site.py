"""A web site whose files change and that counts its requests, and an installation that reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

UPDATER = """
from kfm import Output, Plan, Step, Updater


class {name}(Updater):
    id = "{name_lower}"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("wells")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output.csv(read.csv(0))
"""


class Site:
    """What it serves under /wells.csv, with an ETag it may forget to change."""

    def __init__(self) -> None:
        self.body = b"api,depth\n15-001,100\n"
        self.etag = '"1"'
        self.status = 200
        self.retry_after = ""
        self.asked: list[str] = []  # the If-None-Match of every request
        self.port = 0

    def change(self, body: bytes, etag: str | None = None) -> None:
        self.body = body
        self.etag = self.etag if etag is None else etag


@contextmanager
def served() -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            known = self.headers.get("If-None-Match", "")
            site.asked.append(known)
            status = site.status if site.status != 200 else 304 if known == site.etag else 200
            self.send_response(status)
            self.send_header("ETag", site.etag)
            if site.retry_after:
                self.send_header("Retry-After", site.retry_after)
            body = site.body if status == 200 else b""
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()


def installation(folder: Path, site: Site, *names: str, more: str = "") -> str:
    lines = ["accept_weak_storage: true", "network:", f'  allow: ["127.0.0.1:{site.port}"]', "datasets:"]
    for name in names:
        title = name.capitalize()
        (folder / f"{name}.py").write_text(UPDATER.format(name=title, name_lower=name))
        lines += [f"  {name}:", f"    updater: {name}.py:{title}", "    sources:", "      wells:"]
        lines += [f"        uri: http://127.0.0.1:{site.port}/wells.csv", "        format: csv"]
        lines += ["        contract: {columns: [{name: id}]}"]
    path = folder / "kfm.yml"
    path.write_text("\n".join([*lines, more]) + "\n")
    return str(path)
