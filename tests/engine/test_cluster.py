"""Steps on a Dask cluster: the same bytes, receipts and journal as with threads, whatever dies."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm.app.session.dask_pool import DaskPool
from kfm.errors import ClusterLost
from kfm.model.records import NONDET
from tests.engine.installations import Answer, Installation, command, environment
from tests.servers import dask_cluster, postgres, seaweed

pytest.importorskip("distributed", reason="the extra dask is not installed")
pytestmark = pytest.mark.xdist_group("dask")

UPDATERS = """
import os
import signal
import time
from pathlib import Path

from kfm import Output, Plan, Step, Updater

DONE = Path(__file__).parent / "done"  # who performed which step


class Halting(OSError):
    pass


class Base(Updater):
    version = "1.0.0"
    backoff_s = 0.01
    retries = 2
    retry_on = (Halting,)

    def inputs(self, trigger, sources):
        return [sources.pin(name) for name in sources.names()]

    def note(self, step):
        DONE.mkdir(exist_ok=True)
        (DONE / f"{os.getpid()}-{step.id}").touch()

    def first(self, name):
        try:
            (DONE / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Many(Base):
    def plan(self, inputs):
        parts = [Step(id=f"part-{n:02d}", key=("part", f"{n:02d}"), params={"n": n}) for n in range(24)]
        names = tuple(step.id for step in parts)
        return Plan([*parts, Step(id="pair", needs=names[:2]), Step(id="sum", key=("sum",), needs=(*names, "pair"))])

    def perform(self, step, read):
        self.note(step)
        if step.id == "pair":
            return Output.text("pair of " + " and ".join(read.text(name)[:10] for name in step.needs))
        if step.id == "sum":
            return Output.text(read.text("pair") + str(sum(len(read.bytes(name)) for name in step.needs)))
        n = step.params["n"]
        if n == 7 and self.first("halted"):
            raise Halting("not now")
        if n == 11 and os.environ.get("DIE_ONCE") and self.first("died"):
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("SLOW"):
            time.sleep(float(os.environ["SLOW"]))
        word = [row["word"] for row in read.csv("words")][n % 4]
        if n % 8 == 0:
            return Output((word.encode() * 1000 for _ in range(40)), "text/plain")  # large, as a stream
        if n % 8 == 1:
            return Output((word.encode() for _ in range(40)), "text/plain")  # small, as a stream
        if n % 8 == 2:
            return Output.text(word * 30_000)  # large
        if n % 8 == 3:
            return Output(word.encode(), "text/plain", bbox=(-102.0, 37.0, -94.6, 40.0))
        return Output.text(word * n)


class Keys(Base):
    def inputs(self, trigger, sources):
        return [sources.pin("many")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        self.note(step)
        sizes = {"/".join(key): len(read.bytes(("many", *key))) for key in read.keys("many")}
        return Output.json(sizes)


class Wrong(Base):
    def plan(self, inputs):
        return Plan([Step(id="wrong", key=("wrong",))])

    def perform(self, step, read):
        raise ValueError("no such luck")
"""
CONFIG = """\
accept_weak_storage: true
datasets:
  many:
    updater: updaters.py:Many
    title: Many
    license: CC0-1.0
    sensitivity: public
    sources:
      words: {uri: words.csv, format: csv, contract: {columns: [{name: word}]}}
  keys:
    updater: updaters.py:Keys
    title: Keys
    license: CC0-1.0
    sensitivity: public
    sources:
      many: {dataset: many, zone: processed}
  wrong:
    updater: updaters.py:Wrong
    title: Wrong
    license: CC0-1.0
    sensitivity: public
    sources:
      words: {uri: words.csv, format: csv, contract: {columns: [{name: word}]}}
"""
NOWHERE = {"KFM_EXECUTE__CLUSTER": "tcp://127.0.0.1:1"}


def laid_out(folder: Path) -> Installation:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kfm.yml").write_text(CONFIG)
    (folder / "updaters.py").write_text(UPDATERS)
    (folder / "words.csv").write_text("word\nprairie\nbluestem\ncottonwood\nmeadowlark\n")
    return Installation(folder)


def begin_again(site: Installation) -> None:
    for name in (".kfm", "public", "done"):
        shutil.rmtree(site.folder / name, ignore_errors=True)


def performers(site: Installation) -> set[str]:
    return {path.name.partition("-")[0] for path in (site.folder / "done").iterdir() if "-" in path.name}


def receipts(site: Installation) -> list[dict[str, Any]]:
    """Every receipt, without what two runs of the same work may say differently."""
    found = [json.loads(path.read_text()) for path in sorted((site.folder / ".kfm" / "receipts").rglob("*.json"))]
    return [{name: value for name, value in receipt.items() if name not in NONDET} for receipt in found]


def on(cluster: dask_cluster.Cluster) -> dict[str, str]:
    return {"KFM_EXECUTE__CLUSTER": cluster.address}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Installation, dask_cluster.Cluster]]:
    """An installation and a cluster for it, for all tests here that leave both whole."""
    folder = tmp_path_factory.mktemp("cluster")
    site = laid_out(folder / "site")
    with dask_cluster.running(site.folder / "kfm.yml", folder / "logs") as cluster:
        yield site, cluster


def test_a_cluster_makes_the_receipts_and_refs_that_threads_make(
    shared: tuple[Installation, dask_cluster.Cluster],
) -> None:
    site, cluster = shared
    found = []
    for env in ({}, on(cluster)):
        begin_again(site)
        site.kfm("run", "many", "keys", env=env)
        pids = {str(worker.pid) for worker in cluster.workers}
        assert (performers(site) <= pids) == bool(env), "the workers performed the steps of the second time alone"
        found.append((receipts(site), site.kfm("refs", "list").out, site.kfm("cat", "keys", "all").out))
    assert len(found[0][0]) == 2 and '"sum":' in found[0][2]
    assert found[0] == found[1]
    assert (site.folder / "done" / "halted").exists(), "a step failed once, and was tried again"


def test_an_error_of_a_step_reads_as_it_does_with_threads(shared: tuple[Installation, dask_cluster.Cluster]) -> None:
    site, cluster = shared
    said = []
    for env in ({}, on(cluster)):
        begin_again(site)
        answer = site.kfm("run", "wrong", env=env, expect=1)
        said.append(answer.err)
    assert "raised ValueError at updaters.py:" in said[0] and "no such luck" in said[0]
    assert said[0] == said[1]


def test_a_dry_run_stays_in_this_process_and_predicts_the_run(tmp_path: Path) -> None:
    site = laid_out(tmp_path)
    answer = site.kfm("run", "many", "--dry-run", "--verbose", env=NOWHERE)
    assert "steps.local" in answer.err and "a dry run" in answer.err
    assert not (site.folder / ".kfm").exists()
    predicted = site.kfm("run", "many", "--dry-run", "--json").data
    made = site.kfm("run", "many", "--json").data
    assert _version(predicted) == _version(made)


def _version(said: Any) -> Any:
    (receipt,) = said["receipts"]
    return {name: value for name, value in receipt.items() if name in ("outputs", "version", "plan_hash", "entries")}


@pytest.mark.long
def test_a_killed_worker_changes_nothing(tmp_path: Path) -> None:
    site = laid_out(tmp_path / "site")
    site.kfm("run", "many")
    plain = receipts(site), site.kfm("refs", "list").out
    begin_again(site)
    with dask_cluster.running(site.folder / "kfm.yml", tmp_path / "logs", env={"DIE_ONCE": "1"}) as cluster:
        site.kfm("run", "many", env=on(cluster))
        assert [worker.poll() for worker in cluster.workers].count(-signal.SIGKILL) == 1, "the fault fired"
        assert (site.folder / "done" / "died").exists()
    assert (receipts(site), site.kfm("refs", "list").out) == plain


@pytest.mark.long
def test_a_worker_with_other_code_or_settings_is_refused_in_one_line(tmp_path: Path) -> None:
    site = laid_out(tmp_path / "site")
    with dask_cluster.running(site.folder / "kfm.yml", tmp_path / "logs", workers=1) as cluster:
        site.kfm("run", "many", env=on(cluster))
        code = site.folder / "updaters.py"
        code.write_text(code.read_text().replace("word * n", "word * 2 * n").replace('"1.0.0"', '"1.0.1"'))
        answer = site.kfm("run", "many", env=on(cluster), expect=3)
        assert _one_line(answer, "other code of many than the plan")
        (site.folder / "kfm.yml").write_text(CONFIG.replace("title: Many", "title: More"))
        answer = site.kfm("run", "keys", env={**on(cluster), "KFM_DATASETS__KEYS__TITLE": "Other"}, expect=3)
        assert _one_line(answer, "other settings of keys than the plan")
        worker = cluster.workers.pop()
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        cluster.begin_worker()
        cluster.await_workers(2)
        site.kfm("run", "many", env=on(cluster))


def _one_line(answer: Answer, what: str) -> bool:
    (line,) = [line for line in answer.err.splitlines() if line.startswith("kfm:")]
    return what in line and "Traceback" not in answer.err


@pytest.mark.long
def test_a_run_whose_scheduler_died_is_resumed_elsewhere(tmp_path: Path) -> None:
    site = laid_out(tmp_path / "site")
    site.kfm("run", "many")
    plain = receipts(site), site.kfm("refs", "list").out
    begin_again(site)
    with dask_cluster.running(site.folder / "kfm.yml", tmp_path / "logs", env={"SLOW": "0.3"}) as cluster:
        begun = subprocess.Popen(
            command("run", "many"),
            cwd=site.folder,
            env={**environment(), **on(cluster)},
            stderr=subprocess.PIPE,
            text=True,
        )
        _await(lambda: len(performed(site)) >= 6)
        os.kill(cluster.scheduler.pid, signal.SIGKILL)
        _, err = begun.communicate(timeout=60)
        assert begun.returncode == 69 and "the connection was lost to the Dask scheduler" in err, err
        assert "Traceback" not in err
    done = performed(site)
    assert 6 <= len(done) < 20, "the scheduler died in the middle of the run"
    assert site.kfm("refs", "list").out != plain[1], "nothing was committed"
    with dask_cluster.running(site.folder / "kfm.yml", tmp_path / "more") as cluster:
        site.kfm("resume", env=on(cluster))
    assert (receipts(site), site.kfm("refs", "list").out) == plain


def performed(site: Installation) -> set[str]:
    folder = site.folder / "done"
    return {path.name.partition("-")[2] for path in folder.iterdir() if "-" in path.name} if folder.exists() else set()


@pytest.mark.long
def test_a_run_waits_for_a_worker_when_the_last_one_died(tmp_path: Path) -> None:
    site = laid_out(tmp_path / "site")
    with dask_cluster.running(site.folder / "kfm.yml", tmp_path / "logs", workers=1, env={"DIE_ONCE": "1"}) as cluster:

        def replace() -> None:
            cluster.workers[0].wait()
            cluster.begin_worker()

        watching = threading.Thread(target=replace)
        watching.start()
        site.kfm("run", "many", env=on(cluster))
        watching.join()
        assert cluster.workers[0].returncode == -signal.SIGKILL, "the fault fired"


@pytest.mark.long
def test_a_scheduler_that_is_not_there_leaves_the_run_open(tmp_path: Path) -> None:
    site = laid_out(tmp_path)
    answer = site.kfm("run", "many", env=NOWHERE, expect=69)
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in answer.err and "`kfm resume`" in answer.err
    site.kfm("resume")
    assert "processed/many" in site.kfm("refs", "list").out


def _await(what: Any) -> None:
    since = time.monotonic()
    while not what():
        assert time.monotonic() - since < 60
        time.sleep(0.02)


class _Future:
    """A future as Dask gives it: its answer is lost when the worker that holds it dies."""

    def __init__(self, status: str) -> None:
        self.status = status


class _Client:
    status = "running"

    def gather(self, futures: list[_Future]) -> list[bytes]:
        assert all(future.status == "finished" for future in futures)
        return [b"made"] * len(futures)


def test_an_answer_that_died_with_its_worker_is_awaited_again() -> None:
    pool: Any = DaskPool.__new__(DaskPool)
    pool._address, pool._patience_s, pool._silent_s, pool._gone = "tcp://127.0.0.1:1", 60.0, 0.0, []
    pool._client, pool._ready = _Client(), queue.SimpleQueue()
    future = _Future("lost")
    pool._futures = {"a": (7, future)}
    pool._ready.put("a")
    assert pool.answers(0) == [] and pool.answers(0) == []
    future.status = "finished"
    assert pool.answers(0) == [(7, b"made")]
    pool._futures = {"b": (8, _Future("cancelled"))}
    pool._ready.put("b")
    with pytest.raises(ClusterLost):
        pool.answers(0)


@pytest.mark.long
def test_with_servers_workers_need_no_file_of_the_run_but_its_code(tmp_path: Path) -> None:
    """The state in Postgres, the objects in a bucket, and the workers in a folder of their own."""
    with seaweed.running() as bucket, postgres.private() as server:
        settings = (
            f"state: postgresql://{postgres.USER}@127.0.0.1:{server.port}/postgres\n"
            "postgres: {password: 'env:KFM_SECRET_POSTGRES'}\n"
            f"objects: s3://{seaweed.KEPT}/cluster\n"
            f"s3: {{{seaweed.KEPT}: {{endpoint: '{bucket.endpoint}', access_key: 'env:KFM_SECRET_ACCESS', "
            "secret_key: 'env:KFM_SECRET_SECRET'}}\n"
            f"network: {{allow: ['{bucket.endpoint.partition('://')[2]}']}}\n"
        )
        secrets = {
            "KFM_SECRET_POSTGRES": postgres.PASSWORD,
            "KFM_SECRET_ACCESS": seaweed.ACCESS,
            "KFM_SECRET_SECRET": seaweed.SECRET,
        }
        site, there = laid_out(tmp_path / "site"), laid_out(tmp_path / "there")
        for one in (site, there):
            (one.folder / "kfm.yml").write_text(settings + CONFIG)
        (there.folder / "words.csv").unlink()
        with dask_cluster.running(there.folder / "kfm.yml", tmp_path / "logs", env=secrets) as cluster:
            env = {**secrets, **on(cluster)}
            site.kfm("run", "many", "keys", env=env)
            assert performers(there) <= {str(worker.pid) for worker in cluster.workers}
        made = site.kfm("refs", "list", env=secrets).out
    plain = laid_out(tmp_path / "plain")
    plain.kfm("run", "many", "keys")
    assert plain.kfm("refs", "list").out == made
