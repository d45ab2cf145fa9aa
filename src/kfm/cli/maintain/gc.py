"""kfm gc: remove what nothing names any more, and what is past its retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.gc.collection import collect, preview
from kfm.app.runs.execution import Outcome, settle
from kfm.cli.session import Tally, opened, person, settings

if TYPE_CHECKING:
    import argparse

    from kfm.app.gc.collection import Collection
    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen

MORE = """\
An object that nothing names is set aside first, and removed by a later `kfm gc`, after `retention.grace`.
Whatever a ref, its history, a version, a ledger entry, a journal or anything else in the state names stays."""


def arguments(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show what would be removed, and write nothing")
    parser.add_person(reason="past its retention, or named by nothing")
    parser.set_defaults(handler=gc, reports=True)


def gc(options: argparse.Namespace, screen: Screen) -> int:
    resolved, tally = settings(options), Tally(screen)
    with opened(options, screen, "read" if options.dry_run else "write", resolved) as session:
        if options.dry_run:
            found = preview(session)
        else:
            found = collect(session, **person(options))
            if found.receipts:
                settle(session, Outcome(list(found.receipts)), tally)
    _show(screen, found, dry=options.dry_run)
    return tally.code


def _show(screen: Screen, found: Collection, *, dry: bool) -> None:
    if screen.json:
        kinds = [{"kind": each.kind, "count": each.many, "bytes": each.size} for each in found.kinds]
        screen.data({"dry_run": dry, "kinds": kinds, "waits_for": found.waits_for})
        return
    rows = [(each.kind, each.many, "" if each.size is None else each.size, each.what) for each in found.kinds]
    screen.table(("kind", "count", "bytes", "what"), [row for row in rows if row[1]])
    if found.waits_for:
        screen.say(f"run {found.waits_for} is unfinished, and what was set aside since it began stays; `kfm resume`")
    if found.is_empty:
        screen.say("nothing to remove")
    elif dry:
        screen.say("nothing was removed")
