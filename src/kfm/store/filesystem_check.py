"""Checks whether a folder is on a file system that keeps what was written, from the mount table and by trying it."""

from __future__ import annotations

import os

from kfm.fsio import REAL
from kfm.model.records import Record
from kfm.store.locks import FileLock

# File systems that lose everything at a power cut, or with unreliable locks and syncs.
_WEAK = {
    "tmpfs": "it lives in memory: a power cut loses everything",
    "ramfs": "it lives in memory: a power cut loses everything",
    "nfs": "locks and syncs of network file systems cannot be relied on",
    "nfs4": "locks and syncs of network file systems cannot be relied on",
    "cifs": "locks and syncs of network file systems cannot be relied on",
    "smb3": "locks and syncs of network file systems cannot be relied on",
    "9p": "syncs may stop at the host's cache",
    "vboxsf": "syncs may stop at the host's cache",
    "fuse.sshfs": "locks and syncs of network file systems cannot be relied on",
}
_WEAK_OPTIONS = {
    "nobarrier": "mounted with nobarrier: the disk may reorder what was synced",
    "barrier=0": "mounted with barrier=0: the disk may reorder what was synced",
    "data=writeback": "mounted with data=writeback: a crash may leave stale bytes in files",
}


class CheckResult(Record, frozen=True):
    """One line of the report of `kfm doctor`."""

    check: str
    ok: bool
    found: str
    why: str = ""  # the problem and the cure


def mount_of(path: str) -> tuple[str, str]:
    """Return the file system type and mount options of a path; ('unknown', '') if the mount table does not say."""
    path = os.path.realpath(path)
    best, found = "", ("unknown", "")
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                left, _, right = line.partition(" - ")
                fields, tail = left.split(), right.split()
                point = fields[4].encode().decode("unicode_escape")
                if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                    best, found = point, (tail[0], f"{fields[5]},{tail[-1]}")
    except OSError:
        pass
    return found


def examine(folder: str, what: str) -> list[CheckResult]:
    """Return what the mount table says about a folder, or about its nearest existing parent."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder) or "/"
    kind, options = mount_of(folder)
    why = _WEAK.get(kind, "")
    for option, problem in _WEAK_OPTIONS.items():
        if option in options.split(","):
            why = why or problem
    hint = f"{why}; put it on a local disk, or accept the risk with --i-accept" if why else ""
    return [CheckResult(check=f"{what}.filesystem", ok=not why, found=kind, why=hint)]


def try_out(folder: str, what: str) -> list[CheckResult]:
    """Return the results of trying to write, sync, link and lock in a scratch folder, which is removed afterwards."""
    import tempfile

    try:
        REAL.make_dirs(folder)
        with tempfile.TemporaryDirectory(prefix=".kfm-doctor-", dir=folder) as scratch:
            path = os.path.join(scratch, "a")
            fd = REAL.create(path)
            try:
                REAL.write(fd, b"x")
                REAL.sync(fd)
            finally:
                REAL.close(fd)
            lock = FileLock(os.path.join(scratch, "lock"))
            locked = lock.take()
            lock.close()
            linked = REAL.link(path, path + "b") and not REAL.link(path, path + "b")
            REAL.sync_dir(scratch)
    except OSError as problem:
        return [CheckResult(check=f"{what}.write", ok=False, found=problem.strerror or "error", why="make it writable")]
    return [
        CheckResult(check=f"{what}.write", ok=True, found="written and synced"),
        CheckResult(
            check=f"{what}.link",
            ok=linked,
            found="links without replacing" if linked else "no hard links",
            why="" if linked else "objects need hard links; put them on another file system",
        ),
        CheckResult(
            check=f"{what}.lock",
            ok=locked,
            found="locks" if locked else "no locks",
            why="" if locked else "the journal needs file locks; put it on another file system",
        ),
    ]


def durability(settings: dict[str, str]) -> list[CheckResult]:
    """Return the results of the checks of the state's SQLite version and durability settings."""
    found = []
    version = tuple(int(part) for part in settings["sqlite"].split("."))
    safe = version >= (3, 51, 3)
    found.append(
        CheckResult(
            check="sqlite.version",
            ok=safe,
            found=settings["sqlite"],
            why="" if safe else "older ones can corrupt a WAL database; upgrade apsw",
        )
    )
    for name, wanted in (("journal_mode", "wal"), ("synchronous", "FULL")):
        ok = settings[name].lower() == wanted.lower()
        found.append(
            CheckResult(check=f"sqlite.{name}", ok=ok, found=settings[name], why="" if ok else f"it must be {wanted}")
        )
    return found
