"""Which versions of a dataset are public, by the history of its published ref. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kfm.model import refs
from kfm.model.records import RefEntry

ALL = -1  # keep all superseded versions


def live_versions(moves: Iterable[RefEntry], keep: int = ALL) -> list[str]:
    """Return the versions whose files are public, oldest first; the last one is the ref's current version, if it has
    one.

    A promotion supersedes: up to `keep` earlier versions stay. A rollback removes every version after the one it
    returns to. A withdrawal removes everything: an earlier version becomes public again only by a new promotion.
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


def last_move(moves: Iterable[RefEntry], version: str) -> RefEntry | None:
    """Return the last move of the published ref to a version."""
    return max((move for move in moves if move.after == version), key=lambda move: move.n, default=None)


def pointer_of(move: RefEntry) -> dict[str, Any]:
    """Return the content of `current.json` after a move of the published ref. `seq` counts the moves, so that a sink
    ignores older ones."""
    return {
        "dataset": refs.parse(move.ref).dataset,
        "version": move.after,
        "before": move.before,
        "run_id": move.run_id,
        "seq": move.n,
    }
