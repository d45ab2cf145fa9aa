"""Small behaviour of the command line, in both languages where both have it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kfm import config
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import open_session
from kfm.clock import FixedClock
from kfm.store.process_identity import holder_is_dead, is_held, this_process
from tests.abilities import lacking
from tests.api import door
from tests.cli.conftest import Kfm
from tests.node.sites import command, declared
from tests.node.twin import ROOT, node
from tests.sampling import sampled

RUNNERS = ("python", "node")


def small(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "kfm.yml").write_text(declared(*names or ("wells",)))
    for name in names or ("wells",):
        (folder / f"{name}.csv").write_text("id,mm\n1,2\n")
    return folder


def typed(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KFM_", "SUDO_"))}
    return subprocess.run(
        list(words), cwd=folder, env={**inherited, **env}, capture_output=True, text=True, timeout=120, check=False
    )


def kfm_in(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return typed(folder, sys.executable, "-m", "kfm", *words, **env)


# -- triggers that wait


@pytest.mark.parametrize("runner", RUNNERS)
def test_three_frozen_runs_keep_one_trigger_and_resume_does_it_once(tmp_path: Path, runner: str) -> None:
    site = small(tmp_path / "site")
    assert kfm_in(site, "freeze").returncode == 0
    for _ in range(3):
        assert typed(site, *command(runner, "run", "wells")).returncode == 5
    assert len(json.loads(kfm_in(site, "--json", "triggers", "list").stdout)) == 1
    forced = command(runner, "run", "wells", "--force", "--reason", "again")
    assert typed(site, *forced).returncode == 5
    assert len(json.loads(kfm_in(site, "--json", "triggers", "list").stdout)) == 2, "another order is another trigger"
    assert kfm_in(site, "thaw", "--reason", "go").returncode == 0
    receipts = json.loads(kfm_in(site, "--json", "resume").stdout)["receipts"]
    assert sorted(receipt["outcome"] for receipt in receipts) in (["done", "done"], ["done", "unchanged"])
    assert kfm_in(site, "resume").stderr.strip() == "nothing was left to resume"


def test_resume_says_what_it_delivered(tmp_path: Path) -> None:
    site = small(tmp_path / "site")
    assert kfm_in(site, "run").returncode == 0
    (site / "public").write_text("in the way")
    blocked = kfm_in(site, "promote", "wells", "--reason", "first")
    assert blocked.returncode == 74 and "committed, but not delivered yet" in blocked.stderr, "the fault fired"
    (site / "public").unlink()
    done = kfm_in(site, "resume")
    assert done.returncode == 0
    assert "nothing was left" not in done.stderr and "delivered" in done.stderr
    assert "datasets/wells/current.json" in done.stdout


def test_a_predicted_rollback_separates_files_that_are_there_from_files_it_would_write(tmp_path: Path) -> None:
    site = small(tmp_path / "site")
    settings = 'publish_retention: 5\npages: false\ncatalog: ""\n'
    (site / "kfm.yml").write_text(settings + (site / "kfm.yml").read_text())
    for value in ("2", "3"):
        (site / "wells.csv").write_text(f"id,mm\n1,{value}\n")
        assert kfm_in(site, "run").returncode == 0
        assert kfm_in(site, "promote", "wells", "--reason", value).returncode == 0
    told = kfm_in(site, "rollback", "wells", "--dry-run")
    assert told.returncode == 0, told
    would, _, there = told.stdout.partition("IS THERE ALREADY")
    assert there.count("write_file") == 2 and "versions/" in there
    writes = [line.split() for line in would.partition("WOULD WRITE")[2].splitlines()]
    assert not any("versions/" in line[0] and line[1] == "write_file" for line in writes if len(line) > 1)
    assert "datasets/wells/current.json" in would
    for path in (site / "public").rglob("versions/*/*"):
        path.unlink()
    told = kfm_in(site, "rollback", "wells", "--dry-run")
    assert "versions/" in told.stdout.partition("WOULD WRITE")[2].partition("IS THERE")[0], (
        "what is gone would be written"
    )


# -- watching


@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGINT]))
def test_an_idle_watch_ends_with_zero_when_it_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    site = small(tmp_path / "site")
    process = subprocess.Popen(
        [sys.executable, "-m", "kfm", "triggers", "watch"],
        cwd=site,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "SUCCESS" in line, "it has done its work and waits"
    time.sleep(0.3)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert "Traceback" not in told and "stopped" in told


SLOW = """
import time
from kfm import Output, Plan, Step, Updater


