"""What a process asked of the operating system, and which of that could change anything.

The list is of what is harmless: a call that nobody thought of counts as a change.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

STRACE = shutil.which("strace")

_READS = frozenset(
    {
        "access", "chdir", "close", "close_range", "dup", "dup2", "dup3", "epoll_create1", "epoll_ctl", "epoll_pwait",
        "epoll_wait", "eventfd2", "execve", "faccessat", "faccessat2", "fadvise64", "fchdir", "fgetxattr",
        "flistxattr", "fstat", "fstatfs", "getcwd", "getdents64", "getpeername", "getsockname", "getsockopt",
        "getxattr", "lgetxattr", "listxattr", "llistxattr", "lseek", "lstat", "memfd_create", "munmap", "newfstatat",
        "pidfd_open", "pipe", "pipe2", "poll", "ppoll", "pread64", "preadv", "preadv2", "pselect6", "read",
        "readahead", "readlink", "readlinkat", "readv", "recvfrom", "recvmsg", "select", "setsockopt", "shutdown",
        "signalfd4", "socket", "socketpair", "stat", "statfs", "statx", "timerfd_create", "vfork",
    }
)  # fmt: skip
_WRITES = frozenset({"write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg", "sendfile"})
_HARMLESS_FCNTL = frozenset(
    {"F_GETFD", "F_SETFD", "F_GETFL", "F_SETFL", "F_DUPFD", "F_DUPFD_CLOEXEC", "F_GETLK", "F_OFD_GETLK", "F_GETPIPE_SZ"}
)
_HARMLESS_IOCTL = ("TCGETS", "TIOCGWINSZ", "FIOCLEX", "FIONCLEX", "FIONREAD", "FIONBIO", "TIOCGPGRP")
_LINE = re.compile(r"^(\d+)\s+(\w+)\((.*)$")  # not the second half of a call that was interrupted: the first has it all


class Call(NamedTuple):
    pid: int
    name: str
    rest: str  # arguments and result, as strace prints them


@cache
def _may_trace() -> bool:
    command = ["strace", "-qq", "-e", "trace=fsync", "true"]
    return STRACE is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


def need_strace() -> None:
    """A strace that may trace. Without one: a skip, and in CI a failure."""
    if not _may_trace():
        lacking = "strace is not installed" if STRACE is None else "strace may not trace here"
        assert not os.environ.get("CI"), f"{lacking}, and this is CI"
        pytest.skip(lacking)


def traced(
    argv: Sequence[str], trace: Path, *, cwd: Path, env: Mapping[str, str]
) -> tuple[subprocess.CompletedProcess[str], list[Call]]:
    """Run a command and everything it starts; its standard streams are pipes."""
    assert STRACE is not None
    done = subprocess.run(
        [STRACE, "-f", "-yy", "-s", "64", "-o", str(trace), "-e", "trace=%file,%desc,%network", "--", *argv],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="backslashreplace",
        check=False,
        timeout=120,
    )
    calls = []
    for line in trace.read_text(errors="replace").splitlines():
        found = _LINE.match(line)
        if found:
            calls.append(Call(int(found[1]), found[2], found[3]))
    return done, calls


def changes(calls: Sequence[Call], *, folder: Path | None = None, port: int = 0) -> list[str]:
    """The calls that could change something: a file outside `folder`, or a server other than 127.0.0.1:port."""
    return [f"{call.name}({call.rest}" for call in calls if not _is_harmless(call, folder, port)]


def _is_harmless(call: Call, folder: Path | None, port: int) -> bool:
    name, rest = call.name, call.rest
    if name == "mmap":
        return not ("MAP_SHARED" in rest and "PROT_WRITE" in rest and "MAP_ANONYMOUS" not in rest)
    if name in _READS:
        return True
    if name in ("open", "openat", "openat2"):
        flags = rest.partition(", O_")[2] or rest.partition("flags=O_")[2]
        reading = flags.startswith("RDONLY") and not any(f in flags for f in ("O_CREAT", "O_TRUNC", "O_TMPFILE"))
        return reading or '"/dev/null"' in rest or _inside(rest, folder)
    if name == "fcntl":
        return any(re.search(rf", {word}\b", rest) for word in _HARMLESS_FCNTL)
    if name == "ioctl":
        return any(f", {word}" in rest for word in _HARMLESS_IOCTL)
    if name == "connect":
        return f"sin_port=htons({port})" in rest and '"127.0.0.1"' in rest
    if name == "bind":
        return "AF_NETLINK" in rest  # how the C library asks the kernel for its own addresses
    if name in _WRITES:
        target = rest.partition(",")[0]
        to_server = f"->127.0.0.1:{port}]" in target
        return (
            "<pipe:[" in target
            or "<anon_inode:[eventfd]>" in target  # a thread of the process wakes another
            or "<char 1:3>" in target
            or to_server
            or "NETLINK" in target
            or _inside(rest, folder)
        )
    return _inside(rest, folder)


def _inside(rest: str, folder: Path | None) -> bool:
    """Every path that the call names, itself or through a descriptor, is the folder or below it."""
    if folder is None:
        return False
    named = [a or b for a, b in re.findall(r'"([^"]*)"|\d<(/[^>]*)>', rest.partition(") = ")[0])]
    paths = [path for path in named if path.startswith("/")]
    root = str(folder)
    return bool(paths) and all(path == root or path.startswith(root + "/") for path in paths)
