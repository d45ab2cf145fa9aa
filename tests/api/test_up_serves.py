"""`kfm up --listen` serves what `kfm serve` serves, and knows as well who asks."""

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

import pytest

from tests.api.serving_site import OPEN, make

pytestmark = pytest.mark.usefixtures("clean")


@contextmanager
def up(folder: Path, *flags: str) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-m", "kfm.cli.main", "--json", "up", "--listen", "127.0.0.1:0", *flags],
        cwd=folder, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield int(json.loads(process.stdout.readline())["listening"].rpartition(":")[2])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def status(port: int, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): each for name, each in headers.items()})
        return connection.getresponse().status
    finally:
        connection.close()


def test_it_serves_pages_and_shows_the_present_to_its_one_user_only(tmp_path: Path) -> None:
    make(tmp_path)
    with up(tmp_path) as port:
        assert [status(port, path) for path in ("/", f"/v1/datasets/{OPEN}", "/now")] == [200, 200, 200]
        for said in ("Forwarded", "X_Forwarded_For", "Via"):  # a proxy of which nobody told
            assert status(port, "/now", **{said: "192.0.2.7"}) == 404 and status(port, "/", **{said: "x"}) == 200
    with up(tmp_path, "--behind-proxy") as port:  # what a proxy sends is of anybody
        assert [status(port, path) for path in ("/", f"/v1/datasets/{OPEN}", "/now")] == [200, 200, 404]
