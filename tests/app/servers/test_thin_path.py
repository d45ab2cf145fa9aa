"""A job goes through everything real: enqueued in one process, woken through Redis, worked in a second with its state
in Postgres and its bytes in S3, published to S3, and its receipt read in a third. The worker is killed in the middle,
and at every boundary."""

from __future__ import annotations

import contextlib
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


class Held:
    """A web server with one file, which it promises and does not send while it is held."""

    def __init__(self) -> None:
        self.asked, self.let_go = threading.Event(), threading.Event()
        outer, body = self, b"station\nKS-01\n"

        class Handler(_Quiet):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/csv")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                outer.asked.set()
                outer.let_go.wait()
                with contextlib.suppress(OSError):  # whoever asked was killed
                    self.wfile.write(body)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/late.csv"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()


def read_elsewhere(site: Site, folder: Path, *key: str) -> dict[str, Any]:
    """What a third process on another machine says of the job's end, by Postgres and S3 alone."""
    other = site.copied(folder)
    (run,) = [one for one in other.said("runs", "list") if one["op"] == "ingest"]
    receipt: dict[str, Any] = other.said("runs", "receipt", run["run"])
    assert receipt["status"] == "SUCCESS"
    assert "station,inches\nKS-00000,0.0\n" in other.typed("cat", "rain", *key)
    return receipt


def check_bucket(site: Site, receipt: dict[str, Any], files: int = 1) -> None:
    """The bucket has each thing once: the object, the public file, the pointer, and the receipt at the seed's path."""
    names = site.names()
    day = receipt["started_at"][:10].replace("-", "/")
    assert names.count(f"objects/receipts/ingest.pull_source/{day}/{receipt['run_id']}.json") == 1
    assert len([name for name in names if name.startswith("objects/receipts/ingest.pull_source/")]) == 1
    assert "public/datasets/rain/current.json" in names
    assert len([name for name in names if name.endswith(".csv")]) == files
    assert not [name for name in names if "receipts" in name and name.startswith("public/")]


def test_a_job_goes_through_redis_postgres_and_s3_although_its_worker_is_killed(
    seaweed: Seaweed, source: str, tmp_path: Path
) -> None:
    with redis_server(tmp_path / "redis") as redis, Held() as held:
        site = Site(tmp_path / "one", store=seaweed.endpoint, queue=redis.url, source=source, promote="auto")
        # A second source, which is fetched after the first one.
        late = f"{{uri: '{held.address}', format: csv, contract: {{columns: [{{name: station}}]}}}}"
        late = f"      zz_late: {late}\n    outputs:\n      late: {{from: zz_late}}"
        site.config = site.config.replace("    outputs:", late).replace(
            "allow: [", f"allow: ['{held.address.split('/')[2]}', "
        )
        site.write()
        job = site.typed(*JOB).splitlines()[0]
        second = site.copied(tmp_path / "two")
        worker = second.begun("workers", "run", "--concurrency", "1")
        while not held.asked.wait(1):  # it cannot end before the server lets go
            assert worker.poll() is None, worker.communicate()[0]
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        held.let_go.set()
        assert site.names("objects/sha256"), "the first source lies in the bucket"
        assert site.said("jobs", "show", job)["job"]["attempts"] == 1
        before = [one["status"] for one in site.said("runs", "list")]
        worker = second.begun("workers", "run", "--concurrency", "1")  # it waits for the end of the dead one's lease
        while site.said("jobs", "show", job)["job"]["state"] != "ended":
            assert worker.poll() is None, worker.communicate()[0]
        worker.send_signal(signal.SIGTERM)
        said, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0, said
        receipt = read_elsewhere(site, tmp_path / "three", "rain")
        check_bucket(site, receipt, files=2)
        assert "SUCCESS" not in before, "the worker had ended before it was killed"
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
        while worker.turn() is not None or worker.depth().waiting:
            time.sleep(0.05)  # the job of a dead worker is tried again after a pause
    return boundaries.names


@pytest.mark.parametrize("share", sampling.sampled(range(12), 1))
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
    for at in numbers[share::12]:
        site = Site(tmp_path / f"site-{at}", store=seaweed.endpoint, source=source, promote="auto")
        secrets(site)
        site.typed(*JOB)
        try:
            in_child(lambda site=site, at=at: work(site, at))  # type: ignore[misc]
        except ChildKilled:
            kills += 1
        in_child(lambda site=site: work(site))  # type: ignore[misc]
        receipt = read_elsewhere(site, tmp_path / f"reader-{at}")
        check_bucket(site, receipt)
        assert not site.said("jobs", "list"), boundaries[at - 1]
    assert kills >= len(numbers[share::12]) - 1, "only the very last boundary may be missing in another run"
    count("workers killed between Postgres and S3", kills)
