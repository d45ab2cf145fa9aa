"""The Node runner alone: what it refuses, how it stops, which locks it waits for, and which runs it resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm import __version__, config
from kfm.app.session.session import open_session
from kfm.clock import FixedClock
from kfm.store.process_identity import holder_is_dead, this_process
from tests.engine.installations import Server, environment, serving
from tests.node.sites import Site, command, rows_of
from tests.node.test_alternating import CONFIG as MANY
from tests.node.test_alternating import gauges
from tests.node.test_twins import GAUGES, WEEK, files_of


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"week.geojson": WEEK}) as server:
        yield server


def site_of(folder: Path, port: int) -> Site:
    return Site(folder / "site", files_of("sqlite", port), lambda _n: "node")


def test_both_runners_are_of_one_version() -> None:
    done = subprocess.run(command("node", "--version"), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"kfm {__version__}\n"


def test_python_code_is_refused_with_a_sentence_and_the_rest_is_run(tmp_path: Path, server: Server) -> None:
    site = site_of(tmp_path, server.port)
    more = "  coded:\n    updater: updaters/coded.py:Coded\n"
    text = (site.folder / "kfm.yml").read_text()
    assert "\ndatasets:\n" in text
    site.put("kfm.yml", text.replace("\ndatasets:\n", f"\ndatasets:\n{more}"))
    answer = site.node("run")
    assert answer.code == 3
    assert (
        "kfm: coded: dataset coded is updated by Python code, which this runner does not run; run it with "
        "`python -m updater run coded`, or declare `outputs` instead\n"
    ) in answer.err
    assert answer.out.count("SUCCESS") == 2


def test_a_stopped_runner_frees_the_lease_and_leaves_the_run_to_be_resumed(tmp_path: Path) -> None:
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
    with open_session(resolved, clock=FixedClock(1_767_593_228_000)) as session:
        lease = session.state.leases.acquire("gauges/gauges", this_process(), 60_000)
    answers = [site.node("run", "gauges"), site.python("run", "gauges")]
    assert answers[0] == answers[1]
    assert answers[0].code == 6
    assert "another worker is at work on gauges (its lease ends in 60 s)" in answers[0].err
    with open_session(resolved, clock=FixedClock(1_767_593_228_000)) as session:
        session.state.leases.release(lease)
    assert site.node("run", "gauges").code == 0


def test_a_worker_that_is_known_to_be_dead_is_not(tmp_path: Path, server: Server) -> None:
    site = site_of(tmp_path, server.port)
    child = subprocess.Popen(["sleep", "100"])
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    holder = f"{os.uname().nodename}:{child.pid}:{fields[19]}"
    resolved = config.load(str(site.folder / "kfm.yml"), {})
    with open_session(resolved, clock=FixedClock(1_767_593_228_000)) as session:
        session.state.leases.acquire("gauges/gauges", holder, 60_000)
    assert site.node("run", "gauges").code == 6
    child.kill()
    child.wait()
    assert site.node("run", "gauges").code == 0


def test_a_dataset_that_is_not_plainly_public_is_refused_and_the_rest_is_run(tmp_path: Path, server: Server) -> None:
    for number, said in enumerate(("    sensitivity: restricted\n", "")):
        site = Site(tmp_path / str(number), files_of("sqlite", server.port), lambda _n: "node")
        text = (site.folder / "kfm.yml").read_text()
        at = text.index("  quakes:")
        site.put("kfm.yml", text[:at] + text[at:].replace("    sensitivity: public\n", said))
        answer = site.node("run")
        assert answer.code == 3
        assert "kfm: quakes: dataset quakes is not declared public, and this runner runs no other; " in answer.err
        assert answer.out.count("SUCCESS") == 1
        assert not [row for row in rows_of(site.folder)["receipts"].values() if b"quakes" in row]
        assert site.python("run", "quakes").code == 0


def test_another_plan_under_the_same_version_is_refused_by_both(tmp_path: Path, server: Server) -> None:
    """Python tells how it changed, Node where to look: of the refusal only code and exit code are the same."""
    codes = []
    for number, runner in enumerate(("python", "node")):
        site = Site(tmp_path / str(number), files_of("sqlite", server.port), lambda _n, runner=runner: runner)
        site.run("run", "gauges")
        before = rows_of(site.folder)["refs"]
        text = (site.folder / "kfm.yml").read_text()
        site.put("kfm.yml", text.replace("select: [gauge, county, rain_mm]", "select: [gauge, county]"))
        for words in ([], ["--force", "--reason", "look"]):
            told = json.loads(site.run("run", "gauges", "--json", *words, code=3).answer.out)
            codes.append([error["code"] for receipt in told["receipts"] for error in receipt["errors"]])
        assert rows_of(site.folder)["refs"] == before
    assert codes == [["plan.changed"]] * 4


def test_what_a_freeze_kept_is_left_to_python(tmp_path: Path, server: Server) -> None:
    site = site_of(tmp_path, server.port)
    site.run("run", "gauges")
    site.kfm("freeze", "gauges")
    site.kfm("promote", "gauges", code=5)
    site.run("run", "gauges", code=5)
    site.kfm("thaw", "gauges")
    site.put("data/gauges.csv", GAUGES + "e,ford,5\n")
    site.run("run", "gauges")
    assert "kfm-promote" in str(rows_of(site.folder)["inbox"])
    site.kfm("resume")
    assert not rows_of(site.folder)["inbox"]


@pytest.mark.parametrize("words", [["promote", "gauges"], ["rollback", "gauges"], ["freeze"], ["resume"], ["watch"]])
def test_what_only_python_does_is_refused_with_one_sentence(tmp_path: Path, server: Server, words: list[str]) -> None:
    site = site_of(tmp_path, server.port)
    answers = [site.node(*words), site.python(*words)]
    assert [(answer.code, answer.out, answer.err.count("\n")) for answer in answers] == [(2, "", 1)] * 2
    assert not (site.folder / ".kfm").exists()


@pytest.mark.parametrize("said", ["pool: api", "promote: auto"])
def test_what_asks_for_more_than_a_run_is_refused_and_the_rest_is_run(
    tmp_path: Path, server: Server, said: str
) -> None:
    site = Site(tmp_path / "site", files_of("sqlite", server.port), lambda _n: "node")
    text = (site.folder / "kfm.yml").read_text()
    at = text.index("  quakes:")
    pooled = text[at:].replace("    sensitivity: public\n", f"    sensitivity: public\n    {said}\n")
    site.put("kfm.yml", text[:at] + pooled + "\npools: {api: 1}\n")
    answer = site.node("run")
    assert answer.code == 3 and said.partition(" api")[0].rstrip(":") in answer.err
    assert answer.out.count("SUCCESS") == 1
    assert site.python("run", "quakes").code == (4 if said == "promote: auto" else 0)  # it has no licence
