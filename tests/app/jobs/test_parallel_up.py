"""`kfm up` with several due datasets: they are polled and run at the same time, each once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.app.jobs.hosts import Hosts, begun, dataset, hosts, installation, kfm, rows


def several(folder: Path, server: Hosts, *more: str) -> Path:
    text = ""
    for n in range(4):
        server.bodies[f"/{n}.csv"] = rows(n)
        text += dataset(f"d{n}", f"http://127.0.0.{n + 1}:{server.port}/{n}.csv")
    return installation(folder, server, text, *more)


def committed(site: Path) -> Counter[str]:
    """How many runs of each dataset made something."""
    said = kfm(site, "runs", "list", "--json").data
    return Counter(each["dataset"] for each in said if each["outcome"] == "done" and each["dataset"] != "global")


def test_up_polls_and_runs_due_datasets_at_once(tmp_path: Path) -> None:
    with hosts(4) as server:
        site = several(tmp_path, server)
        server.together = 4
        done = kfm(site, "up", "--once", "--json")
        assert done.code == 0, done.err
        assert (server.most, server.most_of_host) == (4, 1)
        ended = [json.loads(line)["dataset"] for line in done.out.splitlines()]
        assert sorted(ended) == ["d0", "d1", "d2", "d3"]


def test_up_runs_waiting_triggers_at_once(tmp_path: Path) -> None:
    with hosts(4) as server:
        site = several(tmp_path, server, "watch: {poll_s: 0}")
        assert kfm(site, "freeze").code == 0
        assert kfm(site, "run", "--quiet").code != 0
        assert kfm(site, "thaw").code == 0
        server.most = server.most_of_host = 0
        server.together = 4
        done = kfm(site, "up", "--once", "--jobs", "4", "--quiet")
        assert done.code == 0, done.err
        assert (server.most, server.most_of_host) == (4, 1)
        assert committed(site) == {f"d{n}": 1 for n in range(4)}


@pytest.mark.long
def test_a_manual_run_next_to_up_makes_nothing_twice(tmp_path: Path) -> None:
    with hosts(4) as server:
        site = several(tmp_path, server)
        server.held = set(server.bodies)
        up = begun(site, "up", "--once", "--jobs", "4", "--quiet")
        server.wait_until(4)
        run = begun(site, "run", "--jobs", "4", "--quiet")
        server.wait_until(8)
        server.release()
        said = [each.communicate(timeout=60)[1] for each in (up, run)]
        assert "Traceback" not in "".join(said)
        assert kfm(site, "run", "--quiet").code == 0
        assert committed(site) == {f"d{n}": 1 for n in range(4)}
