"""kfm run, plan, resume: the walk, from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kfm.cli.opening import code_of, find_run, known_dataset, one_line, opened, person, settings, together
from kfm.cli.render import Screen, short, size
from kfm.errors import BadInput, Broken, KfmError

if TYPE_CHECKING:
    from kfm.contract.records import Effect, Receipt
    from kfm.runtime import House


class Tally:
    """What became of several runs: receipts, and the errors of those that left none."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.receipts: list[Receipt] = []
        self.errors: list[dict[str, Any]] = []
        self._codes: list[int] = []

    def take(self, name: str, work: Callable[[], Receipt], *, tell_noop: bool = False) -> None:
        """One run. Its failure does not keep the others from running, unless the ground itself gave way."""
        try:
            receipt = work()
        except Broken:
            raise
        except KfmError as problem:
            self._codes.append(problem.exit_code)
            self.errors.append(
                {"dataset": name, "code": problem.code, "message": problem.message, "hint": problem.hint}
            )
            self._screen.fail(f"{name}: {problem}")
            return
        self.note(receipt, tell_noop=tell_noop)

    def note(self, receipt: Receipt, *, tell_noop: bool = False) -> None:
        self.receipts.append(receipt)
        self._codes.append(code_of(receipt, tell_noop=tell_noop))
        for note in receipt.errors:
            self._screen.fail(f"{receipt.dataset}: {note.message}")

    @property
    def code(self) -> int:
        return together(self._codes)


def run(options: argparse.Namespace, screen: Screen) -> int:
    who = person(options)
    window = one_line("--window", options.window)
    if options.force and not who["reason"].strip():
        raise BadInput("--force needs a reason", hint="add --reason; it goes into the ledger")
    resolved = settings(options)
    named = [known_dataset(options, screen, resolved, name) for name in options.dataset]
    names = named or sorted(resolved.config.datasets)
    if not names:
        raise BadInput("the configuration names no dataset", hint="add one under `datasets:`")
    with opened(options, screen, "dry" if options.dry_run else "write", resolved) as house:
        tally = Tally(screen)
        for name in dict.fromkeys(names):
            work = partial(_run_one, house, name, window, options.force, who["reason"], who["actor"])
            tally.take(name, work, tell_noop=options.exit_code)
        effects = house.settle()
        show_runs(house, screen, tally, effects)
        return tally.code


def _run_one(house: House, name: str, window: str, force: bool, reason: str, actor: str) -> Receipt:
    return house.run(house.trigger(name, window=window, force=force, reason=reason, actor=actor))


def _resume_one(house: House, run_id: str) -> Receipt:
    return next(iter(house.resume(run_id)))


def resume(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    run_id = ""
    if options.run is not None:
        with opened(options, screen, "read", resolved) as house:
            run_id = find_run(house, options.run)
    with opened(options, screen, "write", resolved) as house:
        tally = Tally(screen)
        if run_id:
            tally.take(run_id, partial(_resume_one, house, run_id))
        else:
            for unfinished_id in [unfinished.run_id for unfinished in house.state.open_runs()]:
                tally.take(unfinished_id, partial(_resume_one, house, unfinished_id))
            if not tally.errors:  # then the triggers that a freeze kept
                for receipt in house.resume():
                    tally.note(receipt)
        effects = house.settle()
        if not (tally.receipts or tally.errors):
            screen.say("nothing was left to resume")
        show_runs(house, screen, tally, effects)
        return tally.code


def show_runs(house: House, screen: Screen, tally: Tally, effects: list[Effect]) -> None:
    if screen.json:
        screen.data({"receipts": tally.receipts, "errors": tally.errors, "effects": effects})
        return
    if tally.receipts:
        screen.table(
            ("dataset", "status", "outcome", "steps", "held", "version", "run"),
            [
                (r.dataset, r.status, r.outcome, r.steps, r.held_rows, short(_version_of(r)), r.run_id)
                for r in tally.receipts
            ],
        )
    if house.mode == "dry":
        show_effects(screen, tally.receipts, effects)


def _version_of(receipt: Receipt) -> str:
    return next((item.checksum for item in receipt.outputs if item.kind == "dataset"), "")


def show_effects(screen: Screen, receipts: list[Receipt], effects: list[Effect]) -> None:
    """What a dry run foretells: the refs that would move, and what would change outside."""
    moves = [(move.ref, short(move.before), short(move.after)) for receipt in receipts for move in receipt.moves]
    if moves:
        screen.line()
        screen.table(("would move", "from", "to"), moves)
    if effects:
        screen.line()
        rows = [(effect.target, effect.method, size(effect.size), short(effect.digest)) for effect in effects]
        screen.table(("would write", "by", "size", "digest"), rows)
    screen.say("dry run: nothing was changed")
