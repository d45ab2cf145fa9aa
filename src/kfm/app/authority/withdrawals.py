"""Withdrawn versions, as the history of the published ref records them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from kfm.model import refs
from kfm.model.lineage_edges import DATASET
from kfm.model.reports.withdrawal import Withdrawal
from kfm.projections.live_versions import withdrawn_versions

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import RefEntry

ENCRYPTED = "(encrypted)"
EDGES = 50  # runs that read the first public version, among which the one that published it is searched


def public_moves(session: Session, dataset: str, version: str) -> list[RefEntry]:
    """Return the moves of the published ref since the last promotion of a version, oldest first; all moves if it was
    public by rollbacks only, and none if it was never public. They tell of this version what the whole history tells,
    and of a version that is current or was never published they are few."""
    if not version or not _may_have_been_public(session, dataset, version):
        return []
    found = []
    for move in session.state.refs.history(refs.published(dataset), reverse=True):
        found.append(move)
        if move.after == version and move.op != "rollback":
            return found[::-1]
    return found[::-1] if any(move.after == version for move in found) else []


def _may_have_been_public(session: Session, dataset: str, version: str) -> bool:
    """Return False if the lineage graph shows that no run moved the published ref to this version. The graph has an
    edge for each such move if it has one for the first; operations of early formats left none."""
    address, lineage = DATASET + dataset, session.state.lineage
    if any(True for _ in lineage.users(address, version)):
        return True
    first = next(iter(session.state.refs.history(refs.published(dataset), limit=1)), None)
    if first is None:
        return False
    return all(use.run_id != first.run_id for use in islice(lineage.users(address, first.after), EDGES))


def withdrawing_move(session: Session, dataset: str, version: str) -> RefEntry | None:
    """Return the move that took a version back; None if it is public, was only superseded or was never published."""
    return withdrawn_versions(public_moves(session, dataset, version)).get(version)


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
