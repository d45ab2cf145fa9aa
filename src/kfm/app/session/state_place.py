"""The row with which a state says whether it is in force, and where its objects and published files are: `meta/place`.

The first transaction writes it, and `kfm move` changes it. Every transaction that writes is checked: while a move is
under way it is Busy, and after the move it is Refused, with the line of kfm.yml to change. So a process that was
started before the move, or with an old kfm.yml, writes nothing that would be lost. A line of kfm.yml that somebody
changed by hand is Refused, too: the objects would be missing, and files that are withdrawn later would stay public at
the old place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kfm.errors import Busy, KfmError, Refused
from kfm.model.canonical import canonical
from kfm.model.ports import Tables
from kfm.model.records import Lease, Record
from kfm.store.codec import decode
from kfm.store.process_identity import is_held
from kfm.store.state import PLACE

if TYPE_CHECKING:
    from kfm.config import Resolved

TABLE, KEY = "meta", PLACE
RESTORE = "backup "  # begins the name of a move that is a restore
LEAVING = {"state": "state is", "objects": "objects are", "publish": "published files are"}


class Place(Record, frozen=True):
    """Where a state stands in a move, and where its objects are since they were moved."""

    status: Literal["home", "leaving", "moved", "arriving", "sealed"] = "home"
    what: Literal["state", "objects", "publish"] = "state"  # what is being moved
    other: str = ""  # the address of the other place
    move: str = ""  # which move: both places name it
    holder: str = ""  # the process that moves, and until when its claim holds
    expires_ms: int = 0
    ttl_ms: int = 0
    objects: str = ""  # where the objects are; "": not known yet
    publish: str = ""  # where the published files are
    left: tuple[str, ...] = ()  # other places that may have published files, because a move did not end

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
    """Write the row inside an open transaction."""
    tables.put(TABLE, KEY, row_of(place))


def row_of(place: Place) -> bytes:
    """Return the row, without what is as in every state: both runners write the same bytes."""
    shown = msgspec.to_builtins(place)
    return canonical({key: value for key, value in shown.items() if value != _EMPTY[key]})


def at_home(place: Place) -> Place:
    """Return the place of a state that is in force again, with its objects and published files where they are."""
    return Place(objects=place.objects, publish=place.publish, left=place.left)


_EMPTY: dict[str, Any] = msgspec.to_builtins(Place())


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
    if place.status == "arriving" and place.move.startswith(RESTORE):
        return Refused(
            f"the state here is an unfinished restore from {place.other}",
            hint=f"type `kfm restore {place.other}` again; or remove this state",
        )
    if place.status in ("arriving", "sealed"):
        return Refused(
            f"the state here is the copy of an unfinished move from {place.other}",
            hint=f"`kfm move` it again with `state: {place.other}` in kfm.yml; or remove this copy",
        )
    if place.status == "leaving" and place.is_claimed(now_ms):
        return Busy(
            f"the {LEAVING[place.what]} being moved to {place.other}", hint="wait for `kfm move`; nothing was written"
        )
    return None


def differing(place: Place, resolved: Resolved) -> Iterator[str]:
    """Yield the settings, `objects` or `publish`, in which kfm.yml names another place than the state."""
    for setting in ("objects", "publish"):
        here, there = getattr(resolved.config, setting), getattr(place, setting)
        if there and there != here and resolved.location(there) != resolved.location(here):
            yield setting


def problem_of_setting(setting: str, place: Place, resolved: Resolved) -> KfmError:
    """Return why nothing may be written where kfm.yml says."""
    here, there = getattr(resolved.config, setting), getattr(place, setting)
    what, word = ("objects", "") if setting == "objects" else ("published files", "--public ")
    return Refused(
        f"the {what} are at {there}, and kfm.yml names {here}",
        hint=f"change kfm.yml to `{setting}: {there}`; to move them, type `kfm move {word}--to {here}` after that",
    )
