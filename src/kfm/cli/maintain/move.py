"""kfm move: carry the state, the objects or the published files of an installation to another place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfm.app.move.move_claim import check_no_worker
from kfm.app.move.move_request import MoveRequest, edit_config, is_done, record_move, requested
from kfm.app.move.object_move import ObjectMove, move_objects, preview_objects
from kfm.app.move.public_move import PublicMove, move_public, preview_public
from kfm.app.move.state_move import StateMove, Terms, check_target, move_state, preview
from kfm.app.move.table_copy import total_of
from kfm.app.runs.execution import Outcome, settle
from kfm.app.stewards.exported_files import export_again
from kfm.cli.parser import count
from kfm.cli.session import Tally, opened, person, settings
from kfm.clock import from_environment
from kfm.errors import BadInput

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen
    from kfm.config import Resolved

    Moved = StateMove | ObjectMove | PublicMove


MORE = """\
The address decides what moves: sqlite:, jsonl: and postgresql:// take the state, file: and s3:// the
objects. All other writers stop meanwhile; the copy is compared with the original before it is taken into
force. A move that was interrupted is continued by the same command; until it is complete, the old place
stays in force. Afterwards kfm.yml must name the new place: --edit writes it there. What was moved also
stays at the old place, marked as moved; nothing removes it.
With --public the published files move: they are written at the new place, and then removed from the old."""


def arguments(parser: Parser) -> None:
    parser.add_argument("--to", required=True, metavar="URL", help="the new place, as kfm.yml will name it")
    parser.add_argument("--public", action="store_true", help="move the published files (`publish:` of kfm.yml)")
    parser.add_argument("--all", action="store_true", help="objects: also those that the state does not name")
    parser.add_argument("--edit", action="store_true", help="change the line in kfm.yml afterwards")
    parser.add_argument(
        "--wait", type=count, default=0, metavar="S", help="wait up to so many seconds for workers that are at work"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be moved, and write nothing")
    parser.add_person(reason="moved by an operator")
    parser.set_defaults(handler=move, reports=True)


def move(options: argparse.Namespace, screen: Screen) -> int:
    resolved, who, tally = settings(options), person(options), Tally(screen)
    request = requested(resolved, options.to, public=options.public)
    if options.all and request.setting != "objects":
        raise BadInput("--all is of objects", hint="everything else moves whole; leave --all out")
    terms = Terms(from_environment(), options.wait, lambda why: screen.say(f"waiting: {why}"), screen.progress)
    if options.dry_run:
        _show(screen, request, _previewed(resolved, request, terms, everything=options.all))
        return 0
    done: Moved
    if request.setting == "publish":
        done = move_public(resolved, request, terms, **who)
        if options.edit:
            edit_config(resolved, request, terms.clock)
        _show(screen, request, done, edited=options.edit)
        return tally.code
    if not is_done(resolved, request):
        if request.setting == "state":
            check_target(resolved, request.to, terms.clock)
        with opened(options, screen, "write", resolved) as session:
            if not options.wait:
                check_no_worker(session.tables, session.clock)
            settle(session, Outcome([record_move(session, request, **who)]), tally)
    if request.setting == "state":
        done = move_state(resolved, request.to, terms)
    else:
        done = move_objects(resolved, request.to, terms, everything=options.all)
    if options.edit:
        edit_config(resolved, request, terms.clock)
        if request.moves_exports:
            with opened(options, screen, "write") as session:
                export_again(session)
    _show(screen, request, done, edited=options.edit)
    return tally.code


def _previewed(resolved: Resolved, request: MoveRequest, terms: Terms, *, everything: bool) -> Moved:
    if request.setting == "state":
        return preview(resolved, request.to, terms)
    if request.setting == "publish":
        return preview_public(resolved, request)
    return preview_objects(resolved, request.to, terms, everything=everything)


def _show(screen: Screen, request: MoveRequest, moved: Moved, *, edited: bool | None = None) -> None:
    """Show what was moved; without `edited` nothing was, in a dry run."""
    if screen.json:
        screen.data(
            {
                "what": request.setting,
                "from": request.here,
                "to": request.to,
                "moved": moved.done,
                "edited": bool(edited),
                "line": request.line,
                **_content(moved),
            }
        )
        return
    if isinstance(moved, StateMove):
        rows = [(each.table, each.rows, each.size) for each in moved.sums if each.rows]
        screen.table(("table", "rows", "bytes"), rows)
        what = f"{sum(each.rows for each in moved.sums):,} rows, {total_of(moved.sums)}"
    elif isinstance(moved, PublicMove):
        many = "1 dataset" if moved.datasets == 1 else f"{moved.datasets:,} datasets"
        what = f"the files of {many}, removed from {', '.join(moved.emptied) or 'nowhere'}"
    else:
        left = f"; {moved.left:,} that the state does not name stay behind" if moved.left else ""
        what = f"{moved.objects:,} objects, {moved.size:,} bytes, {moved.copied:,} of them not there before{left}"
    if edited is None:
        screen.say(f"would move to {request.to}: {what}; nothing was written")
        return
    screen.say(f"moved to {request.to}: {what}" if moved.done else f"was moved to {request.to} before: {what}")
    if not edited:
        screen.say(f"change kfm.yml to `{request.line}`; until then every command that writes is refused")
    if not edited and request.moves_exports:
        screen.say("receipts and checkpoints are exported next to the objects: then type `kfm reconcile --repair`")
    if request.setting == "publish":
        return
    old = f"the old state stays at {request.here}, marked as moved" if request.setting == "state" else ""
    screen.say(f"{old or f'the old files stay at {request.here}'}; nothing removes what is left there")


def _content(moved: Moved) -> dict[str, Any]:
    if isinstance(moved, StateMove):
        return {
            "tables": [{"table": e.table, "rows": e.rows, "bytes": e.size, "digest": e.digest} for e in moved.sums],
            "digest": total_of(moved.sums),
        }
    if isinstance(moved, PublicMove):
        return {"datasets": moved.datasets, "emptied": list(moved.emptied)}
    return {"objects": moved.objects, "bytes": moved.size, "copied": moved.copied, "left": moved.left}
