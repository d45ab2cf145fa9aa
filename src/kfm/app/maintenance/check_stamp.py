"""Remembers which configuration was checked last, so that `kfm run` checks an unchanged one only once.

A check imports more than a run of a small file needs. The stamp is a digest of the settings and of the names, sizes and
times of the files with schedules and backfills. It only saves time: without it, or with another digest, the next run
checks again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from kfm import __version__
from kfm.fsio import REAL, read_whole, write_apart

if TYPE_CHECKING:
    from kfm.config import Resolved

NAME = "checked"  # in the private folder


def stamp_of(resolved: Resolved) -> str:
    """Return the digest of the settings and of what the file system says about files with schedules and backfills."""
    total = sha256(f"{__version__}\n{resolved.path}\n".encode(errors="surrogateescape"))
    total.update(msgspec.json.encode(resolved.config))
    for folder in (resolved.config.schedules, resolved.config.backfills):
        for line in _listed(resolved.at(folder)):
            total.update(line.encode(errors="surrogateescape"))
    return total.hexdigest()


def check_before_run(resolved: Resolved, path: str | None, env: Mapping[str, str]) -> str:
    """Raise BadInput with all mistakes if a schedule or a backfill of a new configuration has one. Return the stamp, to
    be kept once the private folder is there; "" if this configuration was checked before."""
    stamp = stamp_of(resolved)
    if is_checked(resolved, stamp):
        return ""
    from kfm.app.maintenance.config_check import refuse_mistakes

    refuse_mistakes(path, env)
    return stamp


def is_checked(resolved: Resolved, stamp: str) -> bool:
    """Say whether the last check that found no mistake was of this configuration."""
    try:
        return read_whole(REAL, _at(resolved)) == stamp.encode()
    except OSError:
        return False


def keep(resolved: Resolved, stamp: str) -> None:
    """Write the stamp of a configuration without mistakes. If that fails, the next run checks again."""
    path = _at(resolved)
    if REAL.is_dir(os.path.dirname(path)):
        with suppress(OSError):
            write_apart(REAL, f"{path}.{os.getpid()}", [stamp.encode()], synced=False)
            REAL.replace(f"{path}.{os.getpid()}", path)


def _at(resolved: Resolved) -> str:
    return os.path.join(resolved.at(".kfm"), NAME)


def _listed(folder: str) -> Iterator[str]:
    """Yield a line for each file in a folder, with its size and time; one line for a folder that cannot be read."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            about = os.stat(os.path.join(folder, name))
            yield f"{name} {about.st_size} {about.st_mtime_ns} {about.st_ino}\n"
    except OSError as problem:
        yield f"{folder} {problem.errno}\n"
