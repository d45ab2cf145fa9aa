"""`kfm restore`: makes an installation out of a backup, on this machine or another, and leaves it frozen.

A backup is older than what happened since: a dataset may have been withdrawn, or a label tightened, and the restored
state does not know. So nothing is published before a person has looked and thaws it. A dataset whose public files say
that it has moved on since the backup is withdrawn: whoever wants it public again promotes it by name.

The rows arrive in a state that refuses all other writers until the restore is complete. An interrupted restore is
continued by the same command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.authority.recall import run_unsigned
from kfm.app.backup.backup_place import BackupPlace
from kfm.app.backup.backup_record import BackupRecord, BackupTable, objects_in, rows_in
from kfm.app.maintenance.maintenance_records import record as record_maintenance
from kfm.app.move.move_claim import Claim, claimed, now_of
from kfm.app.move.state_move import check_ledger
from kfm.app.move.table_copy import COPIED, Row, RowSum, TableSum, copy_rows, rows_of, sums_of
from kfm.app.runs.execution import problem_of
from kfm.app.runs.trigger_request import default_actor
from kfm.app.session.backends import open_objects_at, open_tables_at
from kfm.app.session.session import session_on
from kfm.app.session.state_place import RESTORE, Place, put_place, read_place, transaction_of
from kfm.app.stewards.exported_files import export_again
from kfm.errors import Busy, Corrupt, KfmError, Refused
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.operations.freeze import Freeze
from kfm.operations.move_updater import NOTHING, MoveUpdater
from kfm.operations.rollback import Rollback
from kfm.projections.file_paths import pointer_path
from kfm.projections.live_versions import pointer_of
from kfm.store.state import StoredState
from kfm.store.state_formats import FORMAT as STATE_FORMAT
from kfm.store.state_formats import upgrade

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.clock import Clock
    from kfm.config import Resolved
    from kfm.model.ports import Tables

Progress = Callable[[str, int, int], None]


class Restored(NamedTuple):
    """What a restore made."""

    rows: int
    objects: int
    withdrawn: tuple[str, ...]  # datasets whose public files have moved on since the backup
    done: bool  # False if it was only verified
    unseen: tuple[str, ...] = ()  # published datasets of which nothing public shows whether they moved on


def verify(place: BackupPlace, record: BackupRecord, progress: Progress) -> Restored:
    """Read every byte of a backup and compare it with its digest. Raise Corrupt for the first that differs."""
    rows = sum(1 for table in record.tables for _ in _checked(place, table, progress))
    names = list(objects_in(place, record))
    for count, name in enumerate(names):
        progress("verify", count, len(names))
        for _ in place.pieces(name):
            """The digest is compared at the end."""
    return Restored(rows, len(names), (), done=False)


def restore(
    resolved: Resolved,
    place: BackupPlace,
    name: str,
    record: BackupRecord,
    clock: Clock,
    progress: Progress,
    *,
    reason: str = "",
    actor: str = "",
) -> Restored:
    """Restore a backup to the places that kfm.yml names. Raise Refused if another state is there, and Corrupt if a byte
    of the backup is damaged; then nothing is in force yet."""
    if record.state_format > STATE_FORMAT:
        raise Refused("this backup was made by a newer kfm", hint="install a newer kfm")
    tables = open_tables_at(resolved, resolved.config.state, "write")
    try:
        arriving = _arrive(tables, name, place.url, clock)
    except BaseException:
        tables.close()
        raise
    try:
        objects = _objects(resolved, place, record, tables, arriving, clock, progress)
        kept = {each.table: each for each in record.tables}
        for table in COPIED:
            rows = _checked(place, kept[table], progress) if table in kept else iter(())
            copy_rows(rows, tables, table, arriving.write, lambda _rows: arriving.beat())
        if sums_of(tables) != _expected(record):
            raise Corrupt("the restored rows are not those of the backup", hint="check the disk, then restore again")
        if record.state_format < STATE_FORMAT:
            with transaction_of(tables):
                arriving.check()
                upgrade(tables, record.state_format)
        check_ledger(resolved, tables, clock, "of the restored state")
        arriving.beat()
        session = session_on(resolved, "write", tables, clock=clock, anywhere=True)
        unseen = tuple(_unseen(session))
        withdrawn = _take_into_force(session, name, record, reason=reason, actor=actor)
        arriving.change(Place(objects=resolved.config.objects, publish=resolved.config.publish))
    except BaseException:
        with suppress(KfmError):  # another process may go on at once
            arriving.change(msgspec.structs.replace(arriving.place, holder="", expires_ms=0, ttl_ms=0))
        raise
    finally:
        with suppress(KfmError):
            tables.close()
    return Restored(sum(each.rows for each in record.tables), objects, withdrawn, done=True, unseen=unseen)


def _expected(record: BackupRecord) -> list[TableSum]:
    """Return the sums of all tables after the restore: those that an older format lacks are empty."""
    known = {each.table: each for each in record.sums()}
    return [known.get(name) or RowSum(name).found() for name in COPIED]


def _arrive(tables: Tables, name: str, url: str, clock: Clock) -> Claim:
    """Claim the empty place for this restore. Raise Refused if it holds a state, Busy if another process restores."""
    with transaction_of(tables):
        now, found = now_of(tables, clock), read_place(tables)
        if found.is_claimed(now):
            raise Busy("another process restores a backup here, or moves a state", hint="wait for it")
        is_ours = found.status == "arriving" and found.move.startswith(RESTORE)
        if not is_ours and any(next(rows_of(tables, table), None) is not None for table in COPIED):
            raise Refused(
                "there is a state already, and a restore would replace it",
                hint="name an empty place for `state:` in kfm.yml; move the old state away if it is lost",
            )
        place = claimed(Place(), now, status="arriving", other=url, move=f"{RESTORE}{name}")
        put_place(tables, place)
    return Claim(tables, clock, place)


def _objects(
    resolved: Resolved,
    place: BackupPlace,
    record: BackupRecord,
    tables: Tables,
    arriving: Claim,
    clock: Clock,
    progress: Progress,
) -> int:
    """Copy every object that is not there yet, or is damaged there. Return how many the backup has."""
    target = open_objects_at(resolved, resolved.config.objects, StoredState(tables, clock.now_ms))
    names = list(objects_in(place, record))
    for count, name in enumerate(names):
        progress("objects", count, len(names))
        arriving.beat()
        if target.is_damaged(name, 0):
            target.discard(name)
            if target.put_large(place.pieces(name)) != name:
                raise Corrupt(f"object {name} of the backup is damaged", hint="restore another backup")
    return len(names)


def _checked(place: BackupPlace, table: BackupTable, progress: Progress) -> Iterator[Row]:
    """Yield the rows of a table. Raise Corrupt at the end if they are not those that were backed up."""
    total = RowSum(table.table)
    for rows, (key, value) in enumerate(rows_in(place, table), 1):
        total.add(key, value)
        yield key, value
        if rows % 1000 == 0:
            progress(table.table, rows, table.rows)
    if total.found() != table.sum():
        raise Corrupt(f"table {table.table} of the backup has other rows", hint="restore another backup")


def _take_into_force(session: Session, name: str, record: BackupRecord, *, reason: str, actor: str) -> tuple[str, ...]:
    """Record the restore, withdraw what has moved on in public since the backup, and freeze everything. Nothing is
    delivered meanwhile."""
    withdrawn = tuple(_moved_on(session))
    changes = {"backup": name, "taken": record.taken, "withdrawn": list(withdrawn)}
    record_maintenance(session, "restore", changes, reason=reason, actor=actor)
    acts: list[tuple[MoveUpdater, str, dict[str, str]]] = [(Rollback(), each, {"to": NOTHING}) for each in withdrawn]
    for operation, scope, params in (*acts, (Freeze(), "global", {})):
        # Nobody signs this: the key list came with the backup, and without a freeze nothing would be in force.
        receipt = run_unsigned(session, operation, scope, params, actor=actor or default_actor(), reason=reason)
        if (problem := problem_of(receipt)) is not None:
            raise problem
    session.state.sync()
    export_again(session)  # receipts are files, too, and private
    return withdrawn


def _moved_on(session: Session) -> Iterator[str]:
    """Yield the published datasets whose public pointer is none that the restored state ever wrote: they were published
    again or withdrawn after the backup. Where nothing is public, nobody can tell."""
    for ref, version in session.state.refs.all(refs.PUBLISHED):
        if not version:
            continue
        dataset = refs.parse(ref).dataset
        try:
            found = session.publisher.digest_of_file(pointer_path(dataset))
        except KfmError:
            found = "unknown"
        moves = session.state.refs.history(ref)
        if found is not None and found not in {digest(canonical(pointer_of(move))) for move in moves}:
            yield dataset


def _unseen(session: Session) -> Iterator[str]:
    """Yield the published datasets of which there is no public pointer: nobody can tell whether they were withdrawn
    since the backup. So it is on a new machine, and if `publish:` names another place than it did."""
    for ref, version in session.state.refs.all(refs.PUBLISHED):
        dataset = refs.parse(ref).dataset
        with suppress(KfmError):
            if version and session.publisher.digest_of_file(pointer_path(dataset)) is None:
                yield dataset
