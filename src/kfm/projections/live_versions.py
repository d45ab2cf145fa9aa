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

    A promotion supersedes: up to `keep` earlier versions stay. A rollback removes every version that was promoted after
    the one it returns to. A withdrawal removes everything: an earlier version becomes public again only by a new
    promotion or rollback.
    """
    public = _Public()
    for move in moves:
        public.apply(move)
    found = list(public.since)
    return found if keep < 0 else found[-1 - keep :]


def withdrawn_versions(moves: Iterable[RefEntry]) -> dict[str, RefEntry]:
    """Return the versions that were public, were taken back and not published since, each with the move that took it
    back. A version that a newer one superseded is not among them."""
    public = _Public()
    found: dict[str, RefEntry] = {}
    for move in moves:
        for version in public.apply(move):
            found[version] = move
        found.pop(move.after, None)
    return found


class _Public:
    """The public versions after some moves of the published ref, each with the number of its last promotion."""

    def __init__(self) -> None:
        self.since: dict[str, int] = {}
        self._promoted: dict[str, int] = {}

    def apply(self, move: RefEntry) -> list[str]:
        """Apply one move, and return the versions that it takes back."""
        if move.after and move.op != "rollback":
            self.since.pop(move.after, None)
            self.since[move.after] = self._promoted[move.after] = move.n
            return []
        at = self._promoted.get(move.after, -1)
        gone = [version for version, since in self.since.items() if since >= at and version != move.after]
        if not move.after:
            gone = list(self.since)
        for version in (*gone, move.after):
            self.since.pop(version, None)
        if move.after:
            self.since[move.after] = at
        return gone


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
