"""Fetches what it is told, a request a line, and says how much memory this program ever held, in MiB.

The servers are elsewhere: what they hold is not ours. Nor is what the process held that started us, which
`ru_maxrss` would count: it goes on over an exec.
"""

from __future__ import annotations

import signal
import sys

import msgspec

from kfm.errors import KfmError
from kfm.model.records import FetchRequest
from kfm.sources.http import HttpSource
from tests.sources.memory_objects import MemoryObjects


def peak_mib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM:"))


def main() -> None:
    signal.alarm(600)  # whatever hangs, ends
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=FetchRequest)
        try:
            answer = str(HttpSource().fetch(request, None, MemoryObjects(keep=False)).ref.size)
        except KfmError as problem:
            answer = type(problem).__name__
        print(answer, peak_mib(), flush=True)
    held = b"x" * (256 << 20)
    print(len(held), peak_mib(), flush=True)


if __name__ == "__main__":
    main()
