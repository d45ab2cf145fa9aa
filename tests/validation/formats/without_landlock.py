"""Starts a command as on a kernel without Landlock: whoever asks for it, also a child, is told that there is none.

python -m tests.validation.formats.without_landlock COMMAND …
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_CREATE_RULESET, _ALLOWED, _NOT_THERE = 444, 0x7FFF0000, 0x00050000 | 38  # ENOSYS


def take_it_away() -> None:
    """By a filter of our own: the number is the same on every machine."""
    lines = ((0x20, 0, 0, 0), (0x15, 0, 1, _CREATE_RULESET), (0x06, 0, 0, _NOT_THERE), (0x06, 0, 0, _ALLOWED))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        raise SystemExit("this machine has no seccomp")


if __name__ == "__main__":
    take_it_away()
    os.execvp(sys.argv[1], sys.argv[1:])
