"""A real OPA, and servers that only pretend to be one."""

from __future__ import annotations

import http.server
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kfm.policy.policy_bundle import Policies, bundle
from tests.abilities import lacking
from tests.policy import tools
from tests.servers.postgres import free_port as free_port


def tool(name: str) -> str:
    """The path of a program that a test needs."""
    try:
        return str(tools.built(name))
    except tools.Absent as problem:
        lacking(str(problem))


class Server:
    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process


@contextmanager
def real_opa(policies: Policies, folder: Path) -> Iterator[Server]:
    packed = folder / "bundle.tar.gz"
    packed.write_bytes(bundle(policies))
    with opa_on("-b", str(packed)) as server:
        yield server


@contextmanager
def opa_on(*loaded: str) -> Iterator[Server]:
    """`opa run --server` with these arguments."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [tool("opa"), "run", "--server", "--addr", url.removeprefix("http://"), "--skip-version-check"]
    process = subprocess.Popen([*command, "--log-level", "error", *loaded])
    try:
        for _ in range(300):
            assert process.poll() is None, "OPA did not start"
            try:
                with urllib.request.urlopen(f"{url}/health?bundles", timeout=1):
                    break
            except OSError:
                time.sleep(0.1)
        yield Server(url, process)
    finally:
        process.kill()
        process.wait()


@contextmanager
def pretending(answer: Callable[[http.server.BaseHTTPRequestHandler, bytes], None]) -> Iterator[str]:
    """A server on loopback that answers every question as it is told to."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with suppress(OSError):  # whoever asked hung up
                answer(self, body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def saying(content: bytes, status: int = 200) -> Callable[[http.server.BaseHTTPRequestHandler, bytes], None]:
    def answer(handler: http.server.BaseHTTPRequestHandler, _body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer
