"""kfm upgrade: back up the state as it is, then bring it to the format of this version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.backup.backup_place import open_place
from kfm.app.backup.upgrade import back_up_first, plan_upgrade, record_upgrade
from kfm.app.runs.execution import Outcome, settle
from kfm.cli.session import Tally, opened, person, settings
from kfm.clock import from_environment

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen

MORE = """\
Type it once after you install a new version, while nothing else runs. The backup is taken and verified first; it has
the rows of the older format, so the version that wrote them can restore it. If no backup can be taken, nothing
changes. Without this command, the next command that writes upgrades the state without a backup."""


def arguments(parser: Parser) -> None:
    parser.add_argument("to", metavar="TO", help="where the backup goes: a folder, or s3://BUCKET/PREFIX")
    parser.add_argument("--dry-run", action="store_true", help="only show the formats and where the backup would go")
    parser.add_person(reason="a new version of kfm")
    parser.set_defaults(handler=upgrade, reports=True)


def upgrade(options: argparse.Namespace, screen: Screen) -> int:
    resolved, tally, clock = settings(options), Tally(screen), from_environment()
    place = open_place(resolved, options.to)
    plan = plan_upgrade(resolved, place, clock)
    name = ""
    if not options.dry_run:
        who = person(options)
        if plan.is_needed:
            name = back_up_first(resolved, place, clock, screen.progress).name
        with opened(options, screen, "write", resolved) as session:
            receipt = record_upgrade(session, place, **who)
            if receipt is not None:
                settle(session, Outcome([receipt]), tally)
    if screen.json:
        formats = {"from": plan.have, "to": plan.to, "unfinished": plan.unfinished}
        screen.data({"dry_run": options.dry_run, **formats, "backup": name or None, "at": place.url})
        return tally.code
    if not plan.is_needed:
        screen.say(f"the state has format {plan.to}, which is that of this version: nothing to upgrade")
        return tally.code
    if options.dry_run:
        screen.say(f"would back up to {place.url}, and upgrade the state from format {plan.have} to {plan.to}")
    else:
        screen.say(f"backup {name} is at {place.url}; every byte is as it was written")
        screen.say(f"upgraded the state from format {plan.have} to {plan.to}")
    if plan.unfinished:
        runs = "1 run is" if plan.unfinished == 1 else f"{plan.unfinished} runs are"
        screen.say(f"{runs} unfinished: type `kfm resume` after the upgrade")
    return tally.code
