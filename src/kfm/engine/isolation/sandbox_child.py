"""The other side of sandbox.py: one source, from standard input, under bounds."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import BinaryIO

import msgspec

from kfm.engine.isolation.landlock import confine, readable
from kfm.engine.isolation.sandbox import FRAME, Asked
from kfm.errors import KfmError, Unavailable
from kfm.model.format_rules import ExpectingContract
from kfm.model.records import DataContract
from kfm.validation.source_check import Inspection, inspect, nothing_found

OUT_OF_MEMORY = 3
_LEFT_OUT = ("geopandas", "pyproj", "shapely")  # readers load them where they are, and want nothing of them


class _Source:
    """Standard input, read again from its first byte each time it is opened."""

    def open(self) -> BinaryIO:
        os.lseek(0, 0, os.SEEK_SET)
        return os.fdopen(os.dup(0), "rb")


class _Frames:
    """Where answers go: a library may write to standard output what it likes, it is thrown away."""

    def __init__(self) -> None:
        self._to = os.dup(1)
        with open(os.devnull, "rb") as nowhere:
            os.dup2(nowhere.fileno(), 1)

    def send(self, kind: bytes, body: bytes) -> None:
        left = memoryview(kind + len(body).to_bytes(8, "big") + body)
        while left:
            left = left[os.write(self._to, left) :]

    def stream(self, kind: bytes, body: bytes) -> None:
        for at in range(0, len(body), FRAME):
            self.send(kind, body[at : at + FRAME])


def bound(memory: int, seconds: int) -> None:
    """Of memory RLIMIT_DATA is what is used; libraries reserve more than that, and RLIMIT_AS is for what hides."""
    for what, most in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_AS, max(4 * memory, 4 << 30)),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
    ):
        resource.setrlimit(what, (most, most))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _found(asked: Asked, contract: DataContract, frames: _Frames) -> Inspection:
    if asked.only_described:
        from kfm.validation.grids import describe

        return nothing_found(described=describe(_Source().open, contract.format))
    return inspect(
        _Source().open,
        contract,
        asked.source,
        lambda body: frames.stream(b"a", body),
        lambda body: frames.stream(b"h", body),
        asked.before,
    )


def main(words: list[str]) -> int:
    with os.fdopen(int(words[0]), "rb") as told:
        asked = msgspec.json.decode(told.read(), type=Asked)
    frames = _Frames()
    bound(asked.memory, asked.seconds)
    contract = msgspec.json.decode(asked.contract, type=ExpectingContract if asked.expects else DataContract)
    if not confine(readable(), (0,)) and asked.confined:
        what = f"files of the format {contract.format} are read only where their reader can be confined"
        frames.send(b"x", msgspec.json.encode(("unavailable", what, "use Linux 5.13 or newer, with Landlock")))
        return 0
    for name in _LEFT_OUT:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        found = _found(asked, contract, frames)
    except MemoryError:
        return OUT_OF_MEMORY
    except KfmError as problem:
        kind = "unavailable" if isinstance(problem, Unavailable) else "refused"
        frames.send(b"x", msgspec.json.encode((kind, problem.message, problem.hint)))
        return 0
    frames.send(b"r", msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # what libraries do at the end is nothing that is waited for