class Slow(Updater):
    id = "slow"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("wells")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        open("begun", "w").close()
        time.sleep(60)
        return Output.text("x")
"""


def test_a_watch_that_is_stopped_at_work_says_so(tmp_path: Path) -> None:
    site = small(tmp_path / "site")
    (site / "slow.py").write_text(SLOW)
    (site / "kfm.yml").write_text(
        "accept_weak_storage: true\ndatasets: {slow: {updater: 'slow.py:Slow', sources: {wells: {uri: wells.csv}}}}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "kfm", "triggers", "watch"],
        cwd=site,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        if (site / "begun").exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143 and "left resumable" in told


# -- the configuration


def test_the_format_of_a_source_is_shown_as_it_is_used(started: Kfm) -> None:
    shown = started("--json", "config", "show", "--resolved").data["settings"]
    formats = {key: said for key, said in shown.items() if key.endswith(".format")}
    assert len(formats) == 2 and {said["value"] for said in formats.values()} == {"csv"}
    assert {said["origin"] for said in formats.values()} == {"file"}


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("whose", sampled(["file", "folder"]))
def test_a_configuration_above_of_another_owner_is_not_used(tmp_path: Path, runner: str, whose: str) -> None:
    if os.geteuid() != 0:
        lacking("only root can give a file away")
    site = small(tmp_path / "site")
    below = site / "below"
    below.mkdir()
    words = command(runner, "run", "--dry-run")
    assert typed(below, *words).returncode == 0
    os.chown(site / "kfm.yml" if whose == "file" else site, 12345, -1)
    refused = typed(below, *words)
    assert refused.returncode == 3
    assert "../kfm.yml, in a folder above, belongs to another user; " in refused.stderr and "--config" in refused.stderr
    assert typed(below, *words, "--config", "../kfm.yml").returncode == 0, "named, it is meant"
    assert typed(below, *words, SUDO_UID="12345").returncode == 0
    assert typed(site, *words).returncode == 0, "and here one sees it"


# -- webhooks


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("apart", [True, False])
def test_a_request_with_three_headers_is_verified_however_they_are_given(
    tmp_path: Path, runner: str, apart: bool
) -> None:
    site = door.installation(tmp_path)
    (site / "body").write_text('{"type":"stations.changed"}')
    env = door.environment()
    signed = kfm_in(site, "webhook", "sign", "std", "--body", "body", **env)
    lines = signed.stdout.splitlines()
    assert len(lines) == 3, signed
    given = [word for line in lines for word in ("--header", line)] if apart else ["--header", signed.stdout]
    verified = typed(site, *command(runner, "webhook", "verify", "std", "--body", "body", *given), **env)
    assert verified.returncode == 0, verified


# From a process of its own: a lock keeps nobody out who is in the process that has it.
PROBE = """
import sqlite3

other = sqlite3.connect(".kfm/state.db", timeout=0, isolation_level=None)
try:
    other.execute("BEGIN IMMEDIATE")
    said = "free"
except sqlite3.OperationalError:
    said = "locked"
with open("probed", "a") as file:
    file.write(said + "\\n")
"""
PROBING = f"""
import subprocess
import sys

