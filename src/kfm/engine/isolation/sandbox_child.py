"""The child process of sandbox.py: it reads one source from standard input, under limits."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import BinaryIO

import msgspec

from kfm.engine.isolation.landlock import confine, readable
from kfm.engine.isolation.sandbox import FRAME, Task
from kfm.errors import KfmError, Unavailable
from kfm.model.format_rules import ExpectingContract
from kfm.model.records import DataContract
from kfm.validation.source_check import Inspection, inspect, nothing_found

OUT_OF_MEMORY = 3
_LEFT_OUT = ("geopandas", "pyproj", "shapely")  # readers load these if they are installed, and do not need them


class _Source:
    """The source that the child reads: standard input, from its first byte each time it is opened."""

    def open(self) -> BinaryIO:
        os.lseek(0, 0, os.SEEK_SET)
        return os.fdopen(os.dup(0), "rb")


class _Frames:
    """The channel on which the child sends its answers. Everything that a library writes to standard output is
    discarded."""

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
    """Limit memory and processor time. RLIMIT_DATA limits the memory in use. RLIMIT_AS limits mappings that RLIMIT_DATA
    does not count; it is larger, because libraries reserve more than they use."""
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


def _found(task: Task, contract: DataContract, frames: _Frames) -> Inspection:
    if task.only_described:
        from kfm.validation.grids import describe

        return nothing_found(described=describe(_Source().open, contract.format))
    if task.only_profiled:
        from kfm.validation.file_profile import profile

        return nothing_found(described=profile(_Source().open, contract.format))
    return inspect(
        _Source().open,
        contract,
        task.source,
        lambda body: frames.stream(b"a", body),
        lambda body: frames.stream(b"h", body),
        task.before,
    )


def main(words: list[str]) -> int:
    with os.fdopen(int(words[0]), "rb") as told:
        task = msgspec.json.decode(told.read(), type=Task)
    frames = _Frames()
    bound(task.memory, task.seconds)
    contract = msgspec.json.decode(task.contract, type=ExpectingContract if task.expects else DataContract)
    if not confine(readable(), (0,)) and task.confined:
        what = f"files of the format {contract.format} are read only where their reader can be confined"
        frames.send(b"x", msgspec.json.encode(("unavailable", what, "use Linux 5.13 or newer, with Landlock")))
        return 0
    for name in _LEFT_OUT:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        found = _found(task, contract, frames)
    except MemoryError:
        return OUT_OF_MEMORY
    except KfmError as problem:
        kind = "unavailable" if isinstance(problem, Unavailable) else "refused"
        frames.send(b"x", msgspec.json.encode((kind, problem.message, problem.hint)))
        return 0
    frames.send(b"r", msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # exit at once, without the exit handlers of libraries
