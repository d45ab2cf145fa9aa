"""A small HTTP server with real validators: ETag, If-None-Match and 304, over a folder that may change."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Shelf:
    """What is served now, by path; changed while the server runs."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = dict(files)
        self.answers: list[tuple[str, int]] = []  # path and status of every answer given


def serve(shelf: Shelf, port: int = 0) -> ThreadingHTTPServer:
    """Start serving in a thread; `server_address[1]` is the port, `shutdown()` ends it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = shelf.files.get(self.path.lstrip("/"))
            if body is None:
                self.answer(404, b"", "")
                return
            etag = '"' + hashlib.sha256(body).hexdigest()[:20] + '"'
            if self.headers.get("If-None-Match") == etag:
                self.answer(304, b"", etag)
            else:
                self.answer(200, body, etag)

        def answer(self, status: int, body: bytes, etag: str) -> None:
            shelf.answers.append((self.path, status))
            self.send_response(status)
            if etag:
                self.send_header("ETag", etag)
            if status != 304:
                kind = "application/geo+json" if self.path.endswith("json") else "text/csv"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """The demo tells its own story."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
