"""SeaweedFS, an S3 store, on 127.0.0.1 while the tests of one process run."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.abilities import lacking
from tests.policy.tools import Absent
from tests.servers import seaweed_program

ACCESS, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
READER, READER_SECRET = "AKIAREADER7EXAMPLE00", "reader/K7MDENG/bPxRfiCYEXAMPLEKEYreader/"
OPEN, KEPT = "open-data", "kfm-kept"  # everyone may read the first; the second is for those with keys


class Seaweed(NamedTuple):
    """A running server."""

    endpoint: str
    running: subprocess.Popen[bytes]

    def put(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Store an object, or make a bucket."""
        signed(self.endpoint, path, body, headers)


_shared: list[Seaweed] = []


@pytest.fixture(scope="session")
def seaweed(request: pytest.FixtureRequest) -> Seaweed:
    """Return the server of this process: modules that import this fixture share it."""
    if not _shared:
        stack = contextlib.ExitStack()
        request.config.add_cleanup(stack.close)
        _shared.append(stack.enter_context(running()))
    return shared()


def shared() -> Seaweed:
    """Return the server of this process, for a test that used the fixture."""
    assert _shared, "the test, or a fixture of it, must ask for the fixture `seaweed`"
    return _shared[0]


@contextlib.contextmanager
def running() -> Iterator[Seaweed]:
    """Start a server, and stop it and remove its files at the end."""
    try:
        weed = seaweed_program.fetched()
    except Absent as problem:
        lacking(str(problem))
    folder = Path(tempfile.mkdtemp(prefix="kfm-seaweed-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    identities = [
        {"name": "us", "credentials": [{"accessKey": ACCESS, "secretKey": SECRET}], "actions": ["Admin"]},
        {
            "name": "reader",
            "credentials": [{"accessKey": READER, "secretKey": READER_SECRET}],
            "actions": [f"Read:{KEPT}", f"List:{KEPT}"],
        },
        {"name": "anonymous", "actions": [f"Read:{OPEN}"]},
    ]
    (folder / "s3.json").write_text(json.dumps({"identities": identities}))
    ports = [free_port() for _ in range(5)]
    words = [
        str(weed), "server", f"-dir={folder}", "-ip=127.0.0.1", f"-master.port={ports[0]}", f"-volume.port={ports[1]}",
        f"-filer.port={ports[2]}", f"-s3.port={ports[3]}", "-s3", f"-s3.config={folder}/s3.json",
        "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64", "-volume.max=0",
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
    server = Seaweed(f"http://127.0.0.1:{ports[3]}", process)
    try:
        _wait(server, folder / "log")
        yield server
    finally:
        process.kill()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: Seaweed, log: Path) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            for bucket in (OPEN, KEPT):
                server.put(f"/{bucket}", b"")
            server.put(f"/{KEPT}/ready", b"x")
            return
        except (OSError, urllib.error.URLError):
            assert server.running.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.1)


def free_port() -> int:
    """Return a port below those that the system gives away: the server also takes the one 10,000 above. Processes with
    neighbouring numbers look in places that do not overlap."""
    for port in range(20_000 + os.getpid() * 37 % 2_600, 22_700):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port
    raise AssertionError("no port is free")


_given: set[int] = set()


def signed(
    endpoint: str,
    path: str,
    body: bytes,
    more: dict[str, str] | None = None,
    *,
    access: str = ACCESS,
    secret: str = SECRET,
) -> None:
    """Send a PUT that is signed here, in botocore's way, so that no test asks obstore what obstore did."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    host = endpoint.partition("://")[2]
    given = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": moment}
    names = ";".join(sorted(given))
    lines = "".join(f"{name}:{given[name]}\n" for name in sorted(given))
    question = f"PUT\n{path}\n\n{lines}\n{names}\n{digest}"
    scope = f"{moment[:8]}/us-east-1/s3/aws4_request"
    key = f"AWS4{secret}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(question.encode()).hexdigest()}"
    proof = hmac.digest(key, text.encode(), "sha256").hex()
    headers = {
        "x-amz-content-sha256": digest, "x-amz-date": moment, **(more or {}),
        "authorization": f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={proof}",
    }  # fmt: skip
    asked = urllib.request.Request(endpoint + path, data=body, headers=headers, method="PUT")
    with urllib.request.urlopen(asked, timeout=10) as answer:
        answer.read()
