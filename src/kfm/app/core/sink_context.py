"""What every sink that follows the ledger needs of the house."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.config import Resolved
    from kfm.model.ports import Lock, Log, Objects, State


class Session(Protocol):
    """As much of the house as there is to tell."""

    @property
    def resolved(self) -> Resolved: ...

    @property
    def state(self) -> State: ...

    @property
    def objects(self) -> Objects: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def log(self) -> Log: ...

    def retention(self, dataset: str) -> int: ...


def lock_of(session: Session, sink: str) -> Callable[[], Lock]:
    """For whoever tells this sink: one process at a time."""
    from kfm.store.locks import FileLock

    return partial(FileLock, os.path.join(session.resolved.at(".kfm"), f"sink-{sink}.lock"))
