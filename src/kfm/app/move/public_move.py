"""`kfm move --public`: publishes everything at another place, lets that place be the public one, and empties the old.

The files at the new place are written first, so readers lose nothing. From one commit on, the state says that the new
place is the public one; every process that has the old one in its settings is refused then. Until the old place is
empty, the state names it, and every command says so. An interrupted move goes on where it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.metadata import catalogs, pages_sink
from kfm.app.move.move_request import MoveRequest, record_move
from kfm.app.move.state_move import Terms
from kfm.app.runs.settlement import settle_session
from kfm.app.session.backends import open_public, open_tables
from kfm.app.session.moved_state import check_settings
from kfm.app.session.session import open_session, session_on
from kfm.app.session.state_place import Place, at_home, problem_of_place, put_place, read_place, transaction_of
from kfm.app.stewards.exported_files import export_again
from kfm.app.stewards.public_repair import check_all, published_datasets, repair_all
from kfm.config import load
from kfm.errors import KfmError, Refused
from kfm.model import refs

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.store.state import StoredState


class PublicMove(NamedTuple):
    """What a move of the published files did, or would do."""

    datasets: int  # datasets with files at the new place, or to be published there
    emptied: tuple[str, ...]  # the places from which the files were removed, or would be
    done: bool  # False if nothing was written


def preview_public(resolved: Resolved, request: MoveRequest) -> PublicMove:
    """Return what would be moved; nothing is written. Raise what would stop the move before its first change."""
    with open_session(resolved, mode="dry") as session:
        place = read_place(session.tables)
        if place.publish not in ("", request.to):  # else the move goes on from here
            check_settings(resolved, session.state)
        _check_place(session.state, place, resolved.elsewhere(publish=request.to), request)
        names = _published(session)
    return PublicMove(len(names), _others(place, resolved, request), done=False)


def _check_place(state: StoredState, place: Place, there: Resolved, request: MoveRequest) -> None:
    """Raise if the state is not in force, and Refused if files of another installation are at the new place."""
    if (problem := problem_of_place(place, state.now_ms())) is not None:
        raise problem
    if request.to not in (place.publish, *place.left) and (names := open_public(there, state).datasets()):
        raise Refused(
            f"{request.to} holds published files of {len(names)} dataset{'s' if len(names) > 1 else ''} already",
            hint="name an empty place; what is there may belong to another installation",
        )


def move_public(resolved: Resolved, request: MoveRequest, terms: Terms, **who: str) -> PublicMove:
    """Publish everything at the new place and remove it from the old. Raise the first problem; until the new place has
    every file, the old one stays in force."""
    there = load(resolved.path, {**os.environ, "KFM_PUBLISH": request.to})
    with _anywhere(there.elsewhere(pages=False, catalog=""), terms) as session:
        place = read_place(session.tables)
        _check_place(session.state, place, session.resolved, request)
    if not place.publish or resolved.location(place.publish) != resolved.location(request.to):
        with open_session(resolved, clock=terms.clock) as session:  # what waits is published at the old place first
            record_move(session, request, **who)
            settle_session(session)
            _keep(session, left=tuple(dict.fromkeys([*read_place(session.tables).left, request.to])))
        with _anywhere(there.elsewhere(pages=False, catalog=""), terms) as session:
            _publish(session, terms)
            place = read_place(session.tables)
            left = [each for each in place.left if resolved.location(each) != resolved.location(request.to)]
            _keep(session, publish=request.to, left=tuple(dict.fromkeys([*left, place.publish or request.here])))
    with open_session(there, clock=terms.clock) as session:
        settle_session(session, again=True)
        _publish(session, terms)
        export_again(session)
        others = read_place(session.tables).left
        names = _published(session)
    for other in others:
        with _anywhere(there.elsewhere(publish=other, pages=False, catalog=""), terms) as session:
            _empty(session, names, terms)
    with _anywhere(there, terms) as session:
        _keep(session, left=())
    return PublicMove(len(names), others, done=True)


def _others(place: Place, resolved: Resolved, request: MoveRequest) -> tuple[str, ...]:
    """Return the places that the move would empty."""
    found = dict.fromkeys([*place.left, place.publish or request.here])
    return tuple(each for each in found if resolved.location(each) != resolved.location(request.to))


@contextmanager
def _anywhere(resolved: Resolved, terms: Terms) -> Iterator[Session]:
    """Open the installation with another public place than the state names. Nothing else may use such a session."""
    session = session_on(resolved, "write", open_tables(resolved, "write"), clock=terms.clock, anywhere=True)
    try:
        yield session
    finally:
        session.close()


def _keep(session: Session, **fields: str | tuple[str, ...]) -> None:
    with transaction_of(session.tables):
        put_place(session.tables, msgspec.structs.replace(at_home(read_place(session.tables)), **fields))


def _published(session: Session) -> list[str]:
    """Return the datasets that have files in public."""
    return [name for name in published_datasets(session) if session.state.refs.at(refs.published(name))]


def _publish(session: Session, terms: Terms) -> None:
    """Write every published file that is missing at the place of this session. Raise the first problem, and Refused if
    a file is missing nevertheless."""
    names = published_datasets(session)
    for count, name in enumerate(names):
        terms.progress("publish", count, len(names))
        for _, problem in repair_all(session, [name])[2]:
            raise problem
    if session.config.catalog:
        catalogs.build(session)
    wrong, problems = check_all(session, names)
    for _, problem in problems:
        raise problem
    if wrong:
        raise Refused(
            f"{len(wrong)} files are not as published at {session.config.publish}",
            hint="the old place keeps its files; move them again, or see `kfm reconcile`",
        )


def _empty(session: Session, names: list[str], terms: Terms) -> None:
    """Remove what KFM has written at a place that is not the public one any more: pages and catalog, then the files of
    every dataset."""
    publisher = open_public(session.resolved, session.state)
    pages_sink.clear_place(session)
    catalogs.clear_place(session)
    found = publisher.datasets() or names  # releases cannot be listed
    for count, name in enumerate(found):
        terms.progress("remove", count, len(found))
        for each in publisher.differences(name, {}, []):
            publisher.remove_file(each.path, f"move/{each.path}", lambda: None)
        publisher.remove_rest(f"datasets/{name}", lambda: None)
    publisher.sync_removed(lambda: None)
    if rest := publisher.datasets():
        raise KfmError(
            f"files of {len(rest)} datasets remain at {session.config.publish}",
            hint="remove them there, then type the same command again",
        )
