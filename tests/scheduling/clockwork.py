"""A process that keeps an installation up, by a clock that the test sets: a file holds the time.

    python -m tests.scheduling.clockwork CONFIG NOW_FILE SEED

It looks again and again until it is killed. Now and then its clock jumps, back or forward, as one that is set does.
"""

from __future__ import annotations

import random
import sys
import time

from kfm import config
from kfm.app.daemon.daemon_loop import Daemon
from kfm.app.session.session import open_session
from kfm.clock import Clock
from kfm.errors import Conflict, KfmError


class FileClock:
    """The time that stands in a file, and what this process mistakes it for."""

    def __init__(self, path: str, pick: random.Random) -> None:
        self._path = path
        self._pick = pick

    def now_ms(self) -> int:
        with open(self._path) as file:
            now = int(file.read() or 0)
        return now - self._pick.choice((0, 0, 0, 60_000, 3_600_000))  # behind: ahead would claim what has not come

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def main() -> None:
    path, now, seed = sys.argv[1:]
    clock: Clock = FileClock(now, random.Random(int(seed)))
    with open_session(config.load(path, {"KFM_ACCEPT_WEAK_STORAGE": "true"}), clock=clock) as session:
        upkeep = Daemon(session, sorted(session.config.datasets), lambda _name, _problem: None)
        list(_tried(upkeep.begin))
        sys.stdout.write("up\n")
        sys.stdout.flush()
        while True:
            list(_tried(lambda: upkeep.turn(patient=False)))
            time.sleep(0.005)


def _tried(work):  # type: ignore[no-untyped-def]
    try:
        yield from work()
    except Conflict:  # another is at it
        return
    except KfmError as problem:
        sys.stderr.write(f"{problem}\n")
        raise


if __name__ == "__main__":
    main()
