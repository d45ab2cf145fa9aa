"""Open a file below a directory without following a symbolic link at any component."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence
from functools import cache

_SYS_OPENAT2 = 437  # the same on every architecture but alpha
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_MAX_RETRIES = 16

Openat2 = Callable[[int, bytes, int], int]


def open_beneath(root: int, parts: Sequence[str], flags: int) -> int:
    """Return a descriptor of the file at `parts` below the directory `root`.

    Raises OSError: ELOOP or EXDEV for a link or a path that leads out. `parts` must hold no empty part, `.` or `..`.
    """
    wanted = flags | os.O_CLOEXEC | os.O_NOFOLLOW
    # Not os.fsencode: the user's locale must not decide which file a configuration names.
    names = [part.encode("utf-8", "surrogateescape") for part in parts]
    openat2 = _openat2()
    if openat2 is None:
        return _step_by_step(root, names, wanted)
    return openat2(root, b"/".join(names), wanted)


def _step_by_step(root: int, parts: Sequence[str | bytes], flags: int) -> int:
    """Open a path one component at a time and refuse links, for kernels without openat2."""
    here = root
    try:
        for part in parts[:-1]:
            below = _open_directory(part, here)
            if here != root:
                os.close(here)
            here = below
        return os.open(parts[-1], flags, dir_fd=here)
    finally:
        if here != root:
            os.close(here)


def _open_directory(name: str | bytes, where: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=where)
    except NotADirectoryError:
        # With O_DIRECTORY a link is also "not a directory"; tell the two apart.
        if stat.S_ISLNK(os.stat(name, dir_fd=where, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


@cache
def _openat2() -> Openat2 | None:
    """Return the system call openat2; None where the kernel, a sandbox or the platform lacks it."""
    if not sys.platform.startswith("linux") or os.uname().machine == "alpha":
        return None
    import ctypes

    class OpenHow(ctypes.Structure):
        _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long

    def call(root: int, path: bytes, flags: int) -> int:
        how = OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
        for _ in range(_MAX_RETRIES):
            fd = libc.syscall(
                ctypes.c_long(_SYS_OPENAT2),
                ctypes.c_int(root),
                ctypes.c_char_p(path),
                ctypes.byref(how),
                ctypes.c_size_t(ctypes.sizeof(how)),
            )
            if fd >= 0:
                return int(fd)
            code = ctypes.get_errno()
            if code not in (errno.EAGAIN, errno.EINTR):  # EAGAIN: a component was renamed during the call
                break
        raise OSError(code, os.strerror(code))

    return call if _works(call) else None


def _works(openat2: Openat2) -> bool:
    root = os.open("/", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.close(openat2(root, b".", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY))
    except OSError:
        return False
    finally:
        os.close(root)
    return True
