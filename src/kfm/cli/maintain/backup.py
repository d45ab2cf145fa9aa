"""kfm backup: copy the state and the objects to another disk, machine or bucket, while others work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.backup.backup import back_up
from kfm.app.backup.backup_place import BackupPlace, lock_for, open_place
from kfm.app.backup.backup_record import read_record
from kfm.app.backup.backup_retention import Thinned, keep_newest
from kfm.app.maintenance.maintenance_records import record
from kfm.app.runs.execution import Outcome, settle
from kfm.app.session.exclusive import alone
from kfm.cli.parser import count
from kfm.cli.session import Tally, opened, person, settings
from kfm.clock import from_environment
from kfm.errors import BadInput

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen

MORE = """\
Only what is new is copied; the state is copied as of one moment. A backup holds no keys and no secrets, and
no kfm.yml: it names the settings that refer to some. `kfm restore` reads it. Backups of another installation at
the same place stay as they are."""


def arguments(parser: Parser) -> None:
    parser.add_argument("to", metavar="TO", help="a folder, or s3://BUCKET/PREFIX")
    parser.add_argument(
        "--keep",
        type=count,
        metavar="N",
        help="verify it, then remove all but the newest N backups of this installation",
    )
    parser.add_argument("--list", action="store_true", help="list the backups that are there, and take none")
    parser.add_person(reason="taken by an operator")
    parser.set_defaults(handler=backup, reports=True)


def backup(options: argparse.Namespace, screen: Screen) -> int:
    if options.keep == 0:
        raise BadInput("--keep 0 would keep no backup", hint="keep 1 or more")
    if options.keep and options.list:
        raise BadInput("--list takes no backup and removes none", hint="leave out --list or --keep")
    resolved, tally = settings(options), Tally(screen)
    place = open_place(resolved, options.to)
    if options.list:
        _list(place, screen)
        return 0
    thinned = Thinned()
    with (
        opened(options, screen, "write", resolved) as session,
        alone(session, lock_for(place), f"takes a backup to {place.url}") as check,
    ):
        report = {"to": place.url} | ({"keep": options.keep} if options.keep else {})
        settle(session, Outcome([record(session, "backup", report, **person(options))]), tally)
        done = back_up(resolved, place, from_environment(), screen.progress)
        if options.keep:
            thinned = keep_newest(place, done, options.keep, check, screen.progress)
    rows = sum(each.rows for each in done.record.tables)
    if screen.json:
        counts = {"rows": rows, "objects": done.record.count, "new": done.new, "bytes": done.size}
        about = {"backup": done.name, "taken": done.record.taken, "to": place.url}
        screen.data({**about, **counts, "lacks": list(done.record.lacks), "removed": list(thinned.backups)})
        return tally.code
    screen.say(f"backup {done.name}: {rows:,} rows and {done.record.count:,} objects as of {done.record.taken}")
    screen.say(f"{done.new:,} files and {done.size:,} bytes are new at {place.url}")
    if options.keep:
        screen.say(f"every byte is as it was written; removed {len(thinned.backups)} older, {thinned.files:,} files")
    if thinned.left:
        screen.say(f"{thinned.left:,} files at {place.url} could not be removed: check who may write there")
    screen.say("it does not hold kfm.yml and the files that it names; keep these in version control")
    if lacks := done.record.lacks:
        screen.say(f"nor the keys and secrets of {', '.join(lacks)}; keep these apart")
    return tally.code


def _list(place: BackupPlace, screen: Screen) -> None:
    found = [(name, read_record(place, name)) for name in place.records.names()]
    if screen.json:
        screen.data([{"backup": name, "taken": each.taken, "objects": each.count} for name, each in found])
        return
    shown = [(name, each.taken, each.ledger, each.count) for name, each in found]
    screen.table(("backup", "taken", "ledger", "objects"), shown)
