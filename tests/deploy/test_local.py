"""`make up-local` gives a person an installation with servers, without a container and without a secret in the open."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.local_site import SECRETS, free_ports, is_taken, local, needs_servers, place

__all__ = ["place"]


def at(folder: Path, *words: str) -> str:
    env = {**os.environ, "KFM_ACTOR": "tester", "KFM_ACCEPT_WEAK_STORAGE": "true"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


@pytest.mark.long
def test_its_servers_run_an_installation_and_are_started_and_stopped_once(place: Path) -> None:
    needs_servers()
    ports = free_ports()
    first = local("up", place, *ports)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count(": started") == 3 and "python" in first.stdout and "kfm run rain" in first.stdout
    config = (place / "kfm.yml").read_text()
    again = local("up", place)
    assert again.stdout.count("runs already") == 3, (again.stdout, again.stderr)
    assert (place / "kfm.yml").read_text() == config

    assert "SUCCESS" in at(place, "kfm", "run", "rain")
    assert "SUCCESS" in at(place, "kfm", "publish", "rain", "--reason", "first")
    at(place, "workers", "run", "--once")
    at(place, "kfm", "doctor")
    assert not (place / "public").exists() and not list((place / ".kfm").glob("*.db")), "everything is in servers"

    values = [(place / "secrets" / name).read_text().strip() for name in SECRETS]
    assert len(set(values)) == 4 and all(len(value) == 40 and value not in config for value in values)
    for name in SECRETS:
        assert stat.S_IMODE((place / "secrets" / name).stat().st_mode) == 0o600
    for value in values:
        assert value not in first.stdout + first.stderr
        assert not [one for one in _command_lines() if value in one]
        assert not [file for file in _open_files(place) if value.encode() in file.read_bytes()]

    down = local("down", place)
    assert down.stdout.count(": stopped") == 3
    assert local("down", place).stdout.count("did not run") == 3
    assert not any(is_taken(int(word.rpartition("=")[2])) for word in ports)

    assert local("up", place).returncode == 0
    assert "SUCCESS" in at(place, "kfm", "runs", "list") and "KS-02" in at(place, "kfm", "cat", "rain"), (
        "its data stayed"
    )


def _command_lines() -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    assert any("redis-server" in one for one in found)
    return found


def _open_files(place: Path) -> list[Path]:
    """Files that others on this machine could read, were the folder itself not closed to them."""
    return [path for path in place.rglob("*") if path.is_file() and path.stat().st_mode & 0o044]


def test_a_package_that_is_missing_is_named_with_the_line_that_installs_it(place: Path, tmp_path: Path) -> None:
    needs_servers()
    done = local("up", place, *free_ports(), PATH=str(tmp_path))
    assert done.returncode == 1
    assert "apt-get install " in done.stderr and "Traceback" not in done.stderr


def test_a_port_that_is_taken_and_other_ports_later_are_refused(place: Path) -> None:
    needs_servers()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        done = local("up", place, f"--postgres-port={taken}")
    assert done.returncode == 1 and f"port {taken}" in done.stderr and "--postgres-port" in done.stderr
    done = local("up", place, "--redis-port=1")
    assert done.returncode == 1 and "made for other ports" in done.stderr
