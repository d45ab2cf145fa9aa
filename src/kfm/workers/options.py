"""The command line of `python -m workers`."""

from __future__ import annotations

import argparse

from kfm.errors import EXIT_CODES, KfmError

MOST_PROCESSES = 256


class Usage(KfmError):
    """The command line is wrong."""

    code = "usage"
    exit_code = EXIT_CODES["usage"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise Usage(message, hint=f"see `{self.prog} --help`")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    whole = _Parser(prog="python -m workers", description="Work on the jobs of an installation.")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    run = commands.add_parser("run", help="work on waiting jobs until stopped", description=RUN)
    run.add_argument("--concurrency", type=_processes, default=1, metavar="N", help="worker processes (default: 1)")
    run.add_argument(
        "--pool", action="append", default=[], metavar="NAME", help="take protected jobs of this custodian, too"
    )
    run.add_argument("--config", default=None, metavar="FILE", help="the configuration (default: nearest kfm.yml)")
    run.add_argument(
        "--listen", type=_address, default=None, metavar="ADDRESS", help="answer /livez, /readyz and /metrics there"
    )
    run.add_argument("--behind-proxy", action="store_true", help="--listen may be open to other machines")
    run.add_argument("--once", action="store_true", help="end when no job is ready")
    run.add_argument("--verbose", action="store_true", help="write the event log to stderr; KFM_LOG=jsonl: as JSON")
    run.add_argument("--report-to", type=int, default=None, help=argparse.SUPPRESS)  # of a child: a pipe
    _run_job_arguments(commands)
    return whole


def _run_job_arguments(commands: argparse._SubParsersAction[_Parser]) -> None:
    one = commands.add_parser("run-job", help="enqueue one job and do it now", description=RUN_JOB)
    one.add_argument("type", metavar="TYPE", help="see `kfm jobs types`")
    one.add_argument("--dataset", required=True, metavar="DATASET", help="kfm://dataset/ID, or its name in kfm.yml")
    one.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the type; may be repeated"
    )
    one.add_argument("--reason", default="", metavar="TEXT", help="why; goes into the ledger")
    one.add_argument("--config", default=None, metavar="FILE", help="the configuration (default: nearest kfm.yml)")
    one.add_argument("--verbose", action="store_true", help="write the event log to stderr; KFM_LOG=jsonl: as JSON")
    one.set_defaults(pool=[], report_to=None)


RUN_JOB = """\
Enqueues one job and does it in this process, with the rights of whoever starts it. Exit codes are those of `kfm run`.
A job that cannot be done now stays in the inbox for the workers."""
RUN = """\
Works on jobs and every other waiting trigger, one at a time in each process. SIGTERM or Ctrl-C: the job at work ends,
nothing new begins; a second signal leaves the job to be resumed by another worker."""


def _processes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_PROCESSES):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {MOST_PROCESSES}")
    return int(text)


def _address(text: str) -> tuple[str, int]:
    host, colon, number = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and number.isascii() and number.isdigit() and int(number) <= 65535):
        raise argparse.ArgumentTypeError("is no address: write host and port, such as 127.0.0.1:9105")
    return host, int(number)
