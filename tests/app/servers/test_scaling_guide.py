"""The guide from a laptop to several machines works as written, with the servers that `make up-local` starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.abilities import lacking
from tests.project.guides import ROOT, follow
from tests.servers.postgres import free_port
from tests.servers.seaweed import free_port as free_pair


def up_or_down(what: str, folder: Path, ports: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tools.local", what, "--folder", str(folder), *ports]
    return subprocess.run(words, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_guide_works_with_real_servers(tmp_path: Path) -> None:
    clone = Path(tempfile.mkdtemp(prefix="kfm-guide-"))
    clone.chmod(0o755)  # the user postgres has its data there
    local = clone / "build" / "local"
    local.mkdir(parents=True)
    ports = ("--postgres-port", str(free_port()), "--redis-port", str(free_port()), "--s3-port", str(free_pair()))
    begun = up_or_down("up", local, ports)
    if "apt-get install" in begun.stderr:
        lacking(begun.stderr.strip())
    assert begun.returncode == 0, begun.stderr
    try:
        assert follow(ROOT / "docs" / "guides" / "scaling.md", tmp_path / "page", clone=clone) == 6
    finally:
        ended = up_or_down("down", local, ())
        shutil.rmtree(clone)
    assert ended.stdout.count("stopped") == 3
