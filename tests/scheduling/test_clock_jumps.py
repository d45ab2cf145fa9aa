"""A clock that is set, back or forward: no instant runs twice, and none is passed over without a word."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kfm import config
from kfm.app.daemon.daemon_loop import Daemon
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock, rfc3339

MINUTE = 60_000
BEGIN = 1_780_056_000_000
SAID = """\
publish: noop
watch: {poll_s: 0, debounce_s: 0}
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources: {rain: {uri: rain.csv, format: csv}}
    outputs: {rain: {from: rain}}
    schedule: {cron: "*/5 * * * *", catch_up: CATCH_UP}
"""


@contextmanager
def opened(folder: Path, catch_up: str) -> Iterator[tuple[Session, FixedClock, Daemon]]:
    (folder / "kfm.yml").write_text(SAID.replace("CATCH_UP", catch_up))
    (folder / "rain.csv").write_text("n\n1\n")
    clock = FixedClock(BEGIN)
    with open_session(
        config.load(str(folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"}), clock=clock
    ) as session:
        upkeep = Daemon(session, ["rain"], failed)
        list(upkeep.turn(patient=False))
        yield session, clock, upkeep


def failed(_name: str, problem: Exception) -> None:
    raise problem


def ran(session: Session) -> Counter[str]:
    receipts = (session.state.ledger.receipt(entry.run_id) for entry in session.state.ledger.entries())
    return Counter(each.reason.rpartition(", ")[2] for each in receipts if each is not None)


def accounted(session: Session, first_ms: int, last_ms: int) -> int:
    """Instants that ran, or that a tick says were passed over; each of them once."""
    ticks = [tick for tick in session.state.ticks.of("rain") if tick.why != "begun"]
    assert all(first_ms <= tick.at_ms <= last_ms for tick in ticks)
    return sum(1 + tick.missed for tick in ticks)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("catch_up", ["all", "last", "none"])
def test_a_clock_that_jumps_either_way_runs_nothing_twice_and_passes_nothing_silently(
    tmp_path: Path, catch_up: str, seed: int
) -> None:
    pick = random.Random(seed)
    with opened(tmp_path, catch_up) as (session, clock, upkeep):
        latest = BEGIN
        jumps = {"back": 0, "forward": 0}
        for _ in range(60):
            by = pick.choice([1, 2, 5, 7, 61, 300, -1, -30, -200])
            jumps["back" if by < 0 else "forward"] += 1
            clock.advance(by * MINUTE + pick.randrange(MINUTE))
            latest = max(latest, clock.now_ms())
            if pick.random() < 0.2:  # another process, which has seen nothing
                upkeep = Daemon(session, ["rain"], failed)
            list(upkeep.turn(patient=False))
        assert min(jumps.values()) > 5
        count = latest // (5 * MINUTE) - BEGIN // (5 * MINUTE)
        assert accounted(session, BEGIN, latest) == count
        found = ran(session)
        assert set(found.values()) <= {1}
        if catch_up == "all":
            assert len(found) == count
        assert max(found) <= rfc3339(latest)


def test_what_was_run_ahead_of_a_clock_that_was_wrong_is_said(tmp_path: Path) -> None:
    from kfm.app.runs.due_schedules import schedule_statuses

    with opened(tmp_path, "last") as (session, clock, upkeep):
        clock.advance(24 * 60 * MINUTE)  # somebody set it a day ahead
        assert [each.outcome for each in upkeep.turn(patient=False)] == ["done"]
        clock.advance(-24 * 60 * MINUTE)
        for _ in range(12):
            clock.advance(5 * MINUTE)
            assert list(upkeep.turn(patient=False)) == []
        (now,) = schedule_statuses(session)
        assert now.ahead and now.next_ms is not None and now.next_ms > clock.now_ms() + 22 * 3_600_000
