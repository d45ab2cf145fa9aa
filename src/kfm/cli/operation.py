"""Commands that move refs: they request one operation, signed where a key is given, and report what moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.keyring import in_force, signer_at
from kfm.app.runs.execution import operation_request, work
from kfm.cli.render import Screen
from kfm.cli.run_report import show_runs, tell_moves
from kfm.cli.session import Tally, await_sinks, known_dataset, opened, person, settings
from kfm.errors import EXIT_CODES, BadInput
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import argparse

    from kfm.app.authority.keyring import Signer
    from kfm.config import Resolved


def operate_on_dataset(options: argparse.Namespace, screen: Screen, operation: str, params: dict[str, str]) -> int:
    name = known_dataset(options, screen, settings(options), options.dataset)
    return operate(options, screen, operation, name, params)


def operate_on_scope(options: argparse.Namespace, screen: Screen, operation: str) -> int:
    """Request an operation on a dataset, or on `global`, which is everything. Return the exit code."""
    name = options.dataset
    if name != "global":
        name = known_dataset(options, screen, settings(options), name)
    return operate(options, screen, operation, name, {"scope": name})


def operate(
    options: argparse.Namespace,
    screen: Screen,
    operation: str,
    dataset: str,
    params: dict[str, str],
    *,
    quiet: bool = False,
) -> int:
    """Request an operation, and report what moved unless `quiet`. Returns the exit code."""
    who = person(options)
    signer = signer_of(options, who["reason"])
    dry = getattr(options, "dry_run", False)
    with opened(options, screen, "dry" if dry else "write", settings(options)) as session:
        tally = Tally(screen)
        outcome = work(
            session, [operation_request(operation, dataset, params, signer=signer, days=options.days, **who)], tally
        )
        await_sinks(options, session, tally, [dataset])
        if not quiet:
            show_runs(session, screen, tally, outcome)
        if not screen.json and not dry and not quiet:
            for receipt in outcome.receipts:
                tell_moves(session, screen, receipt)
        if any(receipt.job_type == "operation.request" for receipt in outcome.receipts):
            return tally.code or EXIT_CODES["denied"]  # nothing has moved yet
        return tally.code


def digest_meant(text: str, known: set[str], ref: str) -> str:
    """Return the digest among `known` that begins with the text. BadInput unless there is exactly one."""
    start = text.removeprefix("sha256:")
    if not (4 <= len(start) <= 64 and all(c in "0123456789abcdef" for c in start)):
        raise BadInput(
            f"{printable(text)} is not a digest", hint="give sha256:… or the start of it, see `kfm refs history REF`"
        )
    found = [digest for digest in known if digest.startswith(f"sha256:{start}")]
    if len(found) != 1:
        how_many = "no version" if not found else f"{len(found)} versions"
        raise BadInput(
            f"{how_many} of {ref} begins with {start}" if not found else f"{how_many} of {ref} begin with {start}",
            hint=f"see `kfm refs history {ref}`",
        )
    return found[0]


def signer_of(options: argparse.Namespace, reason: str) -> Signer | None:
    if not options.key:
        return None
    if len(options.key) > 1:
        raise BadInput("a person signs with one key", hint="others sign with `kfm review approve`")
    if not reason.strip():
        raise BadInput("what is signed has a reason", hint="give it with --reason")
    return signer_at(options.key[0])


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
