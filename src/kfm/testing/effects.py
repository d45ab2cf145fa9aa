"""Notice what an author's code changes besides its outputs, by the audit events of the interpreter."""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import kfm

_OURS = os.path.dirname(kfm.__file__) + os.sep
_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PACKAGES = {"site-packages", "dist-packages"}
_UNNAMED = getattr(os, "O_TMPFILE", 0)
# event → description, index of the path argument, index of the argument with the folder of the path
_EVENTS: dict[str, tuple[str, int | None, int | None]] = {
    "open": ("wrote the file", 0, None),
    "os.mkdir": ("made the folder", 0, 2),
    "os.remove": ("removed the file", 0, 1),
    "os.rmdir": ("removed the folder", 0, 1),
    "os.rename": ("renamed the file", 0, 2),
    "os.link": ("linked the file", 1, 3),
    "os.symlink": ("linked the file", 1, 2),
    "os.truncate": ("cut the file", 0, None),
    "sqlite3.connect": ("opened the database", 0, None),
    "subprocess.Popen": ("started the program", 0, None),
    "os.system": ("started a program", None, None),
    "os.posix_spawn": ("started the program", 0, None),
    "socket.connect": ("reached into the network", None, None),
    "socket.sendto": ("reached into the network", None, None),
}
_found: list[str] | None = None  # receives the effects while a `watched` block is open
_scratch = ""
_installed = False


@contextmanager
def watched(scratch: str) -> Iterator[list[str]]:
    """Yield a list that fills with the effects of the author's code.

    Files of `tempfile` go into `scratch` and do not count. An audit hook cannot be removed; outside of this block it
    does nothing.
    """
    global _found, _scratch, _installed
    if not _installed:
        sys.addaudithook(_audit)
        _installed = True
    os.makedirs(scratch, exist_ok=True)
    before, tempfile.tempdir = tempfile.tempdir, scratch
    found: list[str] = []
    _found, _scratch = found, os.path.realpath(scratch) + os.sep
    try:
        yield found
    finally:
        _found, tempfile.tempdir = None, before


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _found is None or event not in _EVENTS:
        return
    if event == "open" and not (arguments[2] or 0) & _WRITING:
        return
    if event == "open" and _UNNAMED and (arguments[2] or 0) & _UNNAMED == _UNNAMED:
        return
    place = _of_an_author(sys._getframe(1))
    if not place:
        return
    says, index, folder = _EVENTS[event]
    path = _path(arguments[index], arguments[folder] if folder is not None else -1) if index is not None else ""
    if index is not None and (not path or path in (":memory:", os.devnull) or _within(path)):
        return
    line = f"{place} {says}{' ' + path if path else ''}"
    if line not in _found:
        _found.append(line)


def _path(value: object, folder: object) -> str:
    if not isinstance(value, (str, bytes, os.PathLike)):
        return ""  # a descriptor of an open file
    path = os.fsdecode(value)
    if not isinstance(folder, int) or folder < 0 or os.path.isabs(path):
        return path
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
    except OSError:  # a system without /proc
        return ""


def _within(path: str) -> bool:
    return os.path.realpath(path).startswith(_scratch)


def _of_an_author(frame: FrameType | None) -> str:
    """Return file and line of the author's code that caused the event; "" if KFM caused it, or code that no
    run called.
    """
    place = ""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith("<frozen importlib"):  # the first import of a module may write its bytecode
            return ""
        if path.startswith(_OURS):
            return place  # only KFM's code below: empty
        of_the_language = path.startswith(("<frozen ", _LIBRARY)) and not _PACKAGES & set(path.split(os.sep))
        if not place and not of_the_language:
            place = f"{os.path.basename(path)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
