"""After any history, what is said about jobs that no worker takes agrees with a model that only counts events."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kfm.app.jobs.job_queue import JobQueue, is_job
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.jobs.untaken_jobs import LEAST_MS, untaken_jobs
from kfm.app.runs.execution import operation_request, run_request, work
from kfm.app.session.session import Session
from kfm.clock import parse_instant
from tests.app.jobs_queue.queue_site import asked, lay_out, mood, opened
from tests.engine.installations import NOW, Installation
from tests.engine.test_working import Heard
from tests.sampling import sampled

NAMES = ("one", "two", "moody")
STEPS = (
    *("enqueue one", "enqueue two", "enqueue moody", "freeze one", "thaw one", "freeze all", "thaw all"),
    *("turn", "turn", "turn badly", "claim and die", "run one", "a moment", "a moment", "a while", "a long while"),
)
FIRST = ("enqueue one", "a while", "freeze one", "thaw one", "a moment", "a while", "claim and die", "a while", "turn")
HISTORIES = [list(FIRST), *(random.Random(seed).choices(STEPS, k=25) for seed in range(40))]
SENTENCE = re.compile(r"(\d+) jobs? waits? that a worker could do, and no worker has taken a job since (\S+)")


class Model:
    """Notes when a worker took a job, and since when a job could be taken without a pause."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.taken_ms = 0
        self.could_since: dict[str, int] = {}
        self.number = 0
        self.kinds: Counter[str] = Counter()

    @property
    def now_ms(self) -> int:
        return self.session.clock.now_ms()

    def step(self, step: str, folder: Path) -> None:
        session, (verb, _, about) = self.session, step.partition(" ")
        if verb == "enqueue":
            self.number += 1
            asked(session, about, by=f"user:number-{self.number}")
        elif verb in ("freeze", "thaw"):
            name = "global" if about == "all" else about
            work(session, [operation_request(verb, name, {}, actor="ann", reason="a test")], Heard())
        elif verb == "turn":
            mood(folder, "raise" if about else "well")
            worker = JobWorker(session)
            if worker.turn() is not None or worker.last is not None:
                self.taken_ms = self.now_ms
        elif verb == "claim":
            worker = JobWorker(session)
            if worker._next(None) is not None:
                self.taken_ms = self.now_ms
        elif verb == "run":
            work(session, [run_request(about)], Heard())
        else:
            for _ in range({"moment": 1, "while": 15, "long while": 100}[about]):
                session.clock.sleep(1)
                self.look()

    def look(self) -> None:
        """Note what a worker could take now, as a worker asks for it."""
        queue = JobQueue(self.session, None, (), lambda _about, _problem: None, enqueued_only=False)
        could = {trigger.trigger_id for trigger, _ in queue.candidates()}
        self.could_since = {each: self.could_since.get(each, self.now_ms) for each in could}

    def check(self) -> None:
        said = untaken_jobs(self.session)
        held = list(self.session.state.leases.below("job"))
        live = [lease for lease in held if lease.expires_ms > self.session.state.now_ms()]
        quiet_ms = self.now_ms - max(self.taken_ms, *(self.could_since.values() or [self.now_ms]))  # nothing changes
        if said is None:
            self.kinds["silence"] += 1
            assert live or quiet_ms < LEAST_MS + 2000, f"{len(self.could_since)} jobs wait for {quiet_ms} ms"
            return
        self.kinds["said"] += 1
        found = SENTENCE.fullmatch(said.what)
        assert found, said.what
        since_ms = parse_instant(found[2], "it")
        assert not live and int(found[1]) == len(self.could_since)
        assert self.taken_ms <= since_ms <= self.now_ms - LEAST_MS, "no worker took one since"
        assert min(self.could_since.values()) <= since_ms, "one could be taken all the time"
        assert said.command == "python -m workers run"


@pytest.mark.parametrize("number", sampled(range(len(HISTORIES)), keep=8))
def test_what_is_said_about_jobs_that_no_worker_takes_agrees_with_a_model(
    tmp_path: Path, number: int, count: Callable[..., None]
) -> None:
    folder = lay_out(tmp_path, *NAMES, head="queue: redis://127.0.0.1:1/0\n")
    with opened(folder) as session:
        session.state.on_kept = None  # nobody is rung
        model = Model(session)
        for at, step in enumerate(HISTORIES[number]):
            model.step(step, folder)
            model.look()
            try:
                model.check()
            except AssertionError as problem:
                raise AssertionError(f"after {', '.join(HISTORIES[number][: at + 1])}: {problem}") from None
        assert all(is_job(trigger) for trigger in session.state.inbox.waiting())
    count("sentences about jobs that no worker takes", model.kinds.total())
    if number == 0:
        assert model.kinds["said"] and model.kinds["silence"]


def test_without_a_queue_nothing_is_said(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        asked(session, "one")
        session.clock.sleep(3600)
        assert untaken_jobs(session) is None


def test_status_doctor_and_the_list_of_jobs_say_so_until_a_worker_comes(tmp_path: Path) -> None:
    site = Installation(lay_out(tmp_path, "one", head="queue: redis://127.0.0.1:1/0\naccept_weak_storage: true\n"))
    sentence = f"1 job waits that a worker could do, and no worker has taken a job since {NOW[:-1]}.000Z"
    soon, late = {"KFM_NOW": NOW.replace(":08Z", ":11Z")}, {"KFM_NOW": NOW.replace(":08Z", ":59Z")}
    site.kfm("jobs", "enqueue", "ingest.pull_source", "--dataset", "one")
    assert "no worker has taken" not in site.kfm("jobs", "list", env=soon).err
    assert f"{sentence}; start one: `python -m workers run`" in site.kfm("jobs", "list", env=late).err
    told = site.kfm("status", env=late).out
    assert f"doctor: queue.workers: {sentence}" in " ".join(told.split())
    assert "  python -m workers run  # no worker takes what waits" in told
    assert site.kfm("status", "--check", env=late, expect=3)
    assert re.search(rf"queue\.workers +bad +{sentence}", site.kfm("doctor", env=late, expect=3).out)
    site.kfm("freeze", env=soon)
    assert "no worker has taken" not in site.kfm("status", env=late).out, "it waits for the thaw"
    site.kfm("thaw", env=late)
    end = {"KFM_NOW": NOW.replace("06:07:08Z", "06:09:00Z")}
    assert "1 job waits" in site.kfm("status", env=end).out
    words = [sys.executable, "-m", "workers", "run", "--once"]
    subprocess.run(words, cwd=tmp_path, env={**os.environ, **end}, capture_output=True, check=True)
    assert "no worker" not in site.kfm("status", env=end).out
