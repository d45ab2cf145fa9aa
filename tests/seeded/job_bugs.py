"""Bugs in the jobs of `kfm run` and `kfm up`, and the tests that must turn red."""

from __future__ import annotations

from tests.seeded.planting import Bug

RUNS = "tests/app/jobs/test_parallel_runs.py"
UP = "tests/app/jobs/test_parallel_up.py"
JOBS = "kfm.app.runs.parallel_jobs"
LINES = "tests/cli/test_job_lines.py"

JOB_BUGS: dict[str, Bug] = {
    "a job that waits for a server keeps its work slot": Bug(
        "kfm.app.session.work_slots:idle",
        "if slots is None or not _here.holds:",
        "if True:",
        f"{RUNS}::test_thirty_hosts_are_asked_at_once_by_default",
    ),
    "a host gets as many requests as there are jobs": Bug(
        "kfm.sources.host_limits:one_request",
        "while _under_way.get(host, 0) >= most:",
        "while False:",
        f"{RUNS}::test_one_host_gets_only_so_many_requests_at_once",
    ),
    "a dataset does not wait for what it reads": Bug(
        f"{JOBS}:order_of",
        "before[max(each, position)].add(min(each, position))",
        "pass",
        f"{RUNS}::test_a_dataset_waits_for_what_it_reads_and_for_what_shares_its_source",
    ),
    "a shared source is fetched by each job": Bug(
        f"{JOBS}:order_of",
        "before[position].add(last[address])",
        "pass",
        f"{RUNS}::test_jobs_answer_as_one_after_another",
    ),
    "the quickest failure decides the exit code": Bug(
        "kfm.cli.session:Tally.ordered",
        "        self._codes.sort(key=lambda each: at.get(each[0], len(at)))\n",
        "",
        f"{RUNS}::test_the_exit_code_is_that_of_the_first_dataset_that_failed_not_of_the_quickest",
    ),
    "receipts come in the order in which jobs ended": Bug(
        "kfm.app.runs.parallel_runs:_run",
        "for result in (result for results in found for result in results):",
        "for result in (result for results in reversed(found) for result in results):",
        f"{RUNS}::test_thirty_hosts_are_asked_at_once_by_default",
    ),
    "a stopped job works on to its end": Bug(
        "kfm.app.session.work_slots:WorkSlots.check",
        "if self._stopped:",
        "if False:",
        f"{RUNS}::test_the_first_signal_stops_at_the_next_step_and_resume_finishes",
    ),
    "kfm up runs one dataset after another": Bug(
        "kfm.app.daemon.source_watch:Watch.drain",
        "if self._jobs > 1 and len(ready) > 1:",
        "if False:",
        f"{UP}::test_up_runs_waiting_triggers_at_once",
    ),
    "the lines of jobs grow past the screen": Bug(
        "kfm.cli.job_lines:JobLines._draw",
        "[: max((rows or 24) - 3, 0)]",
        "",
        f"{LINES}::test_thirty_datasets_at_work_fit_the_screen_and_leave_only_results",
    ),
    "an interruption leaves the lines of jobs": Bug(
        "kfm.cli.job_lines:JobLines._draw",
        "with interrupted_later():",
        "if True:",
        f"{LINES}::test_an_interruption_at_any_write_leaves_no_line_of_jobs",
    ),
}
