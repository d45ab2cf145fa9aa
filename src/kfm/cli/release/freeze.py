"""kfm freeze: stop everything, or one dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.cli import WAIT_LIMIT_S
from kfm.cli.operation import datasets_of, operate, scope_of
from kfm.cli.parser import count
from kfm.cli.render import Screen
from kfm.cli.session import opened, settings
from kfm.errors import EXIT_CODES, BadInput

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


MORE = """\
At red, work stops at its next step and leaves a receipt; requests are kept for `kfm thaw`. `kfm kill-switch`
is the same command. updater/ID stands for the datasets that an updater makes, community/NAME for those under labels
that name this authority, custodian or community label, with all that read them."""


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "dataset",
        nargs="?",
        default="global",
        metavar="SCOPE",
        help="a dataset, updater/ID, community/NAME, or `global` (default)",
    )
    parser.add_argument(
        "--level",
        choices=("red", "amber"),
        default="red",
        help="red stops all work; amber stops backfills, hotfixes and automatic promotions (default: red)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    parser.add_argument(
        "--wait",
        action="store_true",
        dest="until_quiet",
        help="wait until no run is at work any more, and say how long that took; exit 69 if one still is",
    )
    parser.add_argument(
        "--wait-limit",
        type=count,
        default=WAIT_LIMIT_S,
        metavar="S",
        help=f"for at most so many seconds (default: {WAIT_LIMIT_S})",
    )
    parser.add_person(reason="stopped by an operator")
    parser.add_signing()
    parser.set_defaults(handler=freeze, reports=True, closes=True)


def freeze(options: argparse.Namespace, screen: Screen) -> int:
    if options.until_quiet and options.level != "red":
        raise BadInput("--wait goes with red: at amber other runs go on", hint="leave --wait out, or freeze at red")
    name, named = scope_of(options, screen)
    params = {**named, **({"level": options.level} if options.level != "red" else {})}
    code = operate(options, screen, "freeze", name, params)
    if code or not options.until_quiet or options.dry_run:
        return code
    return _await_quiet(options, screen, datasets_of(name, named))


def _await_quiet(options: argparse.Namespace, screen: Screen, datasets: list[str]) -> int:
    """Wait until no run is at work, and report it. Return the exit code."""
    from kfm.app.interventions.quiescence import wait_until_quiet

    with opened(options, screen, "read", settings(options)) as session:
        found = wait_until_quiet(session, datasets, options.wait_limit)
    for run in found.left:
        screen.say(f"{run.dataset}: run {run.run_id[:8]} is still at work after {found.waited_s:.1f} s; it stops when")
        screen.say(f"  its step ends: see `kfm runs show {run.run_id[:8]}`")
    if not found.left:
        screen.say(f"no run is at work, {found.waited_s:.1f} s after the freeze")
    return EXIT_CODES["unavailable"] if found.left else 0
