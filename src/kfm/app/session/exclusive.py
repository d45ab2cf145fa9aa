"""Work that one process of an installation does at a time, such as `kfm gc`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kfm.app.session.backends import lock_of
from kfm.errors import Busy

if TYPE_CHECKING:
    from kfm.app.session.session import Session


@contextmanager
def alone(session: Session, name: str, what: str) -> Iterator[Callable[[], None]]:
    """Hold the lock of this name; yield a function that raises Busy if the lock was lost meanwhile. Raise Busy, which
    says that another process does `what`, if it is taken."""
    lock = lock_of(session.resolved, session.state, name)()
    busy = Busy(f"another process {what}", hint="wait for it")
    try:
        if not lock.take():
            raise busy

        def check() -> None:
            held = getattr(lock, "is_held", None)
            if held is not None:
                with session.state.transaction(durable=False) as tx:
                    if not held(tx):
                        raise busy

        yield check
    finally:
        lock.close()
