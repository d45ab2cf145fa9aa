"""kfm promote, rollback, freeze, thaw: moves of a ref, each foretold with --dry-run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kfm.cli.moved import tell_moves
from kfm.cli.opening import known_dataset, opened, person, settings
from kfm.cli.render import Screen
from kfm.cli.running import Tally, show_runs
from kfm.errors import EXIT_CODES, BadInput
from kfm.model.names import check_ref, dataset_id, is_digest
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.core.keyring import Signer
    from kfm.model.records import Effect


def promote(options: argparse.Namespace, screen: Screen) -> int:
    return _operate(options, screen, {})


def rollback(options: argparse.Namespace, screen: Screen) -> int:
    params = {}
    if options.ref is not None:
        params["ref"] = check_ref(options.ref)
    if options.to is not None:
        params["to"] = _version_meant(options, screen, options.to)
    if options.leaves is not None:
        params["before"] = _version_meant(options, screen, options.leaves)
    return _operate(options, screen, params)


def _version_meant(options: argparse.Namespace, screen: Screen, text: str) -> str:
    """A digest may be given by its start, as tables show it, if the ref was at only one such version."""
    if text == "nothing" or is_digest(text):
        return text
    start = text.removeprefix("sha256:")
    if not (4 <= len(start) < 64 and all(c in "0123456789abcdef" for c in start)):
        raise BadInput(
            f"{printable(text)} is not a digest", hint="give sha256:… or the start of it, see `kfm refs history REF`"
        )
    ref = options.ref or f"published/{dataset_id(options.dataset)}"
    with opened(options, screen, "read") as session:
        known = {entry.after for entry in session.state.refs.history(ref)} - {""}
    found = [digest for digest in known if digest.startswith(f"sha256:{start}")]
    if len(found) != 1:
        how_many = "no version" if not found else f"{len(found)} versions"
        raise BadInput(
            f"{how_many} of {ref} begins with {start}" if not found else f"{how_many} of {ref} begin with {start}",
            hint=f"see `kfm refs history {ref}`",
        )
    return found[0]


def freeze(options: argparse.Namespace, screen: Screen) -> int:
    return _operate(options, screen, {}, switch=True)


def thaw(options: argparse.Namespace, screen: Screen) -> int:
    return _operate(options, screen, {}, switch=True)


def publish(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.execution import work
    from kfm.app.stewards.public_repair import check_all, published_datasets, repair_all

    resolved = settings(options)
    named = [known_dataset(options, screen, resolved, name) for name in options.dataset]
    with opened(options, screen, "write" if options.repair else "read", resolved) as session:
        tally = Tally(screen)
        effects: list[Effect] = []
        if options.repair:
            effects += work(session, (), tally, all_are_ours=True).effects
            found, done, problems = repair_all(session, named or published_datasets(session))
            effects += done
        else:
            found, problems = check_all(session, named or published_datasets(session))
        for name, problem in problems:
            tally.failed(name, problem)
        if screen.json:
            screen.data({"differences": found, "errors": tally.errors, "effects": effects})
        elif found:
            screen.table(("dataset", "what", "path"), [(each.dataset, each.kind, each.path) for each in found])
        if options.repair and not problems:
            screen.say(f"{len(found)} put right" if found else "all is as the refs say")
        elif not found and not problems:
            screen.say("all is as the refs say")
        return tally.code or (EXIT_CODES["refused"] if found and not options.repair else EXIT_CODES["done"])


def _operate(options: argparse.Namespace, screen: Screen, params: dict[str, str], *, switch: bool = False) -> int:
    resolved = settings(options)
    name = options.dataset
    if not (switch and name == "global"):
        name = known_dataset(options, screen, resolved, name)
    if switch:
        params = {"scope": name}
    return operate(options, screen, options.command, name, params)


def operate(
    options: argparse.Namespace,
    screen: Screen,
    operation: str,
    dataset: str,
    params: dict[str, str],
    *,
    quiet: bool = False,
) -> int:
    """Order an operation, and tell what moved, unless that is only a part of what was asked for."""
    from kfm.app.runs.execution import moving, work

    who = person(options)
    signer = signer_of(options, who["reason"])
    dry = getattr(options, "dry_run", False)
    with opened(options, screen, "dry" if dry else "write", settings(options)) as session:
        tally = Tally(screen)
        outcome = work(session, [moving(operation, dataset, params, signer=signer, days=options.days, **who)], tally)
        if not quiet:
            show_runs(session, screen, tally, outcome)
        if not screen.json and not dry and not quiet:
            for receipt in outcome.receipts:
                tell_moves(session, screen, receipt)
        if any(receipt.job_type == "operation.request" for receipt in outcome.receipts):
            return tally.code or EXIT_CODES["denied"]  # nothing has moved yet
        return tally.code


def signer_of(options: argparse.Namespace, reason: str) -> Signer | None:
    if not options.key:
        return None
    if len(options.key) > 1:
        raise BadInput("one signs with one key", hint="others sign with `kfm review approve`")
    if not reason.strip():
        raise BadInput("what is signed has a reason", hint="give it with --reason")
    from kfm.app.core.keyring import signer_at

    return signer_at(options.key[0])
