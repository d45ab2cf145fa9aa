"""What other processes change while several datasets are at work."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kfm.errors import Conflict
from tests.app.jobs.hosts import PATIENCE_S, Hosts, begun, dataset, hosts, installation, kfm, rows

LABEL = "version: 1\nlabels:\n  - {of: {dataset: d1}, sensitivity: restricted, care: open}\n"


def site_of(folder: Path, server: Hosts, *more: str) -> Path:
    at = f"http://127.0.0.%d:{server.port}"
    server.bodies = {f"/{n}.csv": rows(n) for n in range(6)}
    text = "".join(dataset(f"d{n}", f"{at % (n + 1)}/{n}.csv", "promote: auto") for n in range(6))
    return installation(folder, server, text, "publish: file:public", *more)


def ended(run: subprocess.Popen[str]) -> tuple[int, str, list[tuple[str, str]]]:
    out, err = run.communicate(timeout=60)
    assert "Traceback" not in err
    return run.returncode, err, [(each["dataset"], each["outcome"]) for each in json.loads(out)["receipts"]]


def public(site: Path) -> list[str]:
    return sorted({path.parent.parent.parent.name for path in site.glob("public/datasets/*/versions/*/*.csv")})


def test_a_label_that_is_tightened_meanwhile_counts_for_every_dataset_that_has_not_ended(tmp_path: Path) -> None:
    with hosts(6) as server:
        site = site_of(tmp_path, server, "labels: labels.yml")
        (site / "labels.yml").write_text("version: 1\n")
        server.held = {"/0.csv", "/1.csv"}
        run = begun(site, "run", "--jobs", "4", "--json")
        server.wait_until(2)
        with server.news:
            assert server.news.wait_for(lambda: len(server.asked) == 4, PATIENCE_S)
        (site / "labels.yml").write_text(LABEL)
        server.release()
        code, err, _ = ended(run)
        assert code != 0 and "d1: the labels changed during the run; run it again" in err
        assert "d1" not in public(site)
        again = kfm(site, "run", "--jobs", "4", "--quiet")
        assert again.code == 4 and "a source of d1 is restricted" in again.err
        assert public(site) == ["d0", "d2", "d3", "d4", "d5"]


@pytest.mark.long
def test_a_freeze_meanwhile_stops_every_job_and_nothing_becomes_public(tmp_path: Path) -> None:
    with hosts(6) as server:
        site = site_of(tmp_path, server)
        server.held = set(server.bodies)
        run = begun(site, "run", "--jobs", "4", "--json")
        server.wait_until(4)
        assert kfm(site, "freeze", "--reason", "look").code == 0
        server.release()
        assert ended(run)[::2] == (5, [(f"d{n}", "frozen") for n in range(6)])
        assert public(site) == []
        assert kfm(site, "thaw", "--reason", "seen").code == 0
        assert kfm(site, "run", "--jobs", "4", "--quiet").code == 0
        assert len(public(site)) == 6


@pytest.mark.long
def test_two_processes_with_jobs_commit_each_version_once(tmp_path: Path) -> None:
    with hosts(6) as server:
        site = site_of(tmp_path, server)
        server.held = set(server.bodies)
        runs = [begun(site, "run", "--jobs", "6", "--json") for _ in range(2)]
        server.wait_until(12)
        server.release()
        answers = [ended(run) for run in runs]
        for code, err, _ in answers:  # a process that meets the other one at a dataset says so
            assert code == (Conflict.exit_code if "another worker is at work" in err else 0), err
        done = sorted(name for _, _, found in answers for name, outcome in found if outcome == "done")
        assert done == sorted(2 * [f"d{n}" for n in range(6)])  # a run and a promotion each
        assert len(public(site)) == 6
