"""What a supervisor keeps of its children: their counts, and how soon one that died begins again."""

from __future__ import annotations

import sys

from kfm.telemetry.worker_metrics import JobCounts
from kfm.workers.supervisor import FIRST_S, LONG_S, MOST_S, Child, Report
from tests.workers.site import until

SAYS = "import os, sys\nfor line in (LINES): os.write(int(sys.argv[-1]), line)\nsys.exit(7)"
GOOD = b'{"counts": {"started": {"a": 2}, "discarded": 1}, "state": true, "broker": false}\n'


def child(*lines: bytes) -> Child:
    return Child([sys.executable, "-c", SAYS.replace("LINES", repr(list(lines)))])


def ended(one: Child, now: float) -> None:
    one.start(now)

    def is_over() -> bool:
        one.read()
        return one.ended(now + 1)

    until(is_over)


def test_the_counts_of_a_child_that_ended_stay() -> None:
    one = child(GOOD)
    ended(one, 0)
    assert (one.code, one.alive, one.report) == (7, False, Report())
    assert one.counts == JobCounts(started={"a": 2}, discarded=1)
    ended(one, 10)
    assert one.counts == JobCounts(started={"a": 4}, discarded=2)


def test_a_report_in_pieces_or_of_another_form_does_no_harm() -> None:
    one = child(GOOD[:9], GOOD[9:], b"garbage\n", b'{"counts": 7}\n', b"x" * 70_000, b"\n", b'{"half')
    ended(one, 0)
    assert one.counts == JobCounts(started={"a": 2}, discarded=1)


def test_a_child_that_dies_at_once_waits_longer_each_time_and_one_that_was_well_does_not() -> None:
    one = child()
    pauses = []
    for _ in range(9):
        ended(one, 0)
        pauses.append(one.pause_s)
    assert pauses[:4] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S] and pauses[-1] == MOST_S
    one.start(0)
    until(lambda: one.ended(LONG_S + 1))
    assert (one.pause_s, one.next) == (FIRST_S, LONG_S + 1 + FIRST_S)
