"""kfm run, plan, resume: the walk, from the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kfm.app.core import input_checks
from kfm.app.core.input_checks import as_flag, several
from kfm.cli.opening import code_of, known_dataset, one_line, opened, person, settings, together
from kfm.cli.render import Screen, clean, short, size
from kfm.errors import BadInput, Held, KfmError, PlanChanged
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from kfm.app.core.session import Session
    from kfm.app.runs.execution import Outcome, Undelivered
    from kfm.config import Resolved
    from kfm.model.records import Effect, Receipt, RefEntry


CHANGES = ("added", "changed", "removed", "keys")  # of the keys of a version, and how many it has


class Tally:
    """Says what becomes of requests as they end, and keeps what it comes to: errors and the exit code."""

    def __init__(self, screen: Screen, *, tell_noop: bool = False) -> None:
        self._screen = screen
        self._tell_noop = tell_noop
        self.errors: list[dict[str, Any]] = []
        self._codes: list[int] = []

    def begins(self, about: str) -> None:
        self._screen.subject = about

    def ended(self, receipt: Receipt) -> None:
        self._codes.append(code_of(receipt, tell_noop=self._tell_noop))
        for note in receipt.errors:
            self._screen.fail(_about(receipt.dataset, note.message))
        for note in receipt.warnings:
            self._screen.say(_about(receipt.dataset, note.message))

    def failed(self, about: str, problem: KfmError) -> None:
        self._codes.append(problem.exit_code)
        self.errors.append({"dataset": about, "code": problem.code, "message": problem.message, "hint": problem.hint})
        self._screen.fail(_about(about, str(problem)))

    def settles(self) -> None:
        self._screen.subject = ""
        self._screen.progress("publish", 0, 0)

    def undelivered(self, what: Undelivered) -> None:
        dataset, problem, ours = what
        if ours:
            self._codes.insert(0, problem.exit_code)  # worse than what became of a run
        told = what.told
        self.errors.append({"dataset": dataset, "code": problem.code, "message": told, "hint": problem.hint})
        self._screen.fail(f"{dataset}: {told}; {problem.hint}" if dataset else f"{told}; {problem.hint}")

    @property
    def code(self) -> int:
        return together(self._codes)


def _about(name: str, message: str) -> str:
    """The message with what it is about before it, unless it begins with that itself."""
    return message if message.startswith((f"{name} ", f"run {name} ")) else f"{name}: {message}"


def run(options: argparse.Namespace, screen: Screen) -> int:
    who = person(options)
    window = one_line("--window", options.window)
    partition = one_line("--partition", getattr(options, "partition", ""))  # not every runner has them
    overrides = set_aside(options, who["reason"])
    resolved = settings(options)
    names = several(resolved, tuple(options.dataset), partition, as_flag)
    folder = artifacts_folder(options, resolved)
    events: list[dict[str, Any]] = []
    from kfm.app.runs.execution import running, work

    with opened(options, screen, "dry" if options.dry_run else "write", resolved, events) as session:
        tally = Tally(screen, tell_noop=options.exit_code)
        meant = {"window": window, "partition": partition, **overrides, **who}
        outcome = work(session, (running(name, **meant) for name in names), tally)
        tell_elsewhere(session, tally, outcome, events, folder)
        show_runs(session, screen, tally, outcome)
        _tell_promoted(session, screen, outcome)
        return tally.code


def _tell_promoted(session: Session, screen: Screen, outcome: Outcome) -> None:
    """Of what was published by itself where it is, and of what was not why."""
    for receipt in outcome.receipts if session.mode != "dry" and not screen.json else ():
        if receipt.job_type == "operation.promote":
            from kfm.cli.moved import tell_moves

            tell_moves(session, screen, receipt)
    for dataset, text in outcome.notes:
        screen.say(f"{dataset}: {text}")


def tell_elsewhere(session: Session, tally: Tally, outcome: Outcome, events: list[dict[str, Any]], folder: str) -> None:
    """Into the folder of artifacts, if there is one, and into the summary of the job we run in."""
    if folder:
        from kfm.app.runs.execution import Undelivered
        from kfm.app.runs.run_exports import artifacts_of, write_artifacts

        try:
            write_artifacts(folder, artifacts_of(session, outcome.receipts, outcome.effects, events))
        except KfmError as problem:
            if session.mode == "dry":
                raise
            tally.undelivered(Undelivered("", problem, ours=True))
    if os.environ.get("GITHUB_ACTIONS") == "true" and session.mode != "dry":
        from kfm.app.runs.run_exports import report_job

        report_job(outcome.receipts)


def artifacts_folder(options: argparse.Namespace, resolved: Resolved) -> str:
    """Where the artifacts of this run go. A dry run writes them only where it is told to."""
    if options.artifacts is None:
        return "" if options.dry_run else resolved.at(resolved.config.artifacts)
    folder = os.path.abspath(one_line("--artifacts", options.artifacts, 4000))
    if not options.artifacts or (os.path.lexists(folder) and not os.path.isdir(folder)):
        raise BadInput(f"--artifacts {printable(options.artifacts)} is not a folder", hint="name a folder to write to")
    return folder


def plan(options: argparse.Namespace, screen: Screen) -> int:
    window = one_line("--window", options.window)
    partition = one_line("--partition", options.partition)
    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset)
    from kfm.app.runs.queries import preview

    with opened(options, screen, "dry", resolved) as session:
        try:
            view = preview(session, name, window, partition)
        except Held as problem:
            raise Held(problem.message, hint=f"`kfm run {name} --dry-run` shows all that would be held") from problem
        if options.check and view.changed:
            declared = not session.dataset(name).updater
            raise PlanChanged(
                f"the plan of {name} changed under the same inputs and version: " + view.diff.replace("\n", ", "),
                hint="bump its version in the configuration" if declared else "bump the updater's version",
            )
        if options.check:
            from kfm.cli.replanning import check_elsewhere

            trigger = session.trigger(name, window=window, partition=partition)
            check_elsewhere(resolved, trigger, view.inputs, view.plan_hash)
        for note in view.warnings:
            screen.say(_about(name, note.message))
        if screen.json:
            screen.data(view)
        else:
            _show_plan(screen, view, brief=options.check)
        return PlanChanged.exit_code if view.changed else 0


def _show_plan(screen: Screen, view: Any, *, brief: bool) -> None:
    screen.fields(
        [
            ("plan", view.plan_hash),
            ("steps", view.steps),
            ("complete", view.complete),
            *[("input", f"{source.name or source.uri} {source.content_hash}") for source in view.inputs],
        ]
    )
    if view.shown and not brief:
        screen.line()
        rows = [(step.id, "/".join(step.key or ()), ", ".join(step.needs)) for step in view.shown]
        screen.table(("step", "key", "needs"), rows)
    screen.line()
    if view.against == "nothing":
        screen.line("no plan to compare with: this would be the first run")
    elif view.before == view.plan_hash:
        screen.line("the same plan as " + ("the locked one" if view.against == "locked" else "the last run's"))
    else:
        locked = "changed under the same inputs and version, bump the version"
        screen.line("since the last run:" if view.against == "last" else locked + ":")
        for line in view.diff.split("\n"):
            screen.line(f"  {clean(line)}")


def set_aside(options: argparse.Namespace, reason: str) -> dict[str, Any]:
    """The rules this run sets aside. Each needs a reason, and a number of deletions is a number."""
    text = options.allow_deletions
    if text is not None and not (text.isascii() and text.isdigit() and len(text) <= 15 and int(text)):
        raise BadInput(
            f"--allow-deletions {printable(text)} is not a number of keys", hint="give a whole number, 1 or more"
        )
    return input_checks.set_aside(
        force=options.force, abandon=options.abandon, allow_deletions=int(text or 0), reason=reason, spelled=as_flag
    )


def resume(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.execution import resuming, work

    resolved = settings(options)
    run_id = ""
    if options.run is not None:
        with opened(options, screen, "read", resolved) as session:
            from kfm.app.runs.queries import find_run

            run_id = find_run(session, options.run)
    with opened(options, screen, "write", resolved) as session:
        tally = Tally(screen)
        outcome = work(session, [resuming(run_id)], tally, all_are_ours=True)
        if not (outcome.receipts or tally.errors):
            screen.say("no run was left to resume" if outcome.effects else "nothing was left to resume")
        if outcome.effects:
            show_delivered(screen, outcome.effects)
        show_runs(session, screen, tally, outcome)
        _tell_promoted(session, screen, outcome)
        return tally.code


def show_runs(
    session: Session, screen: Screen, tally: Tally, outcome: Outcome, versions: Mapping[str, str] | None = None
) -> None:
    """`versions`: of each dataset, where it is not what is processed."""
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
        if receipt.held_rows and receipt.outcome != "held":  # that was said as an error, of all its rows
            rows = "1 row" if receipt.held_rows == 1 else f"{receipt.held_rows} rows"
            screen.say(f"{receipt.dataset}: {rows} held back, see `kfm held {receipt.dataset}`")
        if receipt.outcome == "frozen":
            screen.say(f"{receipt.dataset}: {_frozen(frozen_by(session, receipt.dataset), receipt.dataset)}")


def _show_receipts(session: Session, screen: Screen, receipts: list[Receipt], versions: Mapping[str, str]) -> None:
    """On a terminal that has no room for all of it, what matters most of it."""
    from kfm.app.runs.queries import short_run, version_of

    names = ["dataset", "status", "outcome", *CHANGES, "held", "rows", "version", "run"]
    rows = [
        [
            f"{r.dataset}/{r.partition}" if r.partition else r.dataset,
            r.status,
            r.outcome,
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
    """What a dry run would hold back. `kfm held` cannot tell: it shows what is held, not what would be."""
    from kfm.app.runs.queries import held_sources
    from kfm.cli.reading import FINDINGS, finding_rows

    sources: list[dict[str, Any]] = []
    for receipt in receipts:
        if receipt.held_rows or receipt.outcome == "held":
            for source in held_sources(session, receipt.dataset, receipt.partition):
                sources.append({**source, "source": f"{receipt.dataset}/{source['source']}"})
    if sources:
        screen.line()
        screen.table(("would hold", *FINDINGS[1:]), finding_rows(sources))


def _frozen(last: RefEntry | None, dataset: str) -> str:
    if last is None:
        return "it was frozen; its trigger is kept: `kfm resume`"
    why = f" ({last.reason})" if last.reason else ""
    thaw = "kfm thaw" if last.ref == "switch/global" else f"kfm thaw {dataset}"
    return f"frozen since {last.ts[:16]}Z by {last.actor}{why}; its trigger is kept: `{thaw}`, then `kfm resume`"


def show_delivered(screen: Screen, effects: list[Effect]) -> None:
    """What went outside with this command, which may have been committed by an earlier one."""
    if not screen.json:
        screen.say(f"delivered {len(effects)} of what was committed:")
        screen.table(
            ("delivered", "by", "size", "digest"),
            [(effect.target, effect.method, size(effect.size), short(effect.digest)) for effect in effects],
        )


def is_there(session: Session, effect: Effect) -> bool:
    from kfm.app.runs.queries import is_published

    return is_published(session, effect)


def show_effects(session: Session, screen: Screen, receipts: list[Receipt], effects: list[Effect]) -> None:
    """What a dry run foretells: the refs that would move, and what would change outside."""
    moves = [(move.ref, short(move.before), short(move.after)) for receipt in receipts for move in receipt.moves]
    if moves:
        screen.line()
        screen.table(("would move", "from", "to"), moves)
    there = [effect for effect in effects if is_there(session, effect)]
    for title, some in (("would write", [each for each in effects if each not in there]), ("is there already", there)):
        if some:
            screen.line()
            rows = [(effect.target, effect.method, size(effect.size), short(effect.digest)) for effect in some]
            screen.table((title, "by", "size", "digest"), rows)
    screen.say("dry run: nothing was changed")
