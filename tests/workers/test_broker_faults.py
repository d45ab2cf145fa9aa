"""Redis killed, flushed and full while jobs are stored and two processes work: every job ends exactly once."""

from __future__ import annotations

import random
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kfm.app.session import wake_up
from kfm.errors import Busy
from kfm.store.sqlite import SqliteTables
from tests.sampling import sampled
from tests.servers.redis import RedisServer, redis_server
from tests.workers.site import Worker, add, ends, lay_out, opened, until, worker

FAULTS = ("kill", "flush", "full", "double", "garbage", "late")
ROUNDS = 20  # of each seed; the long suite has a hundred
NAMES = [f"d{n}" for n in range(6)]


class Trouble:
    """What happens to the broker, and proof that it happened."""

    def __init__(self, server: RedisServer, workers: list[Worker]) -> None:
        self.server = server
        self.workers = workers
        self.fired: Counter[str] = Counter()
        self.late: list[bytes] = []

    def before(self, fault: str, session: Any, ids: list[str]) -> None:
        """Take the broker away, or the workers, so that a message stays in the queue."""
        if fault == "kill":
            self.server.kill()
        elif fault == "full":
            self.server.fill()
        elif fault != "garbage":
            ends(session, ids)
            until(lambda: self._stopped(session))
            until(lambda: not self.server.client().info("clients")["blocked_clients"])

    def _stopped(self, session: Any) -> bool:
        """Stop the workers, unless one of them is in a transaction: it would keep everybody from writing."""
        for each in self.workers:
            each.signal(signal.SIGSTOP)
        tables = SqliteTables(session.resolved.location(session.config.state)[1], busy_ms=20)
        try:
            tables.begin()
            tables.rollback()
        except Busy:
            for each in self.workers:
                each.signal(signal.SIGCONT)
            return False
        finally:
            tables.close()
        return True

    def after(self, fault: str, session: Any, unrung: int) -> None:
        client = self.server.client() if fault != "kill" else None
        if fault == "kill":
            self.fired[fault] += session.wake_up.unrung > unrung
            self.server.start()
        elif fault == "full":
            self.fired[fault] += session.wake_up.unrung > unrung
            self.server.empty()
        elif fault == "flush":
            self.fired[fault] += client.llen("kfm")
            self.server.flush()
        elif fault == "double":
            found = client.lrange("kfm", 0, -1) * 4
            self.fired[fault] += len(found)
            if found:
                client.lpush("kfm", *found)
        elif fault == "garbage":
            self.fired[fault] += bool(client.lpush("kfm", b"\x80garbage", b"[]", b"7" * 70_000, b'{"headers": {}}'))
        elif fault == "late":
            while message := client.rpop("kfm"):
                self.late.append(message)
            if len(self.late) > 1:
                self.fired[fault] += client.lpush("kfm", *self.late)
                self.late.clear()
        for each in self.workers:
            each.signal(signal.SIGCONT)


@pytest.mark.parametrize("seed", sampled(range(5)))
def test_every_job_ends_exactly_once_whatever_becomes_of_the_broker(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, count: Any
) -> None:
    monkeypatch.setattr(wake_up, "FIRST_S", 0.0)  # try the broker at every ring
    monkeypatch.setattr(wake_up, "MOST_S", 0.0)
    pick = random.Random(seed)
    faults = [*FAULTS * (ROUNDS // len(FAULTS)), *FAULTS][:ROUNDS]
    pick.shuffle(faults)
    with ExitStack() as stack:
        server = stack.enter_context(redis_server(tmp_path / "redis"))
        folder = lay_out(tmp_path / "site", *NAMES, queue=server.url)
        session = stack.enter_context(opened(folder))
        workers = [stack.enter_context(worker(folder)) for _ in range(2)]
        for each in workers:
            each.ready()
        trouble, ids = Trouble(server, workers), []
        for number, fault in enumerate(faults):
            trouble.before(fault, session, ids)
            unrung = session.wake_up.unrung
            ids.append(add(session, NAMES[number % len(NAMES)], force=True))
            trouble.after(fault, session, unrung)
            count("broker faults")
        found = ends(session, ids)
        assert [each.stop() for each in workers] == [0, 0]
        assert set(trouble.fired) == set(FAULTS) and all(trouble.fired.values())
        judge(session, ids, found)
    assert not [line for each in workers for line in each.said.splitlines() if "Traceback" in line]


def judge(session: Any, ids: list[str], found: list[Any]) -> None:
    """One end for each job, and one receipt for each run."""
    assert len(set(ids)) == len(ids) == len(found)
    assert list(session.state.inbox.waiting()) == []
    entries = list(session.state.ledger.entries())
    assert len({entry.run_id for entry in entries}) == len(entries)
    assert all(session.state.ledger.receipt(each.run_id) is not None for each in found)
    assert {session.state.jobs.get(each).status for each in ids} == {"ended"}
    answered = Counter(each.run_id for each in found)
    assert all(times == 1 for times in answered.values())
