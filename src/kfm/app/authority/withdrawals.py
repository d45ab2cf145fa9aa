"""Withdrawn versions, as the history of the published ref records them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kfm.model import refs
from kfm.model.reports.withdrawal import Withdrawal
from kfm.projections.live_versions import withdrawn_versions

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import RefEntry

ENCRYPTED = "(encrypted)"


def withdrawing_move(session: Session, dataset: str, version: str) -> RefEntry | None:
    """Return the move that took a version back; None if it is public, was only superseded or was never published."""
    return withdrawn_versions(session.state.refs.history(refs.published(dataset))).get(version) if version else None


def withdrawal(session: Session, dataset: str, version: str) -> Withdrawal | None:
    """Return by whom, when and why a version was withdrawn; None if it is not."""
    move = withdrawing_move(session, dataset, version)
    return None if move is None else as_withdrawal(move, version)


def as_withdrawal(move: RefEntry, version: str) -> Withdrawal:
    """Return the record of a withdrawal by the move that made it. A reason about protected data stays encrypted, also
    where the key is: reports are read by more people than the history."""
    return Withdrawal(
        version=version,
        by=move.actor,
        at=move.ts,
        reason=ENCRYPTED if "encrypted:" in move.reason else move.reason,
        run_id=move.run_id,
        current=move.after,
    )


def withdrawn_moves(moves: Sequence[RefEntry]) -> dict[int, Withdrawal]:
    """Return the moves that made a version public that is withdrawn now, by number, each with its withdrawal."""
    if not moves or not moves[0].ref.startswith(refs.PUBLISHED):
        return {}
    taken_back = withdrawn_versions(moves)
    return {move.n: as_withdrawal(taken_back[move.after], move.after) for move in moves if move.after in taken_back}


def publishable_versions(session: Session, dataset: str) -> set[str]:
    """Return the versions that `kfm publish` may name: the processed one, and those that were withdrawn."""
    withdrawn = withdrawn_versions(session.state.refs.history(refs.published(dataset)))
    return {session.state.refs.at(refs.processed(dataset)), *withdrawn} - {""}


def withdrawn_line(one: Withdrawal) -> str:
    """Return who withdrew a version, when and why, in one line without the version."""
    return f"withdrawn by {one.by} at {one.at}" + (f": {one.reason}" if one.reason else "")


def publish_again(dataset: str, version: str) -> str:
    """Return the command that publishes a withdrawn version again."""
    return f"kfm publish {dataset} --to {version.removeprefix('sha256:')[:16]} --reason …"
