"""kfm jobs: what workers have to do, what they could not do, and the types of jobs there are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kfm.app.jobs.job_reports import SHORT, JobReport, JobRow, find_job, job_rows, report_of, row_of
from kfm.app.jobs.untaken_jobs import untaken_jobs
from kfm.cli.parser import count
from kfm.cli.render import Screen
from kfm.cli.session import Tally, one_line, opened, person, settings
from kfm.errors import BadInput
from kfm.model.jobs.job_envelope import PRIORITIES, ZONES

if TYPE_CHECKING:
    import argparse

    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser
    from kfm.model.jobs.job_envelope import JobEnvelope
    from kfm.model.records import Receipt

JOB = "its id, the start of it, or the id of its trigger"


def arguments(parser: Parser) -> None:
    listed = parser.command("list", jobs_list, "List waiting jobs and dead letters")
    listed.add_argument("--all", action="store_true", help="ended ones too, newest first")
    listed.add_argument("--limit", type=count, default=50, metavar="N", help="how many of those (default: 50; 0: all)")
    parser.command("dead", jobs_dead, "List dead letters: jobs that failed too often, or that a person must correct")
    parser.command("show", jobs_show, "Show a job, its envelope and its failures").add_argument(
        "job", metavar="JOB", help=JOB
    )
    parser.command("types", jobs_types, "List the types of jobs, and the parameters of each")
    asked = parser.command(
        "enqueue",
        jobs_enqueue,
        "Request a job; a worker does it",
        "The same envelope again is the same job: nothing is stored twice. Workers: `python -m workers run`.",
    )
    asked.add_argument("type", nargs="?", default="", metavar="TYPE", help="see `kfm jobs types`")
    asked.add_argument("--dataset", default="", metavar="DATASET", help="kfm://dataset/ID, or its name in kfm.yml")
    asked.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the type; may be repeated"
    )
    asked.add_argument("--zone", choices=ZONES, default=None, metavar="ZONE", help=f"target zone: {', '.join(ZONES)}")
    asked.add_argument("--label", default=None, metavar="LEVEL", help="policy label: how open the result may be")
    asked.add_argument("--envelope", default="", metavar="FILE", help="a whole envelope as JSON instead; -: from stdin")
    asked.add_argument(
        "--priority",
        choices=PRIORITIES,
        default="normal",
        metavar="P",
        help=f"{', '.join(PRIORITIES)} (default: normal)",
    )
    asked.add_person()
    again = parser.command(
        "retry", jobs_retry, "Put a dead letter or a cancelled job back, with all its attempts before it"
    )
    again.add_argument("job", nargs="?", default="", metavar="JOB", help=JOB)
    again.add_argument("--all", action="store_true", help="every dead letter")
    again.add_person(reason="put back by an operator")
    ended = parser.command(
        "cancel",
        jobs_cancel,
        "Take a waiting job out, or give a dead letter up",
        "Exit 6 if a worker has it: `kfm runs cancel RUN` ends a run.",
    )
    ended.add_argument("job", metavar="JOB", help=JOB)
    ended.add_person(reason="cancelled by an operator")


def jobs_list(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        rows = list(job_rows(session, ended=options.all, limit=options.limit or -1))
        untaken = untaken_jobs(session)
    _show(screen, rows, "no job waits" + ("" if options.all else "; --all shows those that ended"))
    if untaken is not None:
        screen.say(f"{untaken.what}; start one: `{untaken.command}`")
    return 0


def jobs_dead(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        rows = [row_of(session, job) for job in session.state.jobs.dead()]
    _show(screen, rows, "there is no dead letter")
    if rows and not screen.json:
        screen.say("`kfm jobs retry JOB` puts one back, `kfm jobs cancel JOB` gives it up")
    return 0


def _show(screen: Screen, rows: list[JobRow], none: str) -> None:
    if screen.json:
        screen.data(rows)
    elif rows:
        screen.table(
            ("job", "type", "dataset", "state", "attempts", "requested", "by", "last failure"),
            [
                (
                    row.job_id[:SHORT],
                    row.job_type,
                    f"{row.dataset}/{row.partition}" if row.partition else row.dataset,
                    row.state,
                    row.attempts,
                    row.requested_at,
                    row.requested_by,
                    row.failures[-1].code if row.failures else "",
                )
                for row in rows
            ],
        )
    else:
        screen.say(none)


def jobs_show(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        found = report_of(session, find_job(session, one_line("JOB", options.job)))
    if screen.json:
        screen.data(found)
        return 0
    _show_one(screen, found)
    return 0


def _show_one(screen: Screen, found: JobReport) -> None:
    job, envelope = found.job, found.envelope
    fields = [
        ("job", job.job_id),
        ("type", job.job_type),
        ("dataset", job.dataset),
        ("partition", job.partition),
        ("state", job.state),
        ("priority", job.priority),
        ("pools", ", ".join(job.pools)),
        ("attempts", str(job.attempts)),
        ("requested", f"{job.requested_at} by {job.requested_by}"),
        ("not before", job.not_before),
        *((f"input {one.kind}", f"{one.id} {one.checksum}") for one in envelope.inputs),
        *((name, str(value)) for name, value in sorted(envelope.parameters.items())),
        *(("failed", f"{each.at} {each.code} on {each.host} {each.run_id}".rstrip()) for each in job.failures),
        ("run", job.run_id),
        ("trigger", job.trigger_id),
        ("next", found.next),
    ]
    screen.fields([(name, value) for name, value in fields if value])


def jobs_types(options: argparse.Namespace, screen: Screen) -> int:  # noqa: ARG001
    from kfm.app.jobs.job_types import job_types, parameter_rows

    found = [
        {
            "job_type": kind.name,
            "purpose": kind.purpose,
            "triggers": kind.triggers,
            "inputs": kind.inputs,
            "outputs": kind.outputs,
            "zones": list(kind.zones),
            "derived": kind.derived,
            "parameters": parameter_rows(kind),
        }
        for kind in job_types().values()
    ]
    if screen.json:
        screen.data(found)
        return 0
    for kind in found:
        screen.line(f"{kind['job_type']}: {kind['purpose']}")
        screen.line(f"  triggers: {kind['triggers']}")
        screen.line(f"  inputs: {kind['inputs']}")
        screen.line(f"  outputs: {kind['outputs']}")
        for each in kind["parameters"]:  # type: ignore[attr-defined]
            screen.line(f"  {each['name']}: {each['about'] or each['type']}" + (" (required)" * each["required"]))
    return 0


def jobs_enqueue(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.jobs.job_requests import enqueue

    who = person(options)
    resolved = settings(options)
    if bool(options.envelope) == bool(options.type):
        raise BadInput("say what to do", hint="kfm jobs enqueue TYPE --dataset DATASET, or --envelope FILE alone")
    whole = _read(options) if options.envelope else None
    with opened(options, screen, "write", resolved, withdraws=False) as session:
        envelope = whole or _made(options, session, who["actor"])
        stored = enqueue(session, envelope, priority=options.priority, reason=who["reason"])
        row = row_of(session, stored.job)
    if screen.json:
        screen.data({"job": row, "is_new": stored.is_new})
        return 0
    screen.line(row.job_id)
    if not stored.is_new:
        screen.say(
            f"this job is known, nothing was stored: it is {row.state}; see `kfm jobs show {row.job_id[:SHORT]}`"
        )
    else:
        needs = f" of the pool {', '.join(row.pools)}" if row.pools else ""
        flags = "".join(f" --pool {pool}" for pool in row.pools)
        screen.say(f"it waits for a worker{needs}: `python -m workers run{flags}`")
    return 0


def _read(options: argparse.Namespace) -> JobEnvelope:
    from kfm.model.jobs.job_envelope import read_envelope

    given = [name for name in ("dataset", "zone", "label") if getattr(options, name)] + ["param"] * bool(options.param)
    if given:
        raise BadInput(f"--{given[0]} is part of the envelope", hint="write it there, or leave --envelope out")
    if options.envelope == "-":
        return read_envelope(sys.stdin.buffer, "stdin")
    try:
        with open(options.envelope, "rb") as file:
            return read_envelope(file, options.envelope)
    except OSError as problem:
        what = (problem.strerror or type(problem).__name__).lower()
        raise BadInput(
            f"{one_line('--envelope', options.envelope)}: {what}", hint="name a file with one envelope"
        ) from None


def _made(options: argparse.Namespace, session: Session, actor: str) -> JobEnvelope:
    from kfm.app.jobs.job_requests import new_envelope
    from kfm.app.jobs.job_types import given_parameters, job_type

    if not options.dataset:
        raise BadInput("the job is of no dataset", hint="add --dataset kfm://dataset/ID")
    kind = job_type(options.type)
    parameters: dict[str, Any] = given_parameters(kind, options.param)
    if options.zone is not None:
        parameters["target_zone"] = options.zone
    if options.label is not None:
        parameters["policy_label"] = options.label
    return new_envelope(session, kind.name, options.dataset, parameters, requested_by=f"user:{actor}" if actor else "")


def jobs_retry(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.maintenance.job_control import retry_job

    who = person(options)
    if bool(options.job) == options.all:
        raise BadInput("say which dead letter", hint="kfm jobs retry JOB, or --all; `kfm jobs dead` lists them")
    rows, receipts = [], []
    with opened(options, screen, "write") as session:
        found = list(session.state.jobs.dead()) if options.all else [find_job(session, one_line("JOB", options.job))]
        for each in found:
            job, receipt = retry_job(session, each, **who)
            rows.append(row_of(session, job))
            receipts.append(receipt)
        _settle(session, screen, receipts)
    if screen.json:
        screen.data(rows)
    else:
        for row in rows:
            screen.line(f"{row.job_id}  {row.state}")
        if not rows:
            screen.say("there is no dead letter")
    return 0


def jobs_cancel(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.maintenance.job_control import cancel_job

    who = person(options)
    with opened(options, screen, "write") as session:
        job, receipt = cancel_job(session, find_job(session, one_line("JOB", options.job)), **who)
        row = row_of(session, job)
        _settle(session, screen, [receipt])
    if screen.json:
        screen.data(row)
    else:
        screen.line(f"{row.job_id}  {row.state}")
    return 0


def _settle(session: Session, screen: Screen, receipts: list[Receipt]) -> None:
    from kfm.app.runs.execution import Outcome, settle

    if receipts:
        settle(session, Outcome(receipts), Tally(screen))