subprocess.run([sys.executable, "-c", {PROBE!r}], check=True)
"""


def test_what_authors_wrote_is_loaded_outside_the_write_transaction(tmp_path: Path) -> None:
    site = door.installation(tmp_path)
    env = door.environment()
    (site / "body").write_text('{"type":"stations.changed"}')
    assert kfm_in(site, "resume", **env).returncode == 0, "the state is there"
    signed = kfm_in(site, "webhook", "sign", "std", "--body", "body", **env).stdout
    (site / "wells.py").write_text(PROBING + (site / "wells.py").read_text())
    replayed = kfm_in(site, "webhook", "replay", "std", "--body", "body", "--header", signed, **env)
    assert replayed.returncode == 0 and "accepted: " in replayed.stdout, replayed
    assert kfm_in(site, "triggers", "watch", "--once", **env).returncode == 0
    said = (site / "probed").read_text().split()
    assert len(said) >= 2 and set(said) == {"free"}, said


# -- leases


def test_a_lease_from_before_the_clock_was_set_back_is_over_if_its_holder_is_not_seen(tmp_path: Path) -> None:
    clock = FixedClock(1_800_000_000_000)
    with open_session(config.load(str(small(tmp_path / "site") / "kfm.yml"), {}), clock=clock) as session:
        old = session.state.leases.acquire("wells/wells", "another-host:1:1", 60_000)
        assert is_held(old, clock.now_ms())
        clock.advance(-86_400_000)
        receipt = run_trigger(session, new_trigger(session, "wells"))
        assert receipt.outcome == "done"
        alive = session.state.leases.acquire("other", this_process(), 60_000)
        clock.advance(-86_400_000)
        assert is_held(alive, clock.now_ms()), "one that is seen at work keeps it"


def test_who_holds_a_lease_in_another_world_of_processes_is_not_called_dead() -> None:
    host, pid, start, namespace, boot = this_process().split(":")
    assert namespace and boot
    gone = f"{host}:{pid}:1"
    assert holder_is_dead(gone), "as it was written before"
    assert holder_is_dead(f"{gone}:{namespace}:{boot}")
    assert not holder_is_dead(f"{gone}:1:{boot}"), "its number may mean another process there"
    assert holder_is_dead(f"{host}:{pid}:{start}:{namespace}:00000000"), "the machine was started anew since"
    assert not holder_is_dead(f"elsewhere:{pid}:1:{namespace}:{boot}")


def test_a_live_worker_in_another_pid_namespace_keeps_its_lease() -> None:
    unshare = shutil.which("unshare")
    ask = "from kfm.store.process_identity import this_process as t; print(t(), flush=True); input()"
    words = [unshare or "", "--pid", "--fork", "--mount-proc", sys.executable, "-c", ask]
    if unshare is None or typed(ROOT, *words[:4], "true").returncode != 0:
        lacking("no namespaces here")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        holder = worker.stdout.readline().strip()
        assert holder.split(":")[1] == "1", "there it is the first"
        assert not holder_is_dead(holder)
        twin = "import { holderIsDead } from './node/store/state.mjs'; console.log(holderIsDead(process.argv[1]))"
        told = typed(ROOT, node(), "--input-type=module", "-e", twin, holder)
        assert told.stdout == "false\n", told
        worker.communicate("\n")


# -- what others may see


@pytest.mark.parametrize("runner", RUNNERS)
def test_with_an_open_umask_nothing_is_open_to_be_written_by_others(tmp_path: Path, runner: str) -> None:
    site = small(tmp_path / "site")
    steps = (
        [*command(runner, "run")],
        [sys.executable, "-m", "kfm", "promote", "wells", "--reason", "first"],
        [*command(runner, "run", "--force", "--reason", "again", "--artifacts", "artifacts")],
    )
    for words in steps:
        done = subprocess.run(words, cwd=site, umask=0, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done
    found = {path: stat.S_IMODE(path.lstat().st_mode) for top in (".kfm", "public", "artifacts")
             for path in [site / top, *(site / top).rglob("*")]}  # fmt: skip
    for path, mode in found.items():
        name = path.relative_to(site)
        if name.parts[0] == "public":
            assert mode == (0o755 if path.is_dir() else 0o644), (name, oct(mode))
        else:
            assert not mode & 0o077, (name, oct(mode))
    assert any(path.name == "current.json" for path in found)


# -- Node alone


@pytest.mark.parametrize("missing", ["all", "the compiled part"])
def test_node_without_its_packages_says_what_to_install(tmp_path: Path, missing: str) -> None:
    copy = tmp_path / "copy"
    left_out = shutil.ignore_patterns("node_modules" if missing == "all" else "*.node", "tests")
    shutil.copytree(ROOT / "node", copy / "node", ignore=left_out)
    shutil.copy(ROOT / "updater.mjs", copy)
    site = small(tmp_path / "site")
    done = typed(site, node(), str(copy / "updater.mjs"), "run")
    assert done.returncode == 69, done
    assert "the packages of the Node runner are not installed" in done.stderr and "npm ci" in done.stderr
    assert len(done.stderr.splitlines()) == 1
