"""A worker is killed at every boundary of its turn: its job is done once, and counted, by the next worker."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import kfm.app.jobs.job_worker
from kfm.app.jobs.job_worker import JobWorker
from kfm.store.index_check import differences
from tests.app.jobs_queue.queue_site import BEGIN_MS, asked, lay_out, mood, opened
from tests.crash.harness import Voice, answer_of, end
from tests.crash.harness import begin as forked
from tests.crash.points import Points, boundary, die, install
from tests.sampling import sampled

SLICES = 37
LEASE_MS = 120_000


def fresh(folder: Path, state: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lay_out(folder, "one", "moody", state=state)
    path = folder / "kfm.yml"  # a promotion follows the run of the first job
    path.write_text(path.read_text().replace("    title: Rows", "    title: Rows\n    promote: auto"))

    def child(_voice: Voice) -> None:
        with opened(folder) as session:
            for name in ("one", "moody"):
                asked(session, name)

    answer_of(child)
    mood(folder, "raise")  # the second job fails: its trigger ends with a receipt, and must wait again


def elsewhere() -> None:
    """In a child: it is a process of another machine, of which nobody here sees whether it lives."""
    kfm.app.jobs.job_worker.this_process = lambda: f"elsewhere:{os.getpid()}:1:2:3"  # type: ignore[attr-defined]


def cut(folder: Path, at: int, *, far: bool) -> tuple[bool, list[str]]:
    def child(_voice: Voice) -> list[str]:
        if far:
            elsewhere()
        points = Points(at, die, only=boundary)
        install(points)
        with opened(folder) as session:
            worker = JobWorker(session)
            while worker.turn() is not None:
                pass
        return points.labels

    ended = end(*forked(child))
    assert ended.killed or ended.code == 0, ended.failure
    return ended.killed, [] if ended.killed else ended.answer


def after(folder: Path) -> Any:
    """What the next workers make of it, each a lease and a pause later."""

    def child(_voice: Voice) -> Any:
        for n in range(1, 6):
            with opened(folder, BEGIN_MS + n * LEASE_MS) as session:
                worker = JobWorker(session)
                while worker.turn() is not None or worker.last is not None:
                    pass
        with opened(folder, BEGIN_MS + 6 * LEASE_MS) as session:
            JobWorker(session).turn()
            assert differences(session.state) == []
            assert not any(session.state.inbox.waiting()) and not any(session.state.runs.unfinished())
            assert not any(session.state.jobs.open())
            (good,) = session.state.jobs.done()
            (bad,) = session.state.jobs.dead()
            done = [[entry.op_type, entry.outcome] for entry in session.state.ledger.entries_of("one")]
            assert session.state.refs.at("published/one") == session.state.refs.at("processed/one") != ""
            failed = [entry.outcome for entry in session.state.ledger.entries_of("moody")]
            return [good.status, good.attempts, len(good.failures), done, bad.attempts, failed]

    return answer_of(child)


@pytest.mark.parametrize("part", sampled(range(SLICES), every=SLICES))
@pytest.mark.parametrize("state", ["sqlite", "jsonl"])
def test_a_job_is_done_once_wherever_its_worker_is_killed(tmp_path: Path, state: str, part: int) -> None:
    folder = tmp_path / "house"
    fresh(folder, state)
    killed, labels = cut(folder, 0, far=False)
    assert not killed and len(labels) > 20
    kills = 0
    for at in range(1 + part, len(labels) + 1, SLICES):
        far = bool(at // SLICES % 2)
        fresh(folder, state)
        assert cut(folder, at, far=far)[0]
        status, attempts, lost, done, bad, failed = after(folder)
        said = f"killed at {at} ({labels[at - 1]}), far: {far}"
        assert (status, done) == ("ended", [["promote", "done"], ["ingest", "done"]]), said
        assert attempts == 1 + lost, said
        assert bad == 3 and 2 <= len(failed) <= 3 and set(failed) == {"failed"}, said
        kills += 1
    assert kills


def test_a_job_that_kills_its_workers_becomes_a_dead_letter(tmp_path: Path) -> None:
    lay_out(tmp_path, "moody")
    mood(tmp_path, "kill")

    def enqueued(_voice: Voice) -> None:
        with opened(tmp_path) as session:
            asked(session, "moody")

    def worked(_voice: Voice) -> list[Any]:
        with opened(tmp_path, now_ms) as session:
            JobWorker(session).turn()
            (job,) = [*session.state.jobs.open(), *session.state.jobs.dead()]
            return [job.status, [failure.code for failure in job.failures]]

    answer_of(enqueued)
    killed, left = 0, ["waiting", []]
    for n in range(1, 12):
        now_ms = BEGIN_MS + n * LEASE_MS
        ended = end(*forked(worked))
        killed += ended.killed
        if not ended.killed:
            left = ended.answer
    assert killed == 3, "a job that kills its worker was not counted"
    assert left == ["dead", ["worker.lost"] * 3]
    with opened(tmp_path, BEGIN_MS + 20 * LEASE_MS) as session:
        assert not list(session.state.inbox.waiting()) and differences(session.state) == []
