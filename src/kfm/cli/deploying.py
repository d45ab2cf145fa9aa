"""kfm mask deploy, kfm policy deploy: what decides about protected data is signed before it holds."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kfm.cli.moved import tell_moves
from kfm.cli.moving import signer_of
from kfm.cli.opening import known_dataset, opened, person, settings
from kfm.cli.render import Screen
from kfm.cli.running import Tally, show_runs
from kfm.errors import EXIT_CODES, BadInput

if TYPE_CHECKING:
    from kfm.config import Resolved


def mask(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.core.signed_policies import MASKS, masked_source

    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset)
    masked_source(resolved, name, options.source)
    return _deploy(options, screen, resolved, "mask", name, f"{MASKS}{name}/{options.source}")


def policy(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.core.signed_policies import POLICY

    resolved = settings(options)
    return _deploy(options, screen, resolved, "policy", "policy", POLICY)


def _deploy(
    options: argparse.Namespace, screen: Screen, resolved: Resolved, operation: str, dataset: str, ref: str
) -> int:
    from kfm.app.core.keyring import in_force
    from kfm.app.core.signed_policies import current
    from kfm.app.runs.execution import moving, work

    who = person(options)
    signer = signer_of(options, who["reason"])
    with opened(options, screen, "write", resolved) as session:
        if in_force(session) is None:
            raise BadInput("there is no key list to sign by", hint="what the files say holds; or `kfm keys new`")
        tally = Tally(screen)
        params = {"ref": ref, "to": session.objects.put(current(session, ref))}
        outcome = work(session, [moving(operation, dataset, params, signer=signer, days=options.days, **who)], tally)
        show_runs(session, screen, tally, outcome)
        if not screen.json:
            for receipt in outcome.receipts:
                tell_moves(session, screen, receipt)
        asked = any(receipt.job_type == "operation.request" for receipt in outcome.receipts)
        return tally.code or (EXIT_CODES["denied"] if asked else 0)
