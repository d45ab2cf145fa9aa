"""The change request that a trigger brings: its requester signed it elsewhere, and the authority decides about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kfm.crypto.change_request import read_order
from kfm.model.operation_target import SIGNED

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Trigger


@contextmanager
def brought_request(session: Session, trigger: Trigger) -> Iterator[None]:
    """Offer the request to the authority while the operation runs, as if it were signed here."""
    before, session.offered = session.offered, read_order(trigger.params[SIGNED].encode())
    try:
        yield
    finally:
        session.offered = before
