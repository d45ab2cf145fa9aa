"""`python -m workers run-job TYPE --dataset kfm://dataset/ID`: enqueues one job and does it in this process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from kfm.app.jobs.job_requests import enqueue, new_envelope
from kfm.app.jobs.job_types import given_parameters, job_type
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.runs.execution import problem_of
from kfm.app.session.backends import open_log
from kfm.app.session.session import open_session
from kfm.errors import EXIT_CODES, Busy, Conflict, Frozen, KfmError
from kfm.workers.screen import receipt_line, say

if TYPE_CHECKING:
    import argparse

    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.model.jobs.job_records import JobState
    from kfm.model.ports import Log
    from kfm.model.records import Receipt

MOST_S = 3600.0  # the longest wait for a dataset that another worker has


def run_job(options: argparse.Namespace, resolved: Resolved) -> int:
    """Enqueue one job and do it; return the exit code, as `kfm run` does. A job that has to wait for a thaw, another
    worker or a source stays in the inbox, where workers find it."""
    kind = job_type(options.type)
    parameters: dict[str, Any] = given_parameters(kind, options.param)
    problems: list[KfmError] = []
    with open_session(resolved, log=_log(options)) as session:
        envelope = new_envelope(session, kind.name, options.dataset, parameters)
        job = enqueue(session, envelope, reason=options.reason or os.environ.get("KFM_REASON", "")).job
        worker = JobWorker(
            session,
            pools=None,  # who may start this process has the rights of the installation, as with `kfm run`
            tell=lambda _about, problem: problems.append(problem),
        )
        receipt, problem = _work(session, worker, job)
        if receipt is not None:
            receipt_line(receipt)
            problem = problem_of(receipt)
            problems = [problem] if problem is not None else problems
        elif problem is not None and not problems:
            problems = [problem]
    for each in problems:
        say(f"kfm: {job.trigger.dataset}: {each}")
    return problems[0].exit_code if problems else EXIT_CODES["done"]


def _log(options: argparse.Namespace) -> Log:
    wanted = os.environ.get("KFM_LOG")
    return open_log(
        sys.stderr if options.verbose else None,
        service="workers",
        lines="jsonl" if wanted == "jsonl" else "human",
        causes=sys.stderr if wanted == "debug" else None,
    )


def _work(session: Session, worker: JobWorker, job: JobState) -> tuple[Receipt | None, KfmError | None]:
    """Do this job as soon as no other worker has its dataset; return its receipt, or why there is none. If another
    worker takes the job itself, wait for its receipt."""
    trigger_id, until = job.trigger.trigger_id, session.clock.monotonic() + MOST_S
    while True:
        receipt = worker.turn([trigger_id])
        problem = worker.last.problem if worker.last is not None else None
        if receipt is not None or (problem is not None and not isinstance(problem, Busy)):
            return receipt, problem
        known = session.state.jobs.get(trigger_id) or job
        if known.run_id and known.status != "waiting":
            return session.state.ledger.receipt(known.run_id), None
        if not worker.is_awaited(trigger_id) or session.clock.monotonic() > until:
            return None, problem or _kept(session, known)
        session.clock.sleep(0.2)


def _kept(session: Session, job: JobState) -> KfmError:
    """Return why the job was not done now."""
    from kfm.app.jobs.job_reports import word_of

    name, job_id = job.trigger.dataset, job.envelope.job_id
    if word_of(session, job) == "frozen":
        return Frozen(f"{name} is frozen; the job is kept", hint=f"see `kfm why-not {name}`; a worker does it after")
    return Conflict(f"another worker has job {job_id}, or has done it", hint=f"see `kfm jobs show {job_id[:8]}`")
