"""The runs of an installation as sinks see them."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.delivery.public_runs import public_run
from kfm.model.ports import Objects, State
from kfm.model.public_run import PublicRun


def public_runs(state: State, objects: Objects) -> Iterator[PublicRun]:
    """Every run, in the order of the ledger."""
    return (public_run(state, objects, entry) for entry in state.ledger.entries())
