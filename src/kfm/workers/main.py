"""`python -m workers`: turns every error into one line and an exit code."""

from __future__ import annotations

import sys

from kfm.errors import EXIT_CODES, KfmError, StorageFailed
from kfm.workers.drain import Stopped

USAGE = "usage: python -m workers run [--concurrency N] | run-job TYPE --dataset kfm://dataset/ID\n"


def main(argv: list[str]) -> int:
    """Run a command line and return its exit code."""
    from kfm.workers.screen import fail, say

    try:
        return _answer(argv)
    except KfmError as problem:
        fail(problem)
        return problem.exit_code
    except Stopped as stopped:
        say("kfm: stopped; the job at work is left to be resumed by another worker")
        return stopped.code
    except KeyboardInterrupt:
        return EXIT_CODES["interrupted"]
    except OSError as problem:
        fail(StorageFailed(_words(problem), hint="check the disk, then start the worker again"))
        return StorageFailed.exit_code
    except Exception as problem:
        import os

        if os.environ.get("KFM_LOG") == "debug":
            raise
        from kfm.errors import place_of

        what = f"internal error ({type(problem).__name__} at {place_of(problem)})"
        fail(KfmError(what, hint="please report it; set KFM_LOG=debug to see the traceback"))
        return KfmError.exit_code


def _words(problem: OSError) -> str:
    what = (problem.strerror or type(problem).__name__).lower()
    return f"{problem.filename}: {what}" if problem.filename else what


def _answer(argv: list[str]) -> int:
    if argv and argv[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return EXIT_CODES["done"]
    if not argv or argv[0] not in ("run", "run-job"):
        sys.stderr.write(USAGE)
        return EXIT_CODES["usage"]
    from kfm.workers.options import parser

    try:
        options = parser().parse_args(argv)
    except SystemExit as ended:  # after --help
        return ended.code if isinstance(ended.code, int) else 0
    return _run(options)


def _run(options: object) -> int:
    from argparse import Namespace

    from kfm.workers.process import WorkerProcess, check, settings

    assert isinstance(options, Namespace)
    resolved = settings(options)
    if options.command == "run-job":
        from kfm.workers.run_job import run_job

        return run_job(options, resolved)
    if options.report_to is None:
        check(options, resolved)
    if options.concurrency > 1:
        from kfm.workers.supervisor import Supervisor

        return Supervisor(options, resolved).run()
    return WorkerProcess(options, resolved).run()
