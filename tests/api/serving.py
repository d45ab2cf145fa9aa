"""`kfm serve` in a process of its own, as a person would start it, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Served(NamedTuple):
    """A server that runs, and how to ask it."""

    url: str
    process: subprocess.Popen[str]

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Reply:
        port = int(self.url.rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            said = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, said, answer.read())
        finally:
            connection.close()


@contextmanager
def serving(folder: Path | str, *flags: str, **env: str) -> Iterator[Served]:
    """Serve the installation in a folder, and stop as an operator would."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kfm.cli.main", "--json", "serve", "--port", "0", *flags],
        cwd=folder, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith('{"listening"'), (line, process.communicate(timeout=60))
        yield Served(json.loads(line)["listening"], process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err, (process.returncode, out, err)
