"""Tables and lines about runs: receipts, findings, what a dry run predicts, which refs moved."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kfm.app.session.input_checks import one_line
from kfm.cli.render import Screen, short, size
from kfm.cli.session import Tally
from kfm.errors import BadInput, KfmError
from kfm.model import refs
from kfm.model.records import Receipt
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from kfm.app.runs.execution import Outcome
    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.model.records import Effect, Receipt, RefEntry


CHANGES = ("added", "changed", "removed", "keys")  # counts of keys: changes, and how many the version has
FINDINGS = ("source", "column", "rule", "times", "line", "what")


def show_runs(
    session: Session, screen: Screen, tally: Tally, outcome: Outcome, versions: Mapping[str, str] | None = None
) -> None:
    """Print the receipts, errors and effects of some runs. `versions` names the version of a dataset where it is not
    the processed one."""
    from kfm.app.runs.queries import frozen_by

    if screen.json:
        screen.data({"receipts": outcome.receipts, "errors": tally.errors, "effects": outcome.effects})
        return
    if outcome.receipts:
        _show_receipts(session, screen, outcome.receipts, versions or {})
    if session.mode == "dry":
        show_findings(session, screen, outcome.receipts)
        show_effects(session, screen, outcome.receipts, outcome.effects)
        return
    for receipt in outcome.receipts:
        if receipt.held_rows and receipt.outcome != "held":  # a quarantined source was reported as an error already
            rows = "1 row" if receipt.held_rows == 1 else f"{receipt.held_rows} rows"
            screen.say(f"{receipt.dataset}: {rows} quarantined, see `kfm quarantine {receipt.dataset}`")
        if receipt.outcome == "frozen":
            screen.say(f"{receipt.dataset}: {_frozen(session, frozen_by(session, receipt.dataset), receipt.dataset)}")


def _show_receipts(session: Session, screen: Screen, receipts: list[Receipt], versions: Mapping[str, str]) -> None:
    """Print a table of receipts; on a narrow terminal only the most important columns."""
    from kfm.app.runs.queries import short_run, version_of

    names = ["dataset", "status", "outcome", *CHANGES, "held", "rows", "version", "run"]
    rows = [
        [
            f"{r.dataset}/{r.partition}" if r.partition else r.dataset,
            r.status,
            "requested" if r.job_type == "operation.request" and r.outcome == "done" else r.outcome,
            *(r.changes.get(name) for name in CHANGES),
            _held_of(r),
            r.rows or None,
            short(versions.get(r.dataset) or version_of(session, r)),
            short_run(session, r.run_id) if screen.is_kfm else r.run_id,
        ]
        for r in receipts
    ]
    if 0 < screen.width() < 110:
        names = ["dataset", "outcome", "+ ~ -", "keys", "held", "rows", "version", "run"]
        changed = [" ".join(str(r.changes.get(name, "-")) for name in CHANGES[:3]) for r in receipts]
        rows = [
            [row[0], row[2], change, *row[6:9], str(row[9]).removeprefix("sha256:"), row[10]]
            for row, change in zip(rows, changed, strict=True)
        ]
    screen.table(names, rows)


def _held_of(receipt: Receipt) -> str:
    return "all" if receipt.outcome == "held" else str(receipt.held_rows)


def show_findings(session: Session, screen: Screen, receipts: list[Receipt]) -> None:
    """Print what a dry run would quarantine. `kfm quarantine` shows only what is quarantined already."""
    from kfm.app.runs.queries import held_sources

    sources: list[dict[str, Any]] = []
    for receipt in receipts:
        if receipt.held_rows or receipt.outcome == "held":
            for source in held_sources(session, receipt.dataset, receipt.partition):
                sources.append({**source, "source": f"{receipt.dataset}/{source['source']}"})
    if sources:
        screen.line()
        screen.table(("would hold", *FINDINGS[1:]), finding_rows(sources))


def _frozen(session: Session, last: RefEntry | None, dataset: str) -> str:
    from kfm.app.authority.private_reasons import shown_reason

    if last is None:
        return "it was frozen; its trigger is kept: `kfm resume`"
    why = f" ({shown_reason(session, last.reason)})" if last.reason else ""
    everything = last.ref in (refs.switch("global"), refs.amber("global"))
    thaw = "kfm thaw --reason …" if everything else f"kfm thaw {dataset} --reason …"
    return f"frozen since {last.ts[:16]}Z by {last.actor}{why}; its trigger is kept: `{thaw}`, then `kfm resume`"


def show_delivered(screen: Screen, effects: list[Effect]) -> None:
    """Print what this command published, which may have been committed by an earlier one."""
    if not screen.json:
        screen.say(f"delivered {len(effects)} of what was committed:")
        screen.table(
            ("delivered", "by", "size", "digest"),
            [(effect.target, effect.method, size(effect.size), short(effect.digest)) for effect in effects],
        )


def show_effects(session: Session, screen: Screen, receipts: list[Receipt], effects: list[Effect]) -> None:
    """Print what a dry run predicts: the refs that would move, and the public files that would change."""
    from kfm.app.runs.queries import already_published

    moves = [(move.ref, short(move.before), short(move.after)) for receipt in receipts for move in receipt.moves]
    if moves:
        screen.line()
        screen.table(("would move", "from", "to"), moves)
    there = already_published(session, effects)
    for title, some in (("would write", [each for each in effects if each not in there]), ("is there already", there)):
        if some:
            screen.line()
            rows = [(effect.target, effect.method, size(effect.size), short(effect.digest)) for effect in some]
            screen.table((title, "by", "size", "digest"), rows)
    screen.say("dry run: nothing was changed")


def tell_promoted(session: Session, screen: Screen, outcome: Outcome) -> None:
    """Print which versions were published automatically and where, and which were not and why."""
    for receipt in outcome.receipts if session.mode != "dry" and not screen.json else ():
        if receipt.job_type == "operation.promote":
            tell_moves(session, screen, receipt)
    for dataset, text in outcome.notes:
        screen.say(f"{dataset}: {text}")


def show_other_mistakes(session: Session, tally: Tally, outcome: Outcome) -> None:
    """Report the masks and labels that do not match and that no refused run named: each run names only the first."""
    from kfm.app.maintenance.config_check import match_mistakes

    said = [note.message for receipt in outcome.receipts for note in receipt.errors]
    said += [each["message"] for each in tally.errors]
    for mistake in match_mistakes(session):
        what = mistake.message.partition("; ")[0]
        if not any(what.endswith(message.partition("; ")[0]) for message in said):
            tally.mistake(mistake)


def tell_elsewhere(session: Session, tally: Tally, outcome: Outcome, events: list[dict[str, Any]], folder: str) -> None:
    """Write the artifacts into their folder, if there is one, and a summary for GitHub Actions."""
    if folder:
        from kfm.app.runs.execution import Undelivered
        from kfm.app.runs.run_exports import artifact_list, artifacts_of, write_artifacts

        try:
            files = artifacts_of(session, outcome.receipts, outcome.effects, events)
            write_artifacts(folder, files, artifact_list(session, outcome.receipts, files))
        except KfmError as problem:
            if session.mode == "dry":
                raise
            is_change = any(receipt.outcome == "done" for receipt in outcome.receipts)
            tally.undelivered(Undelivered("", problem, ours=True, is_change=is_change))
    if os.environ.get("GITHUB_ACTIONS") == "true" and session.mode != "dry":
        from kfm.app.runs.run_exports import report_job

        report_job(outcome.receipts)


def artifacts_folder(options: argparse.Namespace, resolved: Resolved) -> str:
    """Return the folder for the artifacts of this run, or "". A dry run writes them only if --artifacts names a
    folder."""
    if options.artifacts is None:
        return "" if options.dry_run else resolved.at(resolved.config.artifacts)
    folder = os.path.abspath(one_line("--artifacts", options.artifacts, 4000))
    if not options.artifacts or (os.path.lexists(folder) and not os.path.isdir(folder)):
        raise BadInput(f"--artifacts {printable(options.artifacts)} is not a folder", hint="name a folder to write to")
    return folder


def finding_rows(sources: list[dict[str, Any]]) -> list[tuple[str, str, str, str, str, str]]:
    """Return a row for all findings of one kind, with the first lines they are in; those that quarantine come first.

    Only the first of very many findings are kept one by one; then a number is a lower bound.
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


