"""kfm promote, rollback, freeze, thaw: moves of a ref, each foretold with --dry-run."""

from __future__ import annotations

import argparse

from kfm.cli.opening import known_dataset, opened, person, settings
from kfm.cli.render import Screen
from kfm.cli.running import Tally, show_runs
from kfm.contract.names import check_ref, is_digest, printable
from kfm.errors import BadInput


def promote(options: argparse.Namespace, screen: Screen) -> int:
    return _operate(options, screen, {})


def rollback(options: argparse.Namespace, screen: Screen) -> int:
    params = {}
    if options.to:
        if not is_digest(options.to):
            raise BadInput(f"{printable(options.to)} is not a digest", hint="see `kfm refs history REF`")
        params["to"] = options.to
    if options.ref:
        params["ref"] = check_ref(options.ref)
    return _operate(options, screen, params)


def freeze(options: argparse.Namespace, screen: Screen) -> int:
    return _operate(options, screen, {}, switch=True)


def thaw(options: argparse.Namespace, screen: Screen) -> int:
    return _operate(options, screen, {}, switch=True)


def _operate(options: argparse.Namespace, screen: Screen, params: dict[str, str], *, switch: bool = False) -> int:
    who = person(options)
    resolved = settings(options)
    name = options.dataset
    if not (switch and name == "global"):
        name = known_dataset(options, screen, resolved, name)
    if switch:
        params = {"scope": name}
    with opened(options, screen, "dry" if options.dry_run else "write", resolved) as house:
        tally = Tally(screen)
        tally.take(name, lambda: house.operation(options.command, name, params, **who))
        effects = house.settle()
        show_runs(house, screen, tally, effects)
        if not screen.json and not options.dry_run:
            for receipt in tally.receipts:
                for move in receipt.moves:
                    screen.say(f"{move.ref}: {move.before or 'nothing'} → {move.after or 'nothing'}")
        return tally.code
