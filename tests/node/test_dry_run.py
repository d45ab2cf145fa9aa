"""A dry run by Node changes nothing either: no call to the system outside the artifacts folder could."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.sites import Site, command
from tests.node.test_twins import GAUGES, WEEK, files_of
from tests.walk.installations import Server, environment, serving, stamps
from tests.walk.system_calls import changes, need_strace, traced

Count = Callable[..., None]

DRY: tuple[tuple[str, ...], ...] = (
    ("run", "--dry-run"),
    ("run", "--dry-run", "--json", "--verbose"),
    ("run", "gauges", "--dry-run", "--window", "2026-01"),
    ("run", "--dry-run", "--force", "--reason", "look again"),
    ("run", "--dry-run", "--artifacts", "ARTIFACTS"),
    ("--version",),
    ("--help",),
)


def empty(_site: Site) -> None:
    """Nothing was ever run here."""


def settled(site: Site) -> None:
    site.run("run")
    site.kfm("promote", "gauges")
    site.put("data/gauges.csv", GAUGES + "e,ford,5\nf,saline,6\n")


def frozen(site: Site) -> None:
    settled(site)
    site.kfm("freeze", "--reason", "an incident")


STATES: dict[str, Callable[[Site], None]] = {"no state yet": empty, "after runs": settled, "frozen": frozen}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"week.geojson": WEEK}) as server:
        yield server


@pytest.mark.parametrize(("state", "backend"), [*((state, "sqlite") for state in STATES), ("after runs", "jsonl")])
def test_no_call_to_the_system_changes_anything(
    state: str, backend: str, tmp_path: Path, server: Server, count: Count
) -> None:
    need_strace()
    site = Site(tmp_path / "site", files_of(backend, server.port), lambda _n: "node")
    STATES[state](site)
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    before = stamps(site.folder)
    server.methods.clear()
    for words in DRY:
        argv = command("node", *(str(artifacts) if word == "ARTIFACTS" else word for word in words))
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
