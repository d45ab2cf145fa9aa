"""kfm thaw: allow work again that was frozen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

from kfm.app.authority.keyring import in_force
from kfm.app.interventions.catch_up import CatchUp, CatchUpPlan, drop_triggers, plan_catch_up
from kfm.app.runs.execution import Outcome, settle
from kfm.cli.operation import datasets_of, operate, scope_of
from kfm.cli.render import Screen
from kfm.cli.session import Tally, opened, person, settings
from kfm.errors import Refused

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser

MORE = """\
Requests that came in meanwhile were kept. --catch-up says which of them run: all of them, the last of each kind
of work, or none. A plan that drops some is shown first; --dry-run shows any plan and does no more. Dropped
requests have a receipt. Runs that the freeze interrupted go on. A thaw opens red and amber, unless --level names
one."""


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "dataset",
        nargs="?",
        default="global",
        metavar="SCOPE",
        help="a dataset, updater/ID, community/NAME, or `global` (default)",
    )
    parser.add_argument("--level", choices=("red", "amber"), default="", help="open this level alone")
    parser.add_argument(
        "--catch-up",
        choices=get_args(CatchUp),
        default="all",
        help="which kept requests run: all, the last of each kind of work, or none (default: all)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would move, and the plan")
    parser.add_person(wants_reason=True)
    parser.add_signing()
    parser.set_defaults(handler=thaw, reports=True)


def thaw(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    name, named = scope_of(options, screen)
    params = {**named, **({"level": options.level} if options.level else {})}
    if options.catch_up != "all" or options.dry_run:
        who = person(options)
        with opened(options, screen, "dry" if options.dry_run else "write", resolved) as session:
            plan = plan_catch_up(session, datasets_of(name, named), options.catch_up, options.level)
            _show(screen, plan)
            if plan.drops and in_force(session) is not None:
                raise Refused(
                    "others must sign this thaw, and no request is dropped before they have",
                    hint="`kfm triggers drop ID --reason …` drops a kept request now; then type `kfm thaw --reason …`",
                )
            if plan.drops and not options.dry_run:  # first: after a kill in between it is still frozen
                tally = Tally(screen)
                settle(session, Outcome([drop_triggers(session, plan.drops, **who)]), tally)
                if tally.code:
                    return tally.code
    return operate(options, screen, "thaw", name, params)


def _show(screen: Screen, plan: CatchUpPlan) -> None:
    for what, triggers in (("to run", plan.runs), ("to drop", plan.drops)):
        for dataset, count in sorted(Counter(each.dataset for each in triggers).items()):
            screen.say(f"{dataset}: {count} kept request{'s' * (count > 1)} {what}")
    for run in sorted(plan.goes_on, key=lambda run: run.dataset):
        screen.say(f"{run.dataset}: interrupted run {run.run_id[:8]} to go on; `kfm runs cancel` ends it")
    if not plan.runs and not plan.drops:
        screen.say("no request was kept")
