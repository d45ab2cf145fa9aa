"""The Node runner by itself: what it refuses, how it stops, who it waits for, and what it takes up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm import __version__, config
from kfm.clock import FixedClock
from kfm.house.opening import open_house
from kfm.store.state import holder_is_dead, this_process
from tests.node.sites import Site, command, contents, rows_of
from tests.node.test_alternating import CONFIG as MANY
from tests.node.test_alternating import gauges
from tests.node.test_twins import GAUGES, WEEK, files_of
from tests.node.twin import ROOT, node
from tests.walk.installations import Server, environment, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"week.geojson": WEEK}) as server:
        yield server


def site_of(folder: Path, port: int) -> Site:
    return Site(folder / "site", files_of("sqlite", port), lambda _n: "node")


def resumed(site: Site, *words: str) -> list[list[str]]:
    argv = [node(), str(ROOT / "node/tests/resuming.mjs"), "kfm.yml", *words]
    done = subprocess.run(argv, cwd=site.folder, env=environment(), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done
    found: list[list[str]] = json.loads(done.stdout)
    return found


def test_both_runners_are_of_one_version() -> None:
    done = subprocess.run(command("node", "--version"), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"kfm {__version__}\n"


def test_python_code_is_refused_with_a_sentence_and_the_rest_is_run(tmp_path: Path, server: Server) -> None:
    site = site_of(tmp_path, server.port)
    more = "  coded:\n    updater: updaters/coded.py:Coded\n"
    site.put("kfm.yml", (site.folder / "kfm.yml").read_text() + more)
    answer = site.node("run")
    assert answer.code == 3
    assert (
        "kfm: coded: dataset coded is updated by Python code, which this runner does not run; run it with "
        "`python -m updater run coded`, or declare `outputs` instead\n"
    ) in answer.err
    assert answer.out.count("SUCCESS") == 2


def test_who_is_told_to_stop_frees_the_lease_and_leaves_the_run_to_be_resumed(tmp_path: Path) -> None:
    files = {"kfm.yml": MANY.replace("STATE", "sqlite:.kfm/state.db").replace("window: 4", "window: 1")}
    site = Site(tmp_path / "site", files, lambda _n: "node")
    site.put("data/gauges.csv", gauges(1))
    process = subprocess.Popen(
        command("node", "run", "--verbose"),
        cwd=site.folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = ""
    while "run.started" not in said:
        said = process.stderr.readline()
        assert said, "it ended before it began"
    process.send_signal(signal.SIGTERM)
    rest = process.stderr.read()
    assert process.wait(timeout=60) == 143
    assert rest.endswith("kfm: terminated; a run that was begun is left resumable: `kfm resume`\n")
    rows = rows_of(site.folder)
    assert len(rows["open_runs"]) == 1
    lease = json.loads(rows["leases"]["gauges/gauges"])
    assert lease["expires_ms"] == 0 or holder_is_dead(lease["holder"]), "what it could not free in time is a dead one's"
    assert "done" in site.node("run").out
    rows = rows_of(site.folder)
    assert not rows["open_runs"] and len(rows["receipts"]) == 1


def test_a_living_worker_of_the_other_language_is_waited_for(tmp_path: Path, server: Server) -> None:
    site = site_of(tmp_path, server.port)
    site.run("run", "gauges")
    site.put("data/gauges.csv", GAUGES + "e,ford,5\n")
    resolved = config.load(str(site.folder / "kfm.yml"), {})
    with open_house(resolved, clock=FixedClock(1_767_593_228_000)) as house:
        lease = house.state.acquire("gauges/gauges", this_process(), 60_000)
    answers = [site.node("run", "gauges"), site.python("run", "gauges")]
    assert answers[0] == answers[1]
    assert answers[0].code == 6
    assert "another worker is at work on gauges (its lease runs 60 s more)" in answers[0].err
    with open_house(resolved, clock=FixedClock(1_767_593_228_000)) as house:
        house.state.release(lease)
    assert site.node("run", "gauges").code == 0


def test_a_worker_that_is_known_to_be_dead_is_not(tmp_path: Path, server: Server) -> None:
    site = site_of(tmp_path, server.port)
    child = subprocess.Popen(["sleep", "100"])
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    holder = f"{os.uname().nodename}:{child.pid}:{fields[19]}"
    resolved = config.load(str(site.folder / "kfm.yml"), {})
    with open_house(resolved, clock=FixedClock(1_767_593_228_000)) as house:
        house.state.acquire("gauges/gauges", holder, 60_000)
    assert site.node("run", "gauges").code == 6
    child.kill()
    child.wait()
    assert site.node("run", "gauges").code == 0


def test_what_a_freeze_kept_is_taken_up_by_node_operations_too(tmp_path: Path, server: Server) -> None:
    site = site_of(tmp_path, server.port)
    site.run("run", "gauges")
    site.kfm("freeze", "gauges")
    site.kfm("promote", "gauges", code=5)
    site.put("data/gauges.csv", GAUGES + "e,ford,5\n")
    site.run("run", "gauges", code=5)
    site.kfm("thaw", "gauges")
    assert resumed(site) == [["kfm-promote", "done"], ["gauges", "done"]]
    assert resumed(site) == []
    rows = rows_of(site.folder)
    assert not rows["inbox"] and len(rows["triggers"]) == 2
    assert any(name.endswith("current.json") for name in contents(site.folder / "public"))
    assert "intact" in site.kfm("doctor", "--deep").out


def test_a_run_that_is_not_unfinished_cannot_be_resumed(tmp_path: Path, server: Server) -> None:
    site = site_of(tmp_path, server.port)
    run_id = json.loads(site.run("run", "gauges", "--json").answer.out)["receipts"][0]["run_id"]
    for name, words in ((run_id, f"run {run_id} is not unfinished"), ("nobody", "no run is called 'nobody'")):
        argv = [node(), str(ROOT / "node/tests/resuming.mjs"), "kfm.yml", name]
        done = subprocess.run(argv, cwd=site.folder, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert words in done.stderr
