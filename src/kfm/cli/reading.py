"""kfm runs, refs, cat, receipts: looking, never touching."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kfm.app.runs.queries import (
    entries_of,
    exact_key,
    find_entry,
    find_run,
    find_version,
    held_sources,
    ref_history,
    runs,
    short_run,
    steps,
    worker,
)
from kfm.cli.opening import known_dataset, opened, settings
from kfm.cli.render import Screen, short, size
from kfm.errors import BadInput
from kfm.model.names import check_ref, dataset_id
from kfm.model.records import Receipt, Run
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.core.session import Session

ALL = -1


def runs_list(options: argparse.Namespace, screen: Screen) -> int:
    wanted = dataset_id(options.dataset) if options.dataset is not None else ""
    resolved = settings(options)
    with opened(options, screen, "read", resolved) as session:
        rows = list(runs(session, options.limit or ALL, wanted))
        starts = {} if screen.json else {row["run"]: short_run(session, row["run"]) for row in rows}
    if not rows and wanted not in ("", "global"):  # a dataset that left the configuration keeps its runs
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
            screen.data({"run": run, "receipt": receipt, "telemetry": telemetry})
        elif receipt is not None:
            _show_receipt(screen, receipt)
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
    """Who is at it, and for how long others have to wait if it is not heard of again."""
    lease = worker(session, run)
    if lease is None:
        return "nobody; `kfm resume` takes it up"
    left_s = (lease.expires_ms - session.clock.now_ms()) / 1000
    return f"{lease.holder.rpartition(':')[0]}, for {left_s:.0f} s more unless it renews its lease"


def _show_receipt(screen: Screen, receipt: Receipt) -> None:
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
            ("reason", receipt.reason),
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
        ]
    )


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


def refs_list(options: argparse.Namespace, screen: Screen) -> int:
    if options.prefix and not options.prefix.isprintable():
        raise BadInput(f"{printable(options.prefix)} is not the start of a ref", hint="e.g. published/")
    with opened(options, screen, "read") as session:
        refs = list(session.state.refs.all(options.prefix))
        if screen.json:
            screen.data([{"ref": ref, "version": version} for ref, version in refs])
        else:
            screen.table(("ref", "version"), refs)
    return 0


def refs_history(options: argparse.Namespace, screen: Screen) -> int:
    ref = check_ref(options.ref)
    with opened(options, screen, "read") as session:
        moves = ref_history(session, ref)
        if screen.json:
            screen.data(moves)
        else:
            narrow = 0 < screen.width() < 110
            when = (lambda ts: ts[:16].replace("T", " ")) if narrow else str
            name = (lambda digest: short(digest).removeprefix("sha256:")) if narrow else short
            screen.table(
                ("n", "when", "op", "from", "to", "actor", "reason", "run"),
                [
                    (
                        e.n,
                        when(e.ts),
                        e.op,
                        name(e.before),
                        name(e.after),
                        e.actor,
                        e.reason,
                        short_run(session, e.run_id),
                    )
                    for e in moves
                ],
            )
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
            from kfm.app.runs.run_exports import worker_form

            screen.data(worker_form(session, receipt))
        elif screen.json:
            screen.data(receipt)
        else:
            _show_receipt(screen, receipt)
    return 0


def cat(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        target, is_version = find_version(session, options.ref)
        if not is_version:
            if options.key:
                raise BadInput(f"{printable(options.ref)} has no entries", hint="leave the key out")
            _write_object(session, screen, target)
            return 0
        if options.key:
            _write_object(session, screen, find_entry(session, target, options.key).digest)
            return 0
        first = list(islice(entries_of(session, target), 2))
        if len(first) == 1 and not screen.json:
            _write_object(session, screen, first[0].digest)
            return 0
        _list_entries(session, screen, target)
    return 0


def held(options: argparse.Namespace, screen: Screen) -> int:
    """What is in quarantine, and why; with --rows the rows themselves."""
    name = dataset_id(options.dataset)
    with opened(options, screen, "read") as session:
        sources = held_sources(session, name)
        if not sources and not any(True for _ in session.state.refs.history(f"quarantine/{name}")):
            session.dataset(name)  # refused if there is no such dataset
        if options.rows:
            for source in sources:
                if source["held_rows_digest"]:
                    _write_object(session, screen, source["held_rows_digest"])
        elif screen.json:
            screen.data({"dataset": name, "sources": sources})
        else:
            screen.table(FINDINGS, finding_rows(sources))
            for source in sources:
                _tell_held(screen, name, source)
        if not sources:
            screen.say(f"nothing of {name} is held back")
    return 0


FINDINGS = ("source", "column", "rule", "times", "rows", "what")


def finding_rows(sources: list[dict[str, Any]]) -> list[tuple[str, str, str, str, str, str]]:
    """What was found, a line for everything of one kind, with the first rows it is in; what holds comes first.

    Of very many findings only the first are kept one by one: then a number is the least there are.
    """
    told = []
    for source in sources:
        kinds: dict[tuple[str, str, str, bool], list[int]] = {}
        listed: dict[str, int] = {}
        for f in source["findings"]:
            kinds.setdefault((f["column"], f["rule"], f["message"], f["held"]), []).append(f["row"])
            listed[f["rule"]] = listed.get(f["rule"], 0) + 1
        for (column, rule, message, _), rows in sorted(kinds.items(), key=lambda kind: (not kind[0][3], kind[1][0])):
            more = "+" if listed[rule] < source["counts"].get(rule, 0) else ""
            places = [str(row) for row in rows if row]
            first = ", ".join(places[:3]) + (" …" if len(places) > 3 or (places and more) else "")
            told.append((source["source"], column, rule, f"{len(rows)}{more}", first, message))
    return told


def _tell_held(screen: Screen, name: str, source: dict[str, Any]) -> None:
    if source["held"]:
        screen.say(f"{source['source']}: the whole source is held; what was published from it stays")
    else:
        screen.say(f"{source['source']}: {source['held_rows']} of {source['rows']} rows held back")
    total = sum(source["counts"].values())
    if total > len(source["findings"]):
        screen.say(
            f"{source['source']}: {total} findings, of which the first {len(source['findings'])} are counted above"
        )
    if source["held_rows_digest"]:
        screen.say(f"the rows themselves: `kfm held {name} --rows`")


def shown_key(key: tuple[str, ...]) -> str:
    """As it is typed: joined by /, unless that could be read as another key."""
    return exact_key(key) if key[0].startswith("[") or any("/" in part for part in key) else "/".join(key)


def _list_entries(session: Session, screen: Screen, version: str) -> None:
    if screen.json:
        screen.data(list(entries_of(session, version)))
        return
    screen.table(
        ("key", "size", "type", "digest"),
        [(shown_key(e.key), size(e.size), e.media_type, short(e.digest)) for e in entries_of(session, version)],
    )


def _write_object(session: Session, screen: Screen, digest: str) -> None:
    """Not a byte of what is damaged: it is read once to know, and again to be written."""

    def chunks() -> Iterator[bytes]:
        with session.readable.open(digest) as file:
            while chunk := file.read(1 << 20):
                yield chunk

    for _ in chunks():
        pass
    screen.raw(chunks())
