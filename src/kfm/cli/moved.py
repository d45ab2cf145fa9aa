"""What moved, told to people: by an operation that somebody ordered, or by a run that publishes what it made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.cli.render import Screen, short

if TYPE_CHECKING:
    from kfm.app.core.session import Session
    from kfm.model.records import Receipt


def tell_moves(session: Session, screen: Screen, receipt: Receipt) -> None:
    """What moved, and what a person does next."""
    from kfm.app.runs.run_exports import published_folder

    if receipt.outcome == "unchanged":
        screen.say("nothing moved: it is there already")
    for move in receipt.moves:
        if move.ref.startswith("orders/"):
            _tell_order(screen, receipt, move.ref.partition("/")[2])
            continue
        name = short if screen.err.isatty() else str  # whole for a program, and in the receipt
        screen.say(f"{move.ref}: {name(move.before) or 'nothing'} → {name(move.after) or 'nothing'}")
        if not move.ref.startswith("published/"):
            continue
        after, before = (v and published_folder(session, receipt.dataset, v) for v in (move.after, move.before))
        if after:
            screen.say(f"its files are in {os.path.relpath(after)}")
        if before and session.stands(receipt.dataset, move.before):
            screen.say(f"those before stay in {os.path.relpath(before)}")
        elif before:
            screen.say("those before are removed")
    if receipt.job_type == "operation.thaw":
        waiting = sum(1 for _ in session.state.inbox.waiting()) + sum(1 for _ in session.state.runs.unfinished())
        if waiting:
            screen.say(f"{waiting} waiting: `kfm resume` takes {'it' if waiting == 1 else 'them'} up")


def _tell_order(screen: Screen, receipt: Receipt, order: str) -> None:
    said = {
        "operation.request": f"others must agree first: order {order}, see `kfm review show {order}`",
        "operation.approve": f"order {order} is approved by {receipt.actor}",
        "operation.reject": f"order {order} is rejected by {receipt.actor}",
        "operation.expire": f"order {order} has expired",
    }
    screen.say(said.get(receipt.job_type, f"done by order {order}"))
