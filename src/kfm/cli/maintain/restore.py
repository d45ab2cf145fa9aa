"""kfm restore: make an installation out of a backup, frozen until a person has looked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.backup.backup_place import open_place
from kfm.app.backup.backup_record import chosen, read_record
from kfm.app.backup.restore import restore as restored
from kfm.app.backup.restore import verify
from kfm.cli.session import person, settings
from kfm.clock import from_environment

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen

MORE = """\
The state and the objects go to the places that kfm.yml names; there may be no state yet. Afterwards everything
is frozen: look with `kfm status` and `kfm reconcile`, then type `kfm thaw`. A dataset whose public files have
moved on since the backup is withdrawn. An interrupted restore is continued by the same command."""


def arguments(parser: Parser) -> None:
    parser.add_argument("origin", metavar="FROM", help="a folder, or s3://BUCKET/PREFIX")
    parser.add_argument("--at", default="", metavar="WHEN", help="a backup by name, or the newest by a time")
    parser.add_argument("--verify", action="store_true", help="only read and compare every byte; write nothing")
    parser.add_person(reason="restored by an operator")
    parser.set_defaults(handler=restore, reports=True)


def restore(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    place = open_place(resolved, options.origin)
    name = chosen(place, options.at)
    record = read_record(place, name)
    if options.verify:
        done = verify(place, record, screen.progress)
    else:
        done = restored(resolved, place, name, record, from_environment(), screen.progress, **person(options))
    if screen.json:
        counts = {"rows": done.rows, "objects": done.objects, "withdrawn": list(done.withdrawn)}
        counts |= {"unseen": list(done.unseen)}
        screen.data({"backup": name, "taken": record.taken, "restored": done.done, **counts})
        return 0
    what = f"backup {name}: {done.rows:,} rows and {done.objects:,} objects as of {record.taken}"
    if not done.done:
        screen.say(f"{what}; every byte is as it was written")
        return 0
    screen.say(f"restored {what}")
    for dataset in done.withdrawn:
        screen.say(f"{dataset}: its public files have moved on since the backup, so it is withdrawn; see `kfm status`")
    for dataset in done.unseen:
        screen.say(f"{dataset}: nothing at {resolved.config.publish} shows whether it was withdrawn since the backup")
    if done.unseen:
        if record.publish_at != resolved.config.publish:
            screen.say(f"the backup was taken while kfm.yml said publish: {record.publish_at}")
        screen.say(
            "a thaw makes these public again; withdraw first what shall not be: `kfm rollback DATASET --to nothing …`"
        )
    screen.say("everything is frozen: look with `kfm status` and `kfm reconcile`, then type `kfm thaw --reason …`")
    if record.lacks:
        screen.say(f"the backup has no keys and secrets: kfm.yml refers to them in {', '.join(record.lacks)}")
    return 0