def tell_moves(session: Session, screen: Screen, receipt: Receipt) -> None:
    """Print which ref moved, and the command that usually comes next."""
    from kfm.app.runs.run_exports import published_folder
    from kfm.app.session.datasets import is_public_version

    if receipt.outcome == "unchanged":
        screen.say("nothing moved: it is there already")
    for move in receipt.moves:
        if move.ref.startswith(refs.ORDERS):
            _tell_order(session, screen, receipt, move.ref.partition("/")[2])
            continue
        name = short if screen.err.isatty() else str  # programs get the whole digest, as in the receipt
        screen.say(f"{move.ref}: {name(move.before) or 'nothing'} → {name(move.after) or 'nothing'}")
        if not move.ref.startswith(refs.PUBLISHED):
            continue
        moved = refs.parse(move.ref).dataset
        if any(dataset in ("", moved) for dataset, _ in session.undelivered):
            screen.say("its public files are not all as the ref says yet: correct the problem above, then `kfm resume`")
            continue
        after, before = (v and published_folder(session, moved, v) for v in (move.after, move.before))
        if after:
            screen.say(f"its files are in {os.path.relpath(after)}")
        if before and is_public_version(session, moved, move.before):
            screen.say(f"those before stay in {os.path.relpath(before)}")
        elif before:
            screen.say("those before are removed")
    if receipt.job_type == "operation.thaw":
        waiting = sum(1 for _ in session.state.inbox.waiting()) + sum(1 for _ in session.state.runs.unfinished())
        if waiting:
            screen.say(f"{waiting} waiting: `kfm resume` takes {'it' if waiting == 1 else 'them'} up")


def _tell_order(session: Session, screen: Screen, receipt: Receipt, order: str) -> None:
    from kfm.app.runs.change_requests import next_signature

    said = {
        "operation.request": f"requested as change request {order}, nothing has moved: see `kfm review show {order}`",
        "operation.approve": f"{receipt.actor} approved change request {order}",
        "operation.reject": f"{receipt.actor} rejected change request {order}",
        "operation.expire": f"change request {order} has expired",
    }
    screen.say(said.get(receipt.job_type, f"done by change request {order}"))
    if receipt.job_type in ("operation.request", "operation.approve") and (who := next_signature(session, order)):
        screen.say(who)
