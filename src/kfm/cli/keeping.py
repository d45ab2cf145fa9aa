"""kfm wal, compact, doctor: the journal and the ground it lies on."""

from __future__ import annotations

import argparse

from kfm.cli.opening import opened, settings
from kfm.cli.render import Screen
from kfm.errors import EXIT_CODES, BadInput


def wal_export(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.queries import find_run
    from kfm.app.runs.run_exports import export_wal

    with opened(options, screen, "read") as session:
        run_id = find_run(session, options.run)
        if session.state.runs.get(run_id) is None:
            raise BadInput(
                f"run {run_id} has no log: it ended before anything was planned",
                hint=f"see `kfm receipts show {run_id}`",
            )
        if options.format != "json" and screen.out.isatty():
            raise BadInput(f"{options.format} is not for a terminal", hint="send it to a file with >")
        with screen.writing() as out:
            count = export_wal(session, run_id, options.format, out)
        screen.say(f"{count} records of run {run_id}")
    return 0


def telemetry_export(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.run_exports import telemetry_bundle, write_artifacts

    resolved = settings(options)
    with opened(options, screen, "read", resolved) as session:
        path, body = telemetry_bundle(session)
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
    with opened(options, screen, "write") as session:
        count = session.archive.compact()
        session.prune(again=True)
        if screen.json:
            screen.data({"archived_runs": count})
        else:
            screen.line("1 run archived" if count == 1 else f"{count} runs archived")
    return 0


def doctor(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.maintenance.doctor import diagnose

    resolved = settings(options)
    verdicts = diagnose(resolved, deep=options.deep)
    accepted = options.i_accept or resolved.config.accept_weak_storage
    bad = [v for v in verdicts if not v.ok and not (accepted and v.check.endswith(".filesystem"))]
    if screen.json:
        screen.data({"ok": not bad, "checks": verdicts})
    else:
        rows = [(v.check, "ok" if v.ok else "bad" if v in bad else "accepted", v.found, v.why) for v in verdicts]
        screen.table(("check", "verdict", "found", "why"), rows)
        screen.say("all is well" if not bad else f"{len(bad)} of {len(verdicts)} checks failed")
    return EXIT_CODES["refused"] if bad else EXIT_CODES["done"]
