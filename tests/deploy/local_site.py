"""An installation of `make up-local` in a folder of its own, on ports that are free."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.abilities import lacking
from tests.deploy.manifests import ROOT
from tests.policy.tools import Absent
from tests.servers import postgres, seaweed_program

SECRETS = ("postgres", "redis", "s3-access", "s3-secret")


def local(what: str, folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.local", what, "--folder", str(folder), *words]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=200, check=False
    )


def free_ports() -> list[str]:
    """Words for ports that are free; SeaweedFS takes four in a row, and those 10,000 above."""
    first = 20_000 + os.getpid() % 270 * 10
    while any(is_taken(port + more) for port in range(first, first + 4) for more in (0, 10_000)):
        first += 10
    return [f"--postgres-port={postgres.free_port()}", f"--redis-port={postgres.free_port()}", f"--s3-port={first}"]


def is_taken(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the user of Postgres can reach; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="kfm-local-"))
    folder.chmod(0o755)
    yield folder / "site"
    local("down", folder / "site")
    shutil.rmtree(folder, ignore_errors=True)


def needs_servers() -> None:
    if shutil.which("redis-server") is None:
        lacking("no redis-server on this machine")
    try:
        postgres.programs()
        seaweed_program.fetched()
    except Absent as problem:
        lacking(str(problem))
