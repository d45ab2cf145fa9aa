"""`kfm backup --keep N`: removes older backups of this installation once a new one is verified.

Everything is read before the first removal, and records go before the bytes that they name. So a kill leaves only whole
backups, and bytes that the same command removes later. Where a place also holds backups of another installation, only
bytes that a removed backup named are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kfm.app.backup.backup_record import digests_of, read_record
from kfm.app.backup.restore import verify

if TYPE_CHECKING:
    from kfm.app.backup.backup import Backup, Progress
    from kfm.app.backup.backup_place import BackupPlace

_TURN = 200  # removals between two looks whether this process may go on


class Thinned(NamedTuple):
    """What was removed: backups by name, and how many files; how many could not be removed."""

    backups: tuple[str, ...] = ()
    files: int = 0
    left: int = 0


def keep_newest(
    place: BackupPlace, newest: Backup, keep: int, check: Callable[[], None], progress: Progress
) -> Thinned:
    """Read every byte of the newest backup, then remove those of its installation that are older than the newest
    `keep`. Corrupt if a record or a list cannot be read; then nothing was removed."""
    verify(place, newest.record, progress)
    records = {name: read_record(place, name) for name in place.records.names()}
    own = [name for name, record in records.items() if record.installation == newest.record.installation]
    old = [name for name in own[:-keep] if name != newest.name]
    named = {name: digests_of(place, record) for name, record in records.items()}
    kept = set[str]().union(*(named[name] for name in records if name not in old))
    gone = (set[str]().union(*(named[name] for name in old)) if len(own) < len(records) else place.known()) - kept
    for name in old:
        check()
        place.records.remove(name)
    for count, digest in enumerate(sorted(gone)):
        if count % _TURN == 0:
            check()
        progress("remove", count, len(gone))
        place.discard(digest)
    left = len(gone & place.known()) if gone else 0
    return Thinned(tuple(old), len(gone) - left, left)
