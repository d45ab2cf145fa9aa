"""A store that keeps objects in memory, and looks at every signature by itself. Path style."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class MemoryStore:
    def __init__(self, access: str = "", secret: str = "") -> None:
        self.objects: dict[str, bytes] = {}
        self.access, self.secret = access, secret
        self.asked: list[tuple[str, int]] = []  # path, status
        self.sent = 0  # bytes of bodies
        self.port = 0

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if self.secret and not self._is_signed(path, headers):
            return 403, {}, b"<Error><Code>SignatureDoesNotMatch</Code></Error>"
        body = self.objects.get(path)
        if body is None:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        if headers.get("if-none-match") == etag:
            return 304, {"ETag": etag}, b""
        return 200, {"ETag": etag, "Content-Type": "binary/octet-stream"}, body

    def _is_signed(self, path: str, headers: dict[str, str]) -> bool:
        """As the specification has it, written from it and not from the client."""
        given = headers.get("authorization", "")
        algorithm, _, rest = given.partition(" ")
        fields = dict(part.strip().split("=", 1) for part in rest.split(",") if "=" in part)
        access, day, region, service, end = (fields.get("Credential", "") + "////").split("/")[:5]
        names = fields.get("SignedHeaders", "").split(";")
        if algorithm != "AWS4-HMAC-SHA256" or access != self.access or "host" not in names:
            return False
        listed = "".join(f"{name}:{headers.get(name, '')}\n" for name in names)
        question = f"GET\n{path}\n\n{listed}\n{';'.join(names)}\n{headers.get('x-amz-content-sha256')}"
        text = "\n".join(
            [algorithm, headers.get("x-amz-date", ""), f"{day}/{region}/{service}/{end}",
             hashlib.sha256(question.encode()).hexdigest()]
        )  # fmt: skip
        key = f"AWS4{self.secret}".encode()
        for word in (day, region, service, end):
            key = hmac.digest(key, word.encode(), "sha256")
        return hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), fields.get("Signature", ""))


@contextmanager
def serving(store: MemoryStore) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, said, body = store.answer(self.path, headers)
            store.asked.append((self.path, status))
            store.sent += len(body) if status == 200 else 0
            self.send_response(status)
            for name, value in {**said, **({} if status == 304 else {"Content-Length": str(len(body))})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    store.port = server.server_port
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
