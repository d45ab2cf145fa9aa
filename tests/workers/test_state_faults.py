"""A worker whose state is a server: while that is gone, the worker waits and says so, and goes on afterwards."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.servers import postgres
from tests.workers.exposition import read
from tests.workers.site import Worker, add, begun, ends, lay_out, opened, until, worker

pytestmark = pytest.mark.long


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("STATE_PASSWORD", postgres.PASSWORD)
    with postgres.private(fsync=False) as cluster:
        yield cluster


def laid_out(tmp_path: Path, cluster: postgres.Cluster, *names: str) -> Path:
    folder = lay_out(tmp_path / "site", *names)
    said = (folder / "kfm.yml").read_text()
    state = (
        f"state: postgresql://{postgres.USER}@127.0.0.1:{cluster.port}/postgres\n"
        "postgres: {password: env:STATE_PASSWORD, wait_s: 1}"
    )
    (folder / "kfm.yml").write_text(said.replace("state: sqlite:.kfm/state.db", state))
    return folder


def asked(process: Worker, path: str) -> tuple[int, bytes]:
    until(lambda: "listening on" in process.said)
    port = process.said.partition(" port ")[2].split()[0]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read()


@pytest.mark.parametrize("concurrency", ["1", "2"])
def test_a_worker_waits_for_a_state_that_is_gone_and_goes_on(
    tmp_path: Path, cluster: postgres.Cluster, concurrency: str
) -> None:
    folder = laid_out(tmp_path, cluster, "one", "two")
    flags = ("--listen", "127.0.0.1:0", "--concurrency", concurrency, "--verbose")
    with worker(folder, *flags, KFM_LOG="jsonl") as process:
        with opened(folder) as session:
            ends(session, [add(session, "one")])
        until(lambda: asked(process, "/readyz")[0] == 200)
        cluster.stop()
        until(lambda: asked(process, "/readyz")[0] == 503)
        assert json.loads(asked(process, "/readyz")[1])["state"] is False
        assert asked(process, "/livez")[0] == 200
        assert read(asked(process, "/metrics")[1].decode())["kfm_state_up"].value() == 0
        until(lambda: "state.failed" in process.said)
        cluster.start()
        with opened(folder) as session:
            ends(session, [add(session, "two")])
        until(lambda: asked(process, "/readyz")[0] == 200)
        until(lambda: "state.answered" in process.said)
        assert process.stop() == 0
        assert postgres.PASSWORD not in process.said and "Traceback" not in process.said


def test_a_job_whose_state_is_gone_in_the_middle_is_done_once(tmp_path: Path, cluster: postgres.Cluster) -> None:
    folder = laid_out(tmp_path, cluster, "slow")
    with worker(folder) as process:
        with opened(folder) as session:
            slow = add(session, "slow")
        until(lambda: begun(folder))
        cluster.restart()
        (folder / "may-end").touch()
        with opened(folder) as session:
            ends(session, [slow])
            receipts = [each for each in session.state.ledger.entries() if each.dataset == "slow"]
            until(lambda: (job := session.state.jobs.get(slow)) is not None and job.status == "ended")
        assert len(receipts) == 1
        assert process.stop() == 0


def test_a_worker_whose_state_does_not_answer_at_the_start_says_so_in_one_line(
    tmp_path: Path, cluster: postgres.Cluster
) -> None:
    folder = laid_out(tmp_path, cluster, "one")
    cluster.stop()
    with worker(folder) as process:
        assert process.process.wait(120) == 69
        assert len(process.said.splitlines()) == 1
    cluster.start()
    said = (folder / "kfm.yml").read_text()
    (folder / "kfm.yml").write_text(said.replace(f"{postgres.USER}@", "nobody@"))
    with worker(folder) as process:
        assert process.process.wait(120) in (3, 4)
        assert len(process.said.splitlines()) == 1 and postgres.PASSWORD not in process.said
