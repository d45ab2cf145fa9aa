"""`kfm upgrade`: takes and verifies a backup of the state as it is, then brings it to the format of this version.

Every command that writes upgrades an older state by itself, in one transaction: a kill leaves the old state or the new
one. This command takes the backup first, with the rows of the older format, so the program that wrote them can restore
it. The ledger of the new state then names the backup; a command that was killed in between is typed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.backup.backup import Progress, back_up, check_same
from kfm.app.backup.backup_record import read_record
from kfm.app.backup.restore import verify
from kfm.app.maintenance.maintenance_records import record
from kfm.app.move.move_claim import check_no_worker
from kfm.app.move.table_copy import rows_of
from kfm.app.session.backends import open_stored
from kfm.errors import Busy, Refused
from kfm.model import refs
from kfm.model.keys import digest
from kfm.store.state_formats import FORMAT, upgraded

if TYPE_CHECKING:
    from kfm.app.backup.backup import Backup
    from kfm.app.backup.backup_place import BackupPlace
    from kfm.app.session.session import Session
    from kfm.clock import Clock
    from kfm.config import Resolved
    from kfm.model.records import Receipt


class UpgradePlan(NamedTuple):
    """From which format an upgrade goes, and what it meets."""

    have: int
    unfinished: int  # runs, which this version finishes
    to: int = FORMAT

    @property
    def is_needed(self) -> bool:
        return self.have < self.to


def plan_upgrade(resolved: Resolved, place: BackupPlace, clock: Clock) -> UpgradePlan:
    """Look at the state and write nothing. Refused if there is no state, if a newer version wrote it, or if the place
    has backups of another installation; Busy if a worker is at work."""
    tables, have = open_stored(resolved)
    try:
        first = next(rows_of(tables, "ledger"), None)
        if first is None:
            raise Refused("there is no state to upgrade: nothing was run yet", hint="check `state` in kfm.yml")
        check_same(place, digest(first[1]))
        try:
            check_no_worker(upgraded(tables, have), clock)
        except Busy as problem:
            raise Busy(problem.message, hint="wait for them or stop them, `kfm up` too, and upgrade again") from problem
        return UpgradePlan(have, sum(1 for _ in tables.scan("open_runs")))
    finally:
        tables.close()


def back_up_first(resolved: Resolved, place: BackupPlace, clock: Clock, progress: Progress) -> Backup:
    """Take a backup of the state as it is, and read every byte of it again."""
    taken = back_up(resolved, place, clock, progress)
    verify(place, taken.record, progress)
    return taken


def record_upgrade(session: Session, place: BackupPlace, **who: str) -> Receipt | None:
    """Record the upgrade that opening this session did, or that one before did which was then killed. None if the
    newest backup there is not of an older format, or its upgrade was recorded."""
    names = place.records.names()
    name = names[-1] if names else ""
    if not name or (found := read_record(place, name)).state_format >= FORMAT or _last(session) == name:
        return None
    report = {"from": found.state_format, "to": FORMAT, "backup": name, "at": place.url}
    return record(session, "upgrade", report, **who)


def _last(session: Session) -> str:
    """Return the backup that the last upgrade names; "" if there was none."""
    at = session.state.refs.at(refs.maintenance("upgrade"))
    return str(msgspec.json.decode(session.objects.read(at)).get("backup", "")) if at else ""
