"""Dagster in process with its SQLite event log: python peer_dagster.py CASE N FOLDER

Every event of a step is a commit of its own; outputs are pickled files that are not synced.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from probe import Stopwatch, payload


def main() -> None:
    case, n, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    with open(os.path.join(folder, "dagster.yaml"), "w") as file:
        file.write("telemetry:\n  enabled: false\n")
    import dagster

    logging.disable(logging.CRITICAL)

    @dagster.op  # type: ignore[untyped-decorator]
    def first() -> str:
        return payload(0).decode()

    @dagster.op  # type: ignore[untyped-decorator]
    def link(before: str) -> str:
        return payload(len(before)).decode()

    def chain(count: int) -> Any:
        @dagster.job(name=f"chain_{count}")  # type: ignore[untyped-decorator]
        def job() -> None:
            value = first()
            for _ in range(count - 1):
                value = link(value)

        return job

    def wide(count: int) -> Any:
        @dagster.job(name=f"wide_{count}")  # type: ignore[untyped-decorator]
        def job() -> None:
            for i in range(count):
                first.alias(f"first_{i}")()

        return job

    def run(job: Any) -> None:
        if not job.execute_in_process(instance=instance).success:
            raise SystemExit("dagster says the job failed")

    with dagster.DagsterInstance.from_config(folder) as instance:
        if case == "queued":
            job = chain(1)
            with Stopwatch() as watch:
                for _ in range(n):
                    instance.create_run_for_job(job)
            watch.report(1)
            sys.stdout.flush()
            os._exit(0)
        if case == "one":
            job = chain(1)
            run(job)
            with Stopwatch() as watch:
                for _ in range(n):
                    run(job)
        else:
            job = {"chain": chain, "wide": wide}[case](n)
            with Stopwatch() as watch:
                run(job)
        watch.report(n)
        sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
