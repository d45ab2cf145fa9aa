"""kfm runs: list, show, export and cancel runs, and read their receipts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kfm.app.authority.private_reasons import shown_reason
from kfm.app.metadata.completion_records import completion_of, pending_run, signature_of, sinks_left
from kfm.app.runs.queries import (
    find_run,
    runs,
    short_run,
    steps,
    worker,
)
from kfm.cli.parser import count
from kfm.cli.render import Screen, short
from kfm.cli.session import Tally, known_dataset, opened, person, settings
from kfm.errors import EXIT_CODES, BadInput, Conflict, Refused
from kfm.model.canonical import canonical
from kfm.model.names import dataset_id
from kfm.model.records import Receipt, Run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser
    from kfm.config import Resolved


ALL = -1
WAIT = 100  # tenths of a second that a cancelled run gets to end


RUN = "its id, the start of it, or `last`"


def arguments(parser: Parser) -> None:
    listed = parser.command("list", runs_list, "List runs: unfinished ones first, then ended ones, newest first")
    listed.add_argument("--limit", type=count, default=50, metavar="N", help="how many (default: 50; 0: all)")
    listed.add_argument("--dataset", metavar="DATASET", help="only of this dataset")
    for name, handler, summary in (
        ("show", runs_show, "Show one run"),
        ("steps", runs_steps, "Show the steps of a run and the state of each"),
    ):
        parser.command(name, handler, summary).add_argument("run", metavar="RUN", help=RUN)
    cancelled = parser.command(
        "cancel",
        runs_cancel,
        "End a run at its next step, for good",
        "Its finished steps are kept for the next run of the same work; nothing of it is committed. Exit 6 if another\n"
        "worker has the run: it ends there.",
    )
    cancelled.add_argument("run", metavar="RUN", help=RUN)
    cancelled.add_person(reason="cancelled by an operator")
    cancelled.add_signing()
    receipts = parser.command("receipts", receipts_list, "List receipts, newest first")
    receipts.add_argument("--limit", type=count, default=50, metavar="N", help="how many (default: 50; 0: all)")
    receipt = parser.command("receipt", receipts_show, "Show the receipt of a run")
    receipt.add_argument("run", metavar="RUN", help=RUN)
    receipt.add_argument("--worker", action="store_true", help="as JSON, in the form that workers exchange")
    receipt.add_argument("--exact", action="store_true", help="the bytes whose digest is in the ledger, as exported")
    _export_arguments(parser)


def _export_arguments(parser: Parser) -> None:
    wal = parser.command("wal", wal_export, "Write the write-ahead log of a run to stdout")
    wal.add_argument("run", metavar="RUN", help=RUN)
    wal.add_argument(
        "--format", choices=("json", "avro", "parquet"), default="json", help="default: json, a line a record"
    )
    event = parser.command(
        "signals",
        signals,
        "Show the signals of runs: lifecycle, freshness, waits for pools, sizes and addresses of artifacts",
        "Every event names its entry of the ledger: with --after a collector reads on where it was. --metrics shows\n"
        "the current numbers in the text that Prometheus reads, and --metrics --otlp sends them to the collector of\n"
        "`otel`. Protected data shows neither sizes nor names.",
    )
    event.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    event.add_argument("--after", type=int, default=0, metavar="N", help="after this entry of the ledger")
    event.add_argument("--limit", type=int, default=-1, metavar="N", help="of so many runs (default: all)")
    event.add_argument("--metrics", action="store_true", help="current numbers instead of events")
    event.add_argument("--to", default="", metavar="FILE", help="with --metrics: into this file, in one step")
    event.add_argument("--otlp", action="store_true", help="with --metrics: to the collector of OpenTelemetry")
    telemetry = parser.command(
        "telemetry",
        telemetry_export,
        "Write the telemetry of every run to releases/VERSION/updater-telemetry.json next to kfm.yml",
        reports=True,
    )
    telemetry.add_argument(
        "--operations", action="store_true", help="of operations instead, to operations-telemetry.json there"
    )
    telemetry.add_argument("--stdout", action="store_true", help="to stdout instead")
    compacted = parser.command(
        "compact", compact, "Move finished journals into an archive that answers the same queries", reports=True
    )
    compacted.add_person(reason="journals of ended runs are archived")


def runs_list(options: argparse.Namespace, screen: Screen) -> int:
    wanted = dataset_id(options.dataset) if options.dataset is not None else ""
    resolved = settings(options)
    with opened(options, screen, "read", resolved) as session:
        rows = list(runs(session, options.limit or ALL, wanted))
        starts = {} if screen.json else {row["run"]: short_run(session, row["run"]) for row in rows}
    if not rows and wanted not in ("", "global"):  # a dataset that was removed from the configuration keeps its runs
        known_dataset(options, screen, resolved, wanted)
    if screen.json:
        screen.data(rows)
    else:
        names = ("started", "dataset", "op", "status", "outcome", "run")
        for row in rows:
            row["dataset"] += f"/{row['partition']}" if row["partition"] else ""
            row["run"] = starts[row["run"]]
        screen.table(names, [[row[name] for name in names] for row in rows])
    return 0


def runs_show(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        run_id = find_run(session, options.run)
        run, receipt = session.state.runs.get(run_id), session.state.ledger.receipt(run_id)
        if screen.json:
            telemetry = session.state.ledger.telemetry(run_id)
            said = completion_of(session, run_id)
            screen.data(
                {
                    "run": run,
                    "receipt": receipt,
                    "telemetry": telemetry,
                    "pending": pending_run(session, run_id),
                    "completion": said[0] if said is not None else None,
                }
            )
        elif receipt is not None:
            _show_receipt(session, screen, receipt)
        elif run is not None:
            _show_unfinished(session, screen, run)
    return 0


def _show_unfinished(session: Session, screen: Screen, run: Run) -> None:
    done = sum(1 for _, status, _ in steps(session, run) if status == "DONE")
    screen.fields(
        [
            ("run", run.run_id),
            ("dataset", run.dataset),
            ("partition", run.trigger.partition),
            ("updater", f"{run.updater_id} {run.updater_version}"),
            ("status", run.status),
            ("started", run.started_at),
            ("attempt", run.attempt),
            ("steps", f"{done} of {run.steps} done" if run.plan_hash else "not planned yet"),
            *[("input", f"{source.uri} {short(source.content_hash)}") for source in run.inputs],
            ("worker", _worker(session, run)),
        ]
    )


def _worker(session: Session, run: Run) -> str:
    """Return which worker has the run, and how long others wait if it stops reporting."""
    lease = worker(session, run)
    if lease is None:
        return "nobody; `kfm resume` takes it up"
    left_s = (lease.expires_ms - session.state.now_ms()) / 1000
    return f"{lease.holder.rpartition(':')[0]}, for {left_s:.0f} s more unless it renews its lease"


def _show_receipt(session: Session, screen: Screen, receipt: Receipt) -> None:
    screen.fields(
        [
            ("run", receipt.run_id),
            ("dataset", receipt.dataset),
            ("partition", receipt.partition),
            ("updater", f"{receipt.updater_id} {receipt.updater_version}"),
            ("status", receipt.status),
            ("outcome", receipt.outcome),
            ("started", receipt.started_at),
            ("finished", receipt.finished_at),
            ("trigger", receipt.trigger),
            ("actor", receipt.actor),
            ("reason", shown_reason(session, receipt.reason)),
            *[("set aside", f"{each.rule} {each.limit or ''}".rstrip()) for each in receipt.overrides],
            ("steps", receipt.steps or ""),
            ("rows", _counted(receipt)),
            ("keys", _changed(receipt)),
            ("plan", receipt.plan_hash),
            ("run key", receipt.run_key),
            *[("input", f"{item.id} {item.checksum}".rstrip()) for item in receipt.inputs],
            *[("output", f"{item.id} {item.checksum or 'nothing'}") for item in receipt.outputs],
            *[("moved", f"{m.ref}: {m.before or 'nothing'} → {m.after or 'nothing'}") for m in receipt.moves],
            *[("gate", _decision(d.gate, d.allow, d.reasons)) for d in receipt.policy_decisions],
            *[("error", f"{note.code}: {note.message}") for note in receipt.errors],
            *_followed(session, receipt.run_id),
        ]
    )


def _followed(session: Session, run_id: str) -> Iterator[tuple[str, str]]:
    """Yield the sinks that have yet to follow a run, or when the last one had."""
    waiting, found = pending_run(session, run_id), completion_of(session, run_id)
    if waiting is not None:
        left = ", ".join(sinks_left(session, waiting))
        yield "sinks", f"{left}: pending since {waiting.since}" if left else "all have followed, not recorded yet"
    if found is not None:
        said, keys = found
        yield "complete", f"{said.completed_at}: {', '.join(each.sink for each in said.followed) or 'no sink'}"
        if said.removed:
            yield "removed", f"{', '.join(said.removed)}: removed from kfm.yml before it had followed"
        if keys:
            yield "signed", signature_of(session, run_id)


def _counted(receipt: Receipt) -> str:
    held = f", {receipt.held_rows} of them held" if receipt.held_rows else ""
    return f"{receipt.rows or receipt.held_rows}{held}" if receipt.rows or receipt.held_rows else ""


def _changed(receipt: Receipt) -> str:
    said = receipt.changes
    return (
        f"{said['added']} added, {said['changed']} changed, {said['removed']} removed; {said['keys']} now"
        if said
        else ""
    )


def _decision(gate: str, allow: bool, reasons: list[str]) -> str:
    return f"{gate}: {'yes' if allow else 'no'}" + (f" ({'; '.join(reasons)})" if reasons else "")


def runs_steps(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        run_id = find_run(session, options.run)
        run = session.state.runs.get(run_id)
        rows = [] if run is None else [(step, status, digest) for step, status, digest in steps(session, run)]
        if screen.json:
            screen.data([{"step": step, "status": status, "digest": digest} for step, status, digest in rows])
        else:
            screen.table(
                ("step", "status", "key", "digest"),
                [(step.id, status, "/".join(step.key or ()), short(digest)) for step, status, digest in rows],
            )
            if run is None:
                screen.say("this run ended before anything was planned, so it has no steps")
    return 0


def receipts_list(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        rows = [
            (entry, session.state.ledger.receipt(entry.run_id))
            for entry in session.state.ledger.entries(reverse=True, limit=options.limit or ALL)
        ]
        if screen.json:
            screen.data([receipt for _, receipt in rows])
        else:
            screen.table(
                ("index", "finished", "dataset", "op", "outcome", "digest", "run"),
                [
                    (
                        e.index,
                        e.ts,
                        e.dataset,
                        e.op_type,
                        e.outcome,
                        short(e.receipt_digest),
                        short_run(session, e.run_id),
                    )
                    for e, _ in rows
                ],
            )
    return 0


def receipts_show(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        run_id = find_run(session, options.run)
        receipt = session.state.ledger.receipt(run_id)
        if receipt is None:
            raise BadInput(f"run {run_id} has no receipt yet", hint="finish it with `kfm resume`")
        if options.worker:
            from kfm.app.metadata.worker_receipts_sink import worker_form

            screen.data(worker_form(session, receipt))
        elif options.exact:
            screen.text((session.state.ledger.receipt_body(run_id) or b"").decode())
        elif screen.json:
            screen.data(receipt)
        else:
            _show_receipt(session, screen, receipt)
    return 0


def runs_cancel(options: argparse.Namespace, screen: Screen) -> int:
    """Set the freeze flag of the run, so that the worker that has it ends it. If no worker has it, end it here."""
    from kfm.app.runs.execution import Outcome
    from kfm.app.runs.run_control import resume_runs
    from kfm.cli.operation import operate
    from kfm.cli.run_report import show_runs

    with opened(options, screen, "read") as session:
        run_id = find_run(session, options.run)
        run = session.state.runs.get(run_id)
    if run is None or run.status != "RUNNING":
        raise Refused(f"run {run_id} has ended already", hint=f"see `kfm runs show {run_id[:8]}`")
    code = operate(options, screen, "freeze", run.dataset, {"scope": f"run/{run_id}"}, quiet=True)
    if code:
        return code
    with opened(options, screen, "write") as session:
        for _ in range(WAIT):
            now = session.state.runs.get(run_id)
            if now is None or now.status != "RUNNING":
                break
            with suppress(Conflict):  # the worker that has it ends it
                list(resume_runs(session, run_id))
                break
            session.clock.sleep(0.1)
        receipt = session.state.ledger.receipt(run_id)
        show_runs(session, screen, Tally(screen), Outcome([receipt] if receipt is not None else []))
    if receipt is None:
        screen.say("it is at work elsewhere, and ends there at its next step")
    elif receipt.outcome != "cancelled":
        screen.say("it had come to its end before")
    return EXIT_CODES["done" if receipt is not None and receipt.outcome == "cancelled" else "busy"]


def wal_export(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.run_exports import export_wal

    with opened(options, screen, "read") as session:
        run_id = find_run(session, options.run)
        if session.state.runs.get(run_id) is None:
            raise BadInput(
                f"run {run_id} has no log: it ended before anything was planned",
                hint=f"see `kfm runs receipt {run_id}`",
            )
        if options.format != "json" and screen.out.isatty():
            raise BadInput(f"{options.format} is not for a terminal", hint="send it to a file with >")
        with screen.writing() as out:
            count = export_wal(session, run_id, options.format, out)
        screen.say(f"{count} records of run {run_id}")
    return 0


def telemetry_export(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.operation_bundle import operations_bundle
    from kfm.app.runs.run_exports import telemetry_bundle, write_artifacts

    resolved = settings(options)
    with opened(options, screen, "read", resolved) as session:
        path, body = (operations_bundle if options.operations else telemetry_bundle)(session)
    if options.stdout:
        screen.text(body.decode() + "\n")
        return 0
    folder, _, name = resolved.at(path).rpartition("/")
    write_artifacts(folder, {name: body})
    if screen.json:
        screen.data({"written": path, "bytes": len(body)})
    else:
        screen.line(path)
    return 0


def compact(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.maintenance.maintenance_records import compact as move
    from kfm.app.runs.execution import Outcome, settle
    from kfm.app.runs.settlement import prune_inbox

    who, tally = person(options), Tally(screen)
    with opened(options, screen, "write") as session:
        count, receipts = move(session, **who)
        prune_inbox(session, again=True)
        if receipts:
            settle(session, Outcome(receipts), tally)
        if screen.json:
            screen.data({"archived_runs": count})
        else:
            screen.line("1 run archived" if count == 1 else f"{count} runs archived")
    return tally.code


def signals(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.maintenance.metrics import lines, metrics_as_data
    from kfm.app.maintenance.run_events import events

    if options.after < 0:
        raise BadInput("--after is no entry of the ledger", hint="give 0, or the index of the last event you have")
    if options.metrics and options.dataset:
        raise BadInput("--metrics is of all datasets", hint="leave the names out")
    if options.to and not options.metrics:
        raise BadInput("--to takes metrics", hint="give --metrics, too; send events to a file with >")
    if options.otlp and (options.to or not options.metrics):
        raise BadInput("--otlp sends metrics", hint="give --metrics, and no --to; traces and logs follow each run")
    resolved = settings(options)
    names = [known_dataset(options, screen, resolved, name) for name in options.dataset]
    if options.otlp:
        return _push(options, screen, resolved)
    with opened(options, screen, "read", resolved) as session:
        if options.to:
            from kfm.app.provenance.explain import write_page

            where = write_page(options.to, "".join(f"{line}\n" for line in lines(session)), "the metrics")
            if screen.json:
                screen.data({"written": where})
            else:
                screen.say(f"written to {where}")
        elif options.metrics and screen.json:
            screen.data(metrics_as_data(session))
        elif options.metrics:
            for line in lines(session):
                screen.line(line)
        elif screen.json:
            for event in events(session, names, after=options.after, limit=options.limit):
                screen.line(canonical(event).decode())
        else:
            screen.table(
                ("ts", "signal", "dataset", "value", "run"),
                [
                    (
                        each["ts"],
                        each["signal"],
                        each["dataset"],
                        each.get("state", each.get("value", each.get("uri"))),
                        each["run_id"][:8],
                    )
                    for each in events(session, names, after=options.after, limit=options.limit)
                ],
            )
    return 0


def _push(options: argparse.Namespace, screen: Screen, resolved: Resolved) -> int:
    from kfm.app.maintenance.metrics_push import MetricsPush, check_pushed

    check_pushed(resolved)
    with opened(options, screen, "read", resolved) as session:
        sent = MetricsPush(session).send()
    if screen.json:
        screen.data({"sent": sent})
    else:
        screen.say(f"{sent} metrics sent")
    return 0
