"""The row with which a state says whether it is in force: `meta/place`.

`kfm move` writes it. Without the row a state is in force, as nearly every state is. With it, every transaction that
writes is checked: while a move is under way it is Busy, and after the move it is Refused, with the line of kfm.yml to
change. So a process that was started before the move, or with an old kfm.yml, writes nothing that would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from kfm.errors import Busy, KfmError, Refused
from kfm.model.ports import Tables
from kfm.model.records import Lease, Record
from kfm.store.codec import decode, encode
from kfm.store.process_identity import is_held
from kfm.store.state import PLACE

if TYPE_CHECKING:
    from kfm.config import Resolved

TABLE, KEY = "meta", PLACE


class Place(Record, frozen=True):
    """Where a state stands in a move, and where its objects are since they were moved."""

    status: Literal["home", "leaving", "moved", "arriving", "sealed"] = "home"
    what: Literal["state", "objects"] = "state"  # what is being moved
    other: str = ""  # the address of the other place
    move: str = ""  # which move: both places name it
    holder: str = ""  # the process that moves, and until when its claim holds
    expires_ms: int = 0
    ttl_ms: int = 0
    objects: str = ""  # where the objects are, once they were moved

    def is_claimed(self, now_ms: int) -> bool:
        """Return whether a process that may be alive is moving this state now."""
        lease = Lease(scope="move", token=0, holder=self.holder, expires_ms=self.expires_ms, ttl_ms=self.ttl_ms)
        return bool(self.holder) and is_held(lease, now_ms)


def read_place(tables: Tables) -> Place:
    body = tables.get(TABLE, KEY)
    return Place() if body is None else decode_place(body)


def decode_place(body: bytes) -> Place:
    return decode(body, Place, f"{TABLE}/{KEY}")


def put_place(tables: Tables, place: Place) -> None:
    """Write the row inside an open transaction; a state that was never moved has none."""
    if place == Place():
        tables.delete(TABLE, KEY)
    else:
        tables.put(TABLE, KEY, encode(place))


def at_home(place: Place) -> Place:
    """Return the place of a state that is in force again, with its objects where they are."""
    return Place(objects=place.objects)


@contextmanager
def transaction_of(tables: Tables, *, durable: bool = True) -> Iterator[None]:
    """A transaction on bare tables: all writes of the block, or none."""
    tables.begin(durable)
    try:
        yield
    except BaseException:
        tables.rollback()
        raise
    tables.commit()


def problem_of_place(place: Place, now_ms: int) -> KfmError | None:
    """Return why this state may not be written; None if it may."""
    if place.status == "moved":
        return Refused(
            f"the state was moved to {place.other}", hint=f"change kfm.yml to `state: {place.other}`", moved=place.other
        )
    if place.status in ("arriving", "sealed"):
        return Refused(
            f"the state here is the copy of an unfinished move from {place.other}",
            hint=f"`kfm move` it again with `state: {place.other}` in kfm.yml; or remove this copy",
        )
    if place.status == "leaving" and place.is_claimed(now_ms):
        what = "state is" if place.what == "state" else "objects are"
        return Busy(f"the {what} being moved to {place.other}", hint="wait for `kfm move`; nothing was written")
    return None


def problem_of_objects(place: Place, resolved: Resolved) -> KfmError | None:
    """Return why objects may not be written where kfm.yml says; None if they may."""
    if place.objects and resolved.location(place.objects) != resolved.location(resolved.config.objects):
        return Refused(
            f"the objects were moved to {place.objects}", hint=f"change kfm.yml to `objects: {place.objects}`"
        )
    return None
