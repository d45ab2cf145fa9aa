"""A dry run by Node changes nothing either: no call to the system outside the artifacts folder could."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.installations import Server, environment, serving, stamps
from tests.engine.system_calls import changes, need_strace, traced
from tests.engine.test_dry_run import MESSAGE
from tests.node.sites import Site, command
from tests.node.test_twins import GAUGES, WEEK, files_of
from tests.sampling import sampled

Count = Callable[..., None]

DRY: tuple[tuple[str, ...], ...] = (
    ("run", "--dry-run"),
    ("run", "--dry-run", "--json", "--verbose"),
    ("run", "gauges", "--dry-run"),
    ("run", "--dry-run", "--force", "--reason", "look again"),
    ("run", "--dry-run", "--artifacts", "ARTIFACTS"),
    ("webhook", "verify", "gauges", "--body", "message.json", "--header", "SIGNED"),
    ("--version",),
    ("--help",),
)
WEBHOOK = "webhooks: {gauges: {datasets: [gauges], secrets: ['file:secret']}}\n"


def empty(_site: Site, _server: Server) -> None:
    """Nothing was ever run here."""


def settled(site: Site, _server: Server) -> None:
    site.run("run")
    site.kfm("promote", "gauges")
    site.put("data/gauges.csv", GAUGES + "e,ford,5\nf,saline,6\n")


def frozen(site: Site, server: Server) -> None:
    settled(site, server)
    site.kfm("freeze", "--reason", "an incident")


class Unanswered(dict[str, bytes]):
    """Files that a server looks for, and does not find before it is told to."""

    def __init__(self) -> None:
        self.asked, self.told = threading.Event(), threading.Event()

    def get(self, _name: str, _default: Any = None) -> Any:
        self.asked.set()
        assert self.told.wait(120)


def killed(site: Site, server: Server) -> None:
    """One dataset was done and the other being fetched when Node died: its log is not yet in the database."""
    settled(site, server)
    server.shelf.files, files = Unanswered(), server.shelf.files
    process = subprocess.Popen(
        command("node", "run"),
        cwd=site.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert server.shelf.files.asked.wait(120), "the source was never asked for"
        process.kill()
        assert process.wait(120) == -9
    finally:
        process.kill()
        server.shelf.files.told.set()
        server.shelf.files = files
    assert (site.folder / ".kfm/state.db-wal").stat().st_size > 0
    site.put("data/gauges.csv", GAUGES + "e,ford,5\nf,saline,6\ng,ford,7\n")  # and there is something to do


STATES: dict[str, Callable[[Site, Server], None]] = {
    "no state yet": empty,
    "after runs": settled,
    "after a kill": killed,
    "frozen": frozen,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"week.geojson": WEEK}) as server:
        yield server


@pytest.mark.parametrize(
    ("state", "backend"), sampled([*((state, "sqlite") for state in STATES), ("after runs", "jsonl")], every=4)
)
def test_no_call_to_the_system_changes_anything(
    state: str, backend: str, tmp_path: Path, server: Server, count: Count
) -> None:
    need_strace()
    files = files_of(backend, server.port)
    files["kfm.yml"] = f"{files['kfm.yml']!s}{WEBHOOK}"
    files |= {"message.json": MESSAGE, "secret": "9f2c4e6a8b0d1f3e5c7a9b8d6f4e2c0a"}
    site = Site(tmp_path / "site", files, lambda _n: "node")
    (site.folder / "secret").chmod(0o600)
    STATES[state](site, server)
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    signed = site.kfm("webhook", "sign", "gauges", "--body", "message.json").out.strip()
    named = {"ARTIFACTS": str(artifacts), "SIGNED": signed}
    before = stamps(site.folder)
    server.methods.clear()
    for words in DRY:
        argv = command("node", *(named.get(word, word) for word in words))
        done, calls = traced(argv, tmp_path / "trace", cwd=site.folder, env=environment())
        assert done.returncode in (0, 5), (words, done)
        assert any(call.name == "execve" and "updater.mjs" in call.rest for call in calls), "nothing was traced"
        assert len(calls) > 100
        assert changes(calls, folder=artifacts, port=server.port) == [], words
        assert stamps(site.folder) == before, words
        count("commands of Node traced")
    assert set(server.methods) == {"GET"}
    assert sorted(path.name for path in artifacts.iterdir()) == [
        "event_log.jsonl", "idempotency.json", "publisher_trace.jsonl", "run.jsonl",
    ]  # fmt: skip


def test_the_same_look_at_the_system_sees_every_real_change(tmp_path: Path, server: Server) -> None:
    need_strace()
    site = Site(tmp_path / "site", files_of("sqlite", server.port), lambda _n: "node")
    done, calls = traced(command("node", "run"), tmp_path / "trace", cwd=site.folder, env=environment())
    assert done.returncode == 0, done
    found = changes(calls, folder=tmp_path / "artifacts", port=server.port)
    assert any(line.startswith("openat(") and "O_CREAT" in line for line in found)
    assert any(line.startswith("pwrite64(") for line in found)
    assert any(line.startswith(("fsync(", "fdatasync(")) for line in found)
