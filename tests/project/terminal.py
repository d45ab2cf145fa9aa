"""A terminal of 80 columns: a command runs on a real one, and what it wrote there is read back as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

COLUMNS = 80
_WHOLE = re.compile(r"sha256:[0-9a-f]{64}")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


def typed(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], columns: int = COLUMNS
) -> tuple[int, str]:
    """The exit code, and everything that was written to the terminal. Nobody answers what it may ask."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {**environment, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    with subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, start_new_session=True
    ) as child:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # EIO: the last one who could write has closed it
                break
            if not part:
                break
            written += part
        code = child.wait()
    os.close(ours)
    return code, settled(written.decode("utf-8", "replace"))


def settled(written: str) -> str:
    """What stays on the screen: a line that was written over is gone, and how the terminal ends lines is left out."""
    lines = []
    for line in written.replace("\r\n", "\n").split("\n"):
        line = line.replace("\x1b[2K", "\x1b[K").rpartition("\x1b[K")[2] if "\x1b[K" in line else line
        lines.append(line.rpartition("\r")[2])
    return "\n".join(lines)


def plain(text: str) -> str:
    return _ESCAPE.sub("", text)


def width(line: str) -> int:
    """How many columns it takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in plain(line)
    )


def too_wide(text: str, columns: int = COLUMNS) -> list[str]:
    """Lines of tables that a terminal would break up. Sentences may be: whoever copies a command out of one gets it
    whole; so may a digest that is told whole."""
    lines = plain(text).splitlines()
    return [line for line in lines if width(line) > columns and "  " in line.strip() and not _WHOLE.search(line)]
