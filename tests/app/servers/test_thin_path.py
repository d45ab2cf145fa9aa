"""A job goes through everything real: enqueued in one process, woken through Redis, worked in a second with its state
in Postgres and its bytes in S3, published to S3, and its receipt read in a third. The worker is killed in the middle,
and at every boundary."""

from __future__ import annotations

import functools
import http.server
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm.app.jobs.job_worker import JobWorker
from kfm.config import load
from kfm.testing.kills import Boundaries, ChildKilled, in_child, spread, trial_session
from tests import sampling
from tests.app.servers.sites import LARGE, Site
from tests.servers.redis import redis_server
from tests.servers.seaweed import Seaweed, seaweed

__all__ = ["seaweed"]

JOB = ("jobs", "enqueue", "ingest.pull_source", "--dataset", "kfm://dataset/rain")
pytestmark = pytest.mark.xdist_group("seaweed")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A web server with one file, which is no file of any worker."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "rain.csv").write_text("station,inches\n" + LARGE)
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/rain.csv"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_words: Any) -> None:
        pass


def read_elsewhere(site: Site, folder: Path) -> dict[str, Any]:
    """What a third process on another machine says of the job's end, by Postgres and S3 alone."""
    other = site.copied(folder)
    (run,) = [one for one in other.said("runs", "list") if one["op"] == "ingest"]
    receipt: dict[str, Any] = other.said("runs", "receipt", run["run"])
    assert receipt["status"] == "SUCCESS"
    assert "station,inches\nKS-00000,0.0\n" in other.typed("cat", "rain")
    return receipt


def check_bucket(site: Site, receipt: dict[str, Any]) -> None:
    """The bucket has each thing once: the object, the public file, the pointer, and the receipt at the seed's path."""
    names = site.names()
    day = receipt["started_at"][:10].replace("-", "/")
    assert names.count(f"objects/receipts/ingest.pull_source/{day}/{receipt['run_id']}.json") == 1
    assert len([name for name in names if name.startswith("objects/receipts/ingest.pull_source/")]) == 1
    assert "public/datasets/rain/current.json" in names
    assert len([name for name in names if name.endswith(".csv")]) == 1
    assert not [name for name in names if "receipts" in name and name.startswith("public/")]


def test_a_job_goes_through_redis_postgres_and_s3_although_its_worker_is_killed(
    seaweed: Seaweed, source: str, tmp_path: Path
) -> None:
    with redis_server(tmp_path / "redis") as redis:
        site = Site(tmp_path / "one", store=seaweed.endpoint, queue=redis.url, source=source, promote="auto")
        job = site.typed(*JOB).splitlines()[0]
        second = site.copied(tmp_path / "two")
        worker = second.begun("workers", "run", "--concurrency", "1")
        until = time.monotonic() + 60
        while not site.names("objects/sha256"):  # the source is fetched: the run is in the middle
            assert worker.poll() is None and time.monotonic() < until, worker.communicate()[0]
            time.sleep(0.005)
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        before = [one["status"] for one in site.said("runs", "list")]
        second.typed("run", "--once", module="workers")
        receipt = read_elsewhere(site, tmp_path / "three")
        check_bucket(site, receipt)
        assert before != ["SUCCESS", "SUCCESS"], "the worker had ended before it was killed"
        assert site.said("jobs", "show", job)["job"]["attempts"] == 2
        assert receipt["correlation_id"]


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Callable[[Site], None]:
    def give(site: Site) -> None:
        for name, value in site.environment.items():
            if name.startswith("KFM_SECRET_"):
                monkeypatch.setenv(name, value)

    return give


def work(site: Site, at: int = 0) -> list[str]:
    """Do what waits, in a process that kills itself at this boundary."""
    boundaries = Boundaries(at)
    with trial_session(load(str(site.folder / "kfm.yml"), {}), "write", None, boundaries) as session:
        for method in ("create", "upload", "replace"):
            boundaries.around(session.objects._bucket, method, f"{method} in the bucket")  # type: ignore[attr-defined]
        worker = JobWorker(session)
        while worker.turn() is not None or worker.depth().ready:
            pass
    return boundaries.names


@pytest.mark.parametrize("share", sampling.sampled(range(4), 1))
def test_a_worker_may_be_killed_at_every_boundary(
    share: int, seaweed: Seaweed, source: str, tmp_path: Path, secrets: Callable[[Site], None], count: Any
) -> None:
    calm = Site(tmp_path / "calm", store=seaweed.endpoint, source=source, promote="auto")
    secrets(calm)
    calm.typed(*JOB)
    boundaries = in_child(lambda: work(calm))
    check_bucket(calm, read_elsewhere(calm, tmp_path / "calm-reader"))
    assert len(boundaries) > 20
    numbers = spread(len(boundaries), len(boundaries) if sampling.everything else 8)
    kills = 0
    for at in numbers[share::4]:
        site = Site(tmp_path / f"site-{at}", store=seaweed.endpoint, source=source, promote="auto")
        secrets(site)
        site.typed(*JOB)
        with pytest.raises(ChildKilled):
            in_child(lambda site=site, at=at: work(site, at))  # type: ignore[misc]
        kills += 1
        in_child(lambda site=site: work(site))  # type: ignore[misc]
        receipt = read_elsewhere(site, tmp_path / f"reader-{at}")
        check_bucket(site, receipt)
        assert not site.said("jobs", "list"), boundaries[at - 1]
    count("workers killed between Postgres and S3", kills)
