"""Confines a Linux process for good: it loses access to other files, the network and other programs.

- Landlock (Linux 5.13): only files below `readable` can be opened, and only for reading.
- seccomp: no sockets, no other programs, no access to other processes.

Files that are already open stay open. A malicious file can therefore not make a third-party reader open another file or
an address.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable

_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute (for libraries), read a file, read a folder
_OF_A_FILE = 1 << 0 | 1 << 2
_WRITE_NULL = 1 << 1 | 1 << 2
_HANDLED = (
    (1, (1 << 13) - 1),
    (2, 1 << 13),
    (3, 1 << 14),
    (5, 1 << 15),
)  # by the version of Landlock that introduced them
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_DENIED, _ALLOWED = 0x00050000 | 13, 0x7FFF0000  # EACCES
# By machine: its name in the kernel, and the numbers of socket, connect, execve, execveat, ptrace,
# process_vm_readv, process_vm_writev, io_uring_setup, kill, mount and bpf.
_MACHINES = {
    "x86_64": (0xC000003E, (41, 42, 59, 322, 101, 310, 311, 425, 62, 165, 321)),
    "aarch64": (0xC00000B7, (198, 203, 221, 281, 117, 270, 271, 425, 129, 40, 280)),
}
_FOREIGN = 0x40000000  # numbers of the other calling convention of x86_64


def libraries() -> list[str]:
    """Return the folders of modules: those of PYTHONPATH, of the interpreter and of KFM. The folders of an
    installation, which contain data next to its modules, are left out."""
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    named = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    roots = tuple(os.path.join(root, "") for root in (sys.prefix, sys.base_prefix, sys.exec_prefix))
    found = [os.path.abspath(path) for path in sys.path if isinstance(path, str) and path]
    kept = ("site-packages", "dist-packages")
    return named + [path for path in found if path == ours or os.path.basename(path) in kept or path.startswith(roots)]


def readable() -> list[str]:
    """Return the folders of this interpreter and its libraries."""
    system = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/proc/self"]
    return [sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, *system]


def confine(paths: Iterable[str], descriptors: Iterable[int] = ()) -> bool:
    """Confine this process; return whether every part succeeded. `descriptors` are open files that may be opened again
    through /proc/self/fd."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    files = _files(libc, paths, descriptors)
    return _calls(libc) and files


def _files(libc: ctypes.CDLL, paths: Iterable[str], descriptors: Iterable[int]) -> bool:
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    handled = sum(bits for since, bits in _HANDLED if version >= since)
    rules = libc.syscall(_CREATE_RULESET, struct.pack("Q", handled), ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    try:
        for path in paths:
            _allow(libc, rules, path, _READ if os.path.isdir(path) else _OF_A_FILE)
        _allow(libc, rules, os.devnull, _WRITE_NULL)
        for descriptor in descriptors:  # a file in memory has no path, so Landlock does not check it
            libc.syscall(_ADD_RULE, rules, 1, struct.pack("<Qi", _OF_A_FILE, descriptor), 0)
        return bool(libc.syscall(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: str, access: int) -> None:
    try:
        at = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # it does not exist, so it cannot be opened
        return
    try:
        libc.syscall(_ADD_RULE, rules, 1, struct.pack("<Qi", access, at), 0)
    finally:
        os.close(at)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def _calls(libc: ctypes.CDLL) -> bool:
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    kind, numbers = machine
    lines = [_line(0x20, 0, 0, 4), _line(0x15, 1, 0, kind), _line(0x06, 0, 0, _DENIED), _line(0x20, 0, 0, 0)]
    lines += [_line(0x35, 0, 1, _FOREIGN), _line(0x06, 0, 0, _DENIED)]
    for number in numbers:
        lines += [_line(0x15, 0, 1, number), _line(0x06, 0, 0, _DENIED)]
    lines.append(_line(0x06, 0, 0, _ALLOWED))
    code = ctypes.create_string_buffer(b"".join(lines))
    program = _Program(len(lines), ctypes.addressof(code))
    return bool(libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0)


def _line(code: int, jump: int, otherwise: int, value: int) -> bytes:
    return struct.pack("HBBI", code, jump, otherwise, value)
