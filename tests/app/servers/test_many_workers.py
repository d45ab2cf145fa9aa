"""Many workers, many jobs, and somebody who kills: in the end every job has one end and one receipt.

`TESTED_JOBS` and `TESTED_WORKERS` say how many; 4,000 jobs and 24 workers by default, which two cores do within a
part of the long suite. `TESTED_JOBS=20000` takes a machine of its own.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm.app.jobs.job_requests import enqueue, new_envelope
from kfm.app.session.session import Session, open_session
from kfm.config import load
from tests.app.servers.sites import Site
from tests.servers.redis import RedisServer, redis_server

JOBS, WORKERS = int(os.environ.get("TESTED_JOBS", "4000")), int(os.environ.get("TESTED_WORKERS", "24"))
DATASETS = 50
PAUSE_S = 5.0  # between two kills
PATIENCE_S = 3000.0  # a slow machine is no failure
ONE = """\
  rain-{n}:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    sources: {{rain: {{uri: "{source}", format: csv}}}}
    outputs: {{rain: {{from: rain}}}}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Site]:
    def make(queue: str) -> Site:
        made = Site(tmp_path / "site", queue=queue)
        head = made.config.partition("datasets:\n")[0].replace("publish:", "# publish:")
        made.config = (
            head + "publish: noop\ndatasets:\n" + "".join(ONE.format(n=n, source="rain.csv") for n in range(DATASETS))
        )
        made.write()
        for name, value in made.environment.items():
            if name.startswith("KFM_SECRET_"):
                monkeypatch.setenv(name, value)
        return made

    return make


def opened(site: Site, mode: Any = "write") -> Session:
    return open_session(load(str(site.folder / "kfm.yml"), {}), mode=mode)


def request(site: Site, number: int) -> list[str]:
    """Enqueue this many jobs; return their ids."""
    found = []
    with opened(site) as session:
        for n in range(number):
            envelope = new_envelope(
                session, "ingest.pull_source", f"rain-{n % DATASETS}", requested_by=f"user:number-{n}"
            )
            found.append(enqueue(session, envelope).job.trigger.trigger_id)
    return found


class Killer:
    """Kills a worker or the broker now and then, and puts another one in its place."""

    def __init__(self, site: Site, redis: RedisServer, workers: int) -> None:
        self._site = site
        self._redis = redis
        self._random = random.Random(28)
        self._numbers = itertools.count()
        self._workers = [self._begun() for _ in range(workers)]
        self.killed = Counter[str]()

    def _begun(self) -> tuple[subprocess.Popen[str], Path]:
        log = self._site.folder / f"worker-{next(self._numbers)}.log"
        return self._site.begun("workers", "run", "--concurrency", "1", log=log), log

    def look(self) -> None:
        """Fail if a worker ended by itself."""
        for worker, log in self._workers:
            assert worker.poll() is None, (worker.returncode, log.read_text()[-2000:])

    def strike(self) -> None:
        if self._random.random() < 0.2:
            self._redis.restart()
            self.killed["broker"] += 1
            return
        at = self._random.randrange(len(self._workers))
        self._workers[at][0].send_signal(signal.SIGKILL)
        self._workers[at][0].wait()
        self._workers[at] = self._begun()
        self.killed["workers"] += 1

    def end(self) -> None:
        """Let all workers drain. One that is not ready yet may simply end."""
        ready = ["worker: ready" in log.read_text() for _, log in self._workers]
        for worker, _ in self._workers:
            worker.send_signal(signal.SIGTERM)
        for (worker, log), was_ready in zip(self._workers, ready, strict=True):
            worker.wait(timeout=120)
            assert worker.returncode == 0 or not was_ready, (worker.returncode, log.read_text()[-2000:])


@pytest.mark.long
def test_every_job_has_one_end_and_one_receipt_whatever_is_killed(
    site: Callable[[str], Site], tmp_path: Path, count: Any
) -> None:
    with redis_server(tmp_path / "redis") as redis:
        here = site(redis.url)
        wanted = request(here, JOBS)
        killer = Killer(here, redis, WORKERS)
        until, strike_at = time.monotonic() + PATIENCE_S, time.monotonic() + PAUSE_S
        while True:
            time.sleep(2)
            with opened(here, "read") as session:
                left = sum(1 for _ in session.state.inbox.waiting())
            if not left:
                break
            killer.look()
            assert time.monotonic() < until, f"{left} jobs are left"
            if time.monotonic() > strike_at:  # a worker must have time to begin
                killer.strike()
                strike_at = time.monotonic() + PAUSE_S
        killer.end()
    assert killer.killed["workers"] and killer.killed["broker"], killer.killed
    with opened(here, "read") as session:
        ended = {trigger_id: session.state.inbox.ended(trigger_id) for trigger_id in wanted}
        receipts = [session.state.ledger.receipt(each.run_id) for each in ended.values() if each is not None]
        assert len(set(wanted)) == len(receipts) == JOBS
        assert {receipt.outcome for receipt in receipts if receipt} <= {"done", "noop", "unchanged", "merged"}
        assert not list(session.state.jobs.dead())
        made = [
            entry for entry in session.state.ledger.entries() if entry.op_type == "ingest" and entry.outcome == "done"
        ]
        assert Counter(entry.dataset for entry in made) == {f"rain-{n}": 1 for n in range(DATASETS)}
    count("jobs with one end each", JOBS)
    count("workers and brokers killed", killer.killed.total())
