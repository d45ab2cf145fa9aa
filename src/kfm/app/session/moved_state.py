"""Checks, when an installation is opened, whether its state, objects and published files are where kfm.yml says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import msgspec

from kfm.app.session.backends import open_public, open_tables_at
from kfm.app.session.state_place import (
    Place,
    at_home,
    decode_place,
    differing,
    problem_of_place,
    problem_of_setting,
    put_place,
    read_place,
    transaction_of,
)
from kfm.errors import KfmError
from kfm.model import refs
from kfm.projections.file_paths import pointer_path

LEFT = "published files may still be at"
LEFT_CURE = "to remove them, type `kfm move --public --to"

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.model.ports import Tables
    from kfm.store.state import StoredState


def opened_place(resolved: Resolved, state: StoredState, mode: Literal["write", "read", "dry"]) -> str:
    """Check the place of a state when it is opened. Return a warning, '' if there is none: of a session that only reads
    what was moved, and of published files that a move has left. Raise Refused for an unfinished copy."""
    tables = state.tables
    place = read_place(tables)
    if place.status == "sealed" and _is_in_force(resolved, place):
        if mode == "write":
            complete(tables, place)
        place = at_home(place)
    problem = problem_of_place(place, state.now_ms()) or _problem_of_settings(resolved, state, place)
    if problem is None or (mode != "write" and place.status == "leaving"):
        return f"{LEFT}: {', '.join(place.left)}; {LEFT_CURE} {place.publish}`" if place.left else ""
    if mode == "write" or place.status in ("arriving", "sealed"):
        raise problem
    return f"{problem.message}, and what you read here may be old; {problem.hint}"


def judged(resolved: Resolved, state: StoredState, body: bytes) -> bool:
    """Inside a transaction: raise Busy during a move, Refused after it, and Refused if kfm.yml names another place for
    what is stored or published. Return whether the state is in force until another process writes. A move whose process
    died ends here: its claim is removed, so that it cannot go on if it was only paused."""
    place = decode_place(body)
    problem = problem_of_place(place, state.now_ms()) or _problem_of_settings(resolved, state, place)
    if problem is not None:
        raise problem
    here = resolved.config
    home = msgspec.structs.replace(at_home(place), objects=here.objects, publish=here.publish)
    if place == home:
        return True
    put_place(state.tables, home)
    return False  # this transaction may be rolled back


def _problem_of_settings(resolved: Resolved, state: StoredState, place: Place) -> KfmError | None:
    """Return why kfm.yml may not name other places than the state; None if nothing is stored or published there."""
    for setting in differing(place, resolved):
        if (_has_published if setting == "publish" else _has_run)(resolved, state, place):
            return problem_of_setting(setting, place, resolved)
    return None


def check_settings(resolved: Resolved, state: StoredState) -> None:
    """Outside a transaction: raise Refused if kfm.yml names another place for what is stored or published."""
    problem = _problem_of_settings(resolved, state, read_place(state.tables))
    if problem is not None:
        raise problem


def _has_run(_resolved: Resolved, state: StoredState, _place: Place) -> bool:
    return next(iter(state.ledger.entries(limit=1)), None) is not None


def _has_published(resolved: Resolved, state: StoredState, place: Place) -> bool:
    """Return whether there may be published files of this state at its place. There are none if somebody moved them by
    hand to where kfm.yml says. Releases of GitHub cannot be listed."""
    scheme, folder = resolved.location(place.publish)
    if scheme == "noop" or next(iter(state.refs.histories(refs.PUBLISHED)), None) is None:
        return False
    try:
        if scheme == "github" or (scheme == "file" and _has_entries(os.path.join(folder, "datasets"))):
            return True
        if scheme != "file" and open_public(resolved.elsewhere(publish=place.publish), state).datasets():
            return True
        here = open_public(resolved, state)
        live = (refs.parse(ref).dataset for ref, version in state.refs.all(refs.PUBLISHED) if version)
        return not all(here.digest_of_file(pointer_path(dataset)) for dataset in live)
    except (KfmError, OSError):  # a place that cannot be reached
        return True


def _has_entries(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return False


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
