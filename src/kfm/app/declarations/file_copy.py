"""Copies a file into the folder `data` of an installation, for `kfm add --copy`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kfm.config import Resolved
from kfm.errors import BadInput
from kfm.fsio import Fs, digest_at, failing_as_storage, write_apart
from kfm.parsing.characters import printable

FOLDER = "data"
_CHUNK = 1 << 20


def copied_file(resolved: Resolved, what: str, here: str) -> tuple[str, bool]:
    """Copy a file from outside of the folder of kfm.yml into its folder `data`. Return the path of the copy, and
    whether this wrote it: a file that is inside, or a copy with the same content, stays as it is. BadInput if it is not
    a file, or another file has its name. The caller holds the lock of kfm.yml."""
    source = os.path.join(here, what)
    if not os.path.isfile(source):
        raise BadInput(f"{printable(what, 200)} is not a file", hint="--copy takes the path of one file")
    if os.path.realpath(source).startswith(os.path.join(os.path.realpath(resolved.root), "")):
        return source, False
    fs = Fs()
    folder = os.path.join(resolved.root, FOLDER)
    target = os.path.join(folder, os.path.basename(source))
    with failing_as_storage("copy the file"):
        if os.path.lexists(target):
            return _same(fs, source, target), False
        fs.make_dirs(folder, 0o755)
        temporary = os.path.join(folder, f".{os.path.basename(source)}.copying")
        try:
            write_apart(fs, temporary, _chunks(fs, source), mode=0o644)
            is_new = fs.link(temporary, target)  # never over another file, also if it appeared meanwhile
        finally:
            fs.unlink(temporary)
        fs.sync_dir(folder)
        return (target, True) if is_new else (_same(fs, source, target), False)


def remove_copy(path: str) -> None:
    """Remove a copy that is not used after all."""
    with failing_as_storage("remove the copy"):
        Fs().unlink(path)


def _same(fs: Fs, source: str, target: str) -> str:
    if not os.path.isfile(target) or digest_at(fs, source) != digest_at(fs, target):
        name = printable(f"{FOLDER}/{os.path.basename(target)}", 200)
        raise BadInput(f"{name} is another file", hint="rename one of the two; --copy replaces no file")
    return target


def _chunks(fs: Fs, path: str) -> Iterator[bytes]:
    fd = fs.open_read(path)
    try:
        at = 0
        while chunk := fs.read_at(fd, _CHUNK, at):
            yield chunk
            at += len(chunk)
    finally:
        fs.close(fd)
