"""Plain Celery on Redis with a row for each job in Postgres: python peer_celery.py jobs N FOLDER PROCESSES

BENCH_REDIS and BENCH_POSTGRES are the addresses. A job writes one row in a transaction of its own and is acknowledged
after that. The clock runs from the first message to the last row; the workers wait before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import psycopg
from celery import Celery
from probe import Stopwatch

app = Celery("peer_celery", broker=os.environ.get("BENCH_REDIS", "redis://"))
app.conf.update(task_ignore_result=True, task_acks_late=True, task_serializer="json", accept_content=["json"],
                worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)  # fmt: skip
_connection: Any = None


def connection() -> Any:
    global _connection
    if _connection is None:
        _connection = psycopg.connect(os.environ["BENCH_POSTGRES"], autocommit=True)
    return _connection


@app.task
def job(number: int) -> None:
    connection().execute("INSERT INTO job_results (number, result) VALUES (%s, %s)", (number, "done"))


def rows() -> int:
    (found,) = connection().execute("SELECT count(*) FROM job_results").fetchone()
    return int(found)


def wait_for(count: int) -> None:
    since = time.monotonic()
    while rows() < count:
        if time.monotonic() - since > 120:
            raise SystemExit(f"{rows()} of {count} jobs are done")
        time.sleep(0.01)


def main() -> None:
    _, _case, n, folder, processes = sys.argv
    connection().execute("DROP TABLE IF EXISTS job_results")
    connection().execute("CREATE TABLE job_results (number int PRIMARY KEY, result text NOT NULL)")
    app.control.purge()
    words = ["-A", "peer_celery", "worker", "-c", processes, "--without-gossip", "--without-mingle", "-l", "ERROR"]
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "log"), "w") as log:
        worker = subprocess.Popen([sys.executable, "-m", "celery", *words], cwd=here, stdout=log, stderr=log)
    try:
        for number in range(int(processes)):
            job.delay(-1 - number)
        wait_for(int(processes))
        with Stopwatch() as watch:
            for number in range(int(n)):
                job.delay(number)
            wait_for(int(n) + int(processes))
        watch.report(int(n))
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    main()
