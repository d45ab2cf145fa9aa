"""Checks, when an installation is opened, whether its state or its objects were moved to another place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kfm.app.session.backends import open_tables_at
from kfm.app.session.state_place import (
    Place,
    at_home,
    decode_place,
    problem_of_objects,
    problem_of_place,
    put_place,
    read_place,
    transaction_of,
)
from kfm.errors import KfmError

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.model.ports import Tables
    from kfm.store.state import StoredState


def opened_place(resolved: Resolved, state: StoredState, mode: Literal["write", "read", "dry"]) -> str:
    """Check the place of a state that has a row about it, when it is opened. Return a warning for a session that only
    reads what was moved; '' if there is none. Raise Refused for an unfinished copy."""
    tables = state.tables
    place = read_place(tables)
    if place.status == "sealed" and _is_in_force(resolved, place):
        if mode == "write":
            complete(tables, place)
        place = at_home(place)
    problem = problem_of_place(place, state.now_ms()) or problem_of_objects(place, resolved)
    if problem is None or (mode != "write" and place.status == "leaving"):
        return ""
    if mode == "write" or place.status in ("arriving", "sealed"):
        raise problem
    return f"{problem.message}, and what you read here may be old; {problem.hint}"


def judged(resolved: Resolved, state: StoredState, body: bytes) -> bool:
    """Inside a transaction: raise Busy during a move, Refused after it. Return whether the state is in force until
    another process writes. A move whose process died ends here: its claim is removed, so that it cannot go on if it was
    only paused."""
    place = decode_place(body)
    problem = problem_of_place(place, state.now_ms()) or problem_of_objects(place, resolved)
    if problem is not None:
        raise problem
    if place.status != "leaving":
        return True
    put_place(state.tables, at_home(place))
    return False  # this transaction may be rolled back


def complete(tables: Tables, sealed: Place) -> None:
    """Take a verified copy into force, once the old place says that it was moved."""
    with transaction_of(tables):
        if read_place(tables) == sealed:
            put_place(tables, at_home(sealed))


def _is_in_force(resolved: Resolved, place: Place) -> bool:
    """Return whether the old place says that this copy is in force: the mover died before it could say so here, too."""
    try:
        old = open_tables_at(resolved, place.other, "read")
    except KfmError:
        return False
    try:
        return is_moved_by(old, place.move)
    finally:
        old.close()


def is_moved_by(tables: Tables, move: str) -> bool:
    """Return whether a state was moved away by this move."""
    place = read_place(tables)
    return place.status == "moved" and place.move == move
