"""kfm refs: where each ref points, and where it pointed before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfm.app.authority.private_reasons import shown_reason
from kfm.app.authority.withdrawals import withdrawn_moves
from kfm.app.runs.queries import (
    ref_history,
    short_run,
)
from kfm.app.runs.resolve import moved_ref
from kfm.cli.render import Screen, short
from kfm.cli.session import opened
from kfm.errors import BadInput
from kfm.model.names import check_ref
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.model.records import RefEntry
    from kfm.model.reports.withdrawal import Withdrawal


def arguments(parser: Parser) -> None:
    listed = parser.command("list", refs_list, "List refs and the versions they point to")
    listed.add_argument("prefix", nargs="?", default="", metavar="PREFIX", help="e.g. published/")
    history = parser.command("history", refs_history, "Show every move of a ref, oldest first")
    history.add_argument(
        "ref",
        metavar="REF",
        help="e.g. processed/noaa-stations; the name of a dataset: published/NAME, else processed/NAME",
    )


def refs_list(options: argparse.Namespace, screen: Screen) -> int:
    if options.prefix and not options.prefix.isprintable():
        raise BadInput(f"{printable(options.prefix)} is not the start of a ref", hint="e.g. published/")
    with opened(options, screen, "read") as session:
        refs = list(session.state.refs.all(options.prefix))
        if screen.json:
            screen.data([{"ref": ref, "version": version} for ref, version in refs])
        else:
            screen.table(("ref", "version"), refs)
    return 0


def refs_history(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        ref = check_ref(moved_ref(session, options.ref))
        moves = ref_history(session, ref)
        if ref != options.ref:
            screen.say(f"the moves of {ref}")
        taken_back = withdrawn_moves(moves)
        if screen.json:
            screen.data([_with_withdrawal(move, taken_back.get(move.n)) for move in moves])
        else:
            narrow = 0 < screen.width() < 110
            when = (lambda ts: ts[:16].replace("T", " ")) if narrow else str
            name = (lambda digest: short(digest).removeprefix("sha256:")) if narrow else short
            screen.table(
                ("n", "when", "op", "from", "to", *(["now"] if taken_back else []), "actor", "reason", "run"),
                [
                    (
                        e.n,
                        when(e.ts),
                        e.op,
                        name(e.before),
                        name(e.after),
                        *(["withdrawn" if e.n in taken_back else ""] if taken_back else []),
                        e.actor,
                        shown_reason(session, e.reason),
                        short_run(session, e.run_id),
                    )
                    for e in moves
                ],
            )
    return 0


def _with_withdrawal(move: RefEntry, taken_back: Withdrawal | None) -> dict[str, Any]:
    import msgspec

    return {**msgspec.to_builtins(move), "withdrawn": taken_back}
