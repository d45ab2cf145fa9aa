"""What of a dataset stands outside, by the history of its published ref. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kfm.model.records import RefEntry

ALL = -1  # superseded versions stay, however many


def standing(moves: Iterable[RefEntry], keep: int = ALL) -> list[str]:
    """The versions whose files are public, oldest first; the last is the one the ref is at, if it is anywhere.

    A promotion supersedes: what was there before stays, up to `keep` versions. A rollback takes back: of what came
    after the version it goes to nothing stays. A withdrawal ends it all: what was public before it never stands
    again because of that.
    """
    found: list[str] = []
    for move in moves:
        if not move.after:
            found = []
        elif move.after not in found:
            found.append(move.after)
        elif move.op == "rollback":
            del found[found.index(move.after) + 1 :]
        else:
            found.remove(move.after)
            found.append(move.after)
    return found if keep < 0 else found[-1 - keep :]


def pointer_of(move: RefEntry) -> dict[str, Any]:
    """What `current.json` says after a move. `seq` counts the moves: a sink ignores what is older than it has."""
    return {
        "dataset": move.ref.partition("/")[2],
        "version": move.after,
        "before": move.before,
        "run_id": move.run_id,
        "seq": move.n,
    }
