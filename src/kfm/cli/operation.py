"""Commands that move refs: they request one operation, signed where a key is given, and report what moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.keyring import in_force, signer_with
from kfm.app.runs.execution import operation_request, work
from kfm.cli.render import Screen
from kfm.cli.run_report import show_runs, tell_moves
from kfm.cli.session import Tally, await_sinks, known_dataset, opened, person, settings
from kfm.errors import EXIT_CODES, BadInput
from kfm.model.operation_target import DATASETS, is_group

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from kfm.app.authority.keyring import Signer
    from kfm.app.runs.execution import Outcome
    from kfm.app.session.session import Session
    from kfm.config import Resolved


def operate_on_dataset(options: argparse.Namespace, screen: Screen, operation: str, params: dict[str, str]) -> int:
    name = known_dataset(options, screen, settings(options), options.dataset)
    return operate(options, screen, operation, name, params)


def scope_of(options: argparse.Namespace, screen: Screen) -> tuple[str, dict[str, str]]:
    """Return the dataset of a freeze or thaw, and the parameters that name its scope. `global` is everything."""
    name, resolved = options.dataset, settings(options)
    if is_group(name):
        from kfm.app.interventions.freeze_scopes import datasets_in

        with opened(options, screen, "read", resolved) as session:
            names = datasets_in(session, name)
        screen.say(f"{name}: " + ", ".join(names))
        return "global", {"scope": name, DATASETS: "\n".join(names)}
    if name != "global":
        name = known_dataset(options, screen, resolved, name)
    return name, {"scope": name}


def datasets_of(name: str, named: Mapping[str, str]) -> list[str]:
    """Return the datasets of such a scope; none for `global`."""
    if DATASETS in named:
        return named[DATASETS].split("\n")
    return [] if name == "global" else [name]


def operate(
    options: argparse.Namespace,
    screen: Screen,
    operation: str,
    dataset: str,
    params: dict[str, str] | Callable[[Session], dict[str, str]],
    *,
    quiet: bool = False,
    then: Callable[[Outcome], None] | None = None,
) -> int:
    """Request an operation, and report what moved unless `quiet`. Returns the exit code. A function makes the
    parameters from what the state says; `then` takes the outcome."""
    who = person(options)
    signer = signer_of(options, who["reason"])
    dry = getattr(options, "dry_run", False)
    with opened(options, screen, "dry" if dry else "write", settings(options)) as session:
        tally = Tally(screen)
        said = params if isinstance(params, dict) else params(session)
        outcome = work(
            session, [operation_request(operation, dataset, said, signer=signer, days=options.days, **who)], tally
        )
        await_sinks(options, session, tally, [dataset])
        if then is not None:
            then(outcome)
        if not quiet:
            show_runs(session, screen, tally, outcome)
        if not screen.json and not dry and not quiet:
            for receipt in outcome.receipts:
                tell_moves(session, screen, receipt)
        if any(receipt.job_type == "operation.request" for receipt in outcome.receipts):
            return tally.code or EXIT_CODES["denied"]  # nothing has moved yet
        return tally.code


def signer_of(options: argparse.Namespace, reason: str) -> Signer | None:
    return signer_with(options.key, reason, spelled="--reason") if options.key else None


def deploy(
    options: argparse.Namespace, screen: Screen, resolved: Resolved, operation: str, dataset: str, ref: str
) -> int:
    from kfm.app.authority.signed_policies import current

    who = person(options)
    signer = signer_of(options, who["reason"])
    with opened(options, screen, "write", resolved) as session:
        if in_force(session) is None:
            raise BadInput("there is no key list to sign by", hint="what the files say holds; or `kfm keys new`")
        tally = Tally(screen)
        params = {"ref": ref, "to": session.objects.put(current(session, ref))}
        outcome = work(
            session, [operation_request(operation, dataset, params, signer=signer, days=options.days, **who)], tally
        )
        show_runs(session, screen, tally, outcome)
        if not screen.json:
            for receipt in outcome.receipts:
                tell_moves(session, screen, receipt)
        asked = any(receipt.job_type == "operation.request" for receipt in outcome.receipts)
        return tally.code or (EXIT_CODES["denied"] if asked else 0)
