"""The other side of apart.py: one source, from standard input, under bounds."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import BinaryIO

import msgspec

from kfm.contract.expected import ExpectingContract
from kfm.contract.records import DataContract
from kfm.engine.apart import Asked
from kfm.errors import KfmError, Unavailable

OUT_OF_MEMORY = 3


class _Source:
    """Standard input, read again from its first byte each time it is opened."""

    def open(self) -> BinaryIO:
        os.lseek(0, 0, os.SEEK_SET)
        return os.fdopen(os.dup(0), "rb")


def _frame(kind: bytes, body: bytes) -> None:
    left = memoryview(kind + len(body).to_bytes(8, "big") + body)
    while left:
        left = left[os.write(1, left) :]


def main(words: list[str]) -> int:
    with os.fdopen(int(words[0]), "rb") as told:
        asked = msgspec.json.decode(told.read(), type=Asked)
    for what, bound in ((resource.RLIMIT_DATA, asked.memory), (resource.RLIMIT_CPU, asked.seconds)):
        resource.setrlimit(what, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    from kfm.inspection.inspecting import inspect

    contract = msgspec.json.decode(asked.contract, type=ExpectingContract if asked.expects else DataContract)
    try:
        found = inspect(
            _Source().open,
            contract,
            asked.source,
            lambda body: _frame(b"a", body),
            lambda body: _frame(b"h", body),
            asked.before,
        )
    except MemoryError:
        return OUT_OF_MEMORY
    except KfmError as problem:
        kind = "unavailable" if isinstance(problem, Unavailable) else "refused"
        _frame(b"x", msgspec.json.encode((kind, problem.message, problem.hint)))
        return 0
    _frame(b"r", msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
