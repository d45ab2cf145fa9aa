"""Objects that `kfm gc` set aside: still there to be read, and no longer found by a writer that looks whether it may
skip a write.

So whatever relies on such an object relied on it before it was set aside, and names it in the state by the time it is
removed. A small object moves to another key of its table, a large one to the folder `aside` next to `sha256`.
"""

from __future__ import annotations

from typing import NamedTuple

from kfm.errors import Corrupt

KEY = "aside/"  # begins the keys of these rows; no digest does
FOLDER = "aside"
MOVING, REMOVING = -1, -2  # in place of a time: the file is on its way, or about to be removed
_TIME = 14  # digits, or a sign and digits


class Aside(NamedTuple):
    """`since_ms` is when it was set aside, or MOVING or REMOVING. `body` is None for a large object."""

    since_ms: int
    size: int
    body: bytes | None = None


def aside_row(aside: Aside) -> bytes:
    head = b"%014d %014d " % (aside.since_ms, aside.size)
    return head + (b"large" if aside.body is None else b"small " + aside.body)


def read_aside(name: str, row: bytes) -> Aside:
    """Return what a row says. Raise Corrupt if it is none of these rows."""
    try:
        since_ms, size, rest = int(row[:_TIME]), int(row[_TIME + 1 : 2 * _TIME + 1]), row[2 * _TIME + 2 :]
    except ValueError:
        since_ms, size, rest = 0, 0, b""
    if rest == b"large":
        return Aside(since_ms, size)
    if not rest.startswith(b"small "):
        raise Corrupt(f"record objects/{KEY}{name} cannot be read", hint="restore the state from a copy")
    return Aside(since_ms, size, rest[6:])
