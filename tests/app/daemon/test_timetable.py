"""The timetable alone: it spares hosts, spreads its requests, and waits longer after failures."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.model.records import FetchRequest
from kfm.scheduling.polling import LONGEST_MS, Poll, Timetable, merge_polls
from tests.sampling import tries


def poll(uri: str, interval_ms: int = 60_000) -> Poll:
    return Poll(request=FetchRequest(uri=uri), datasets=("d",), interval_ms=interval_ms)


URIS = st.lists(
    st.builds("https://{}/{}".format, st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=8, unique=True
)


@settings(max_examples=tries(200), deadline=None)
@given(URIS, st.lists(st.tuples(st.integers(0, 200_000), st.booleans()), min_size=1, max_size=60))
def test_a_host_has_its_pause_and_a_source_its_interval(uris: list[str], steps: list[tuple[int, bool]]) -> None:
    table = Timetable([poll(uri) for uri in uris], 0, jitter=0.1, host_pause_ms=1_000)
    now = 0
    last_of_host: dict[str, int] = {}
    last_of_source: dict[str, int] = {}
    for wait, succeeds in steps:
        now += wait
        found = table.due(now)
        if found is None:
            ahead = table.next_ms()
            assert ahead is not None and ahead > now
            continue
        assert now - last_of_host.get(found.host, -1_000) >= 1_000
        assert now - last_of_source.get(found.uri, -60_000) >= 60_000
        last_of_host[found.host] = last_of_source[found.uri] = now
        table.answered(found, now) if succeeds else table.failed(found, now)


def test_no_two_looks_fall_on_the_same_beat() -> None:
    table = Timetable([poll("https://a/1")], 0, jitter=0.1, host_pause_ms=0)
    waits = []
    now = 0
    for _ in range(50):
        found = table.due(now)
        assert found is not None
        table.answered(found, now)
        ahead = table.next_ms()
        assert ahead is not None
        waits.append(ahead - now)
        now = ahead
    assert all(60_000 <= wait <= 66_000 for wait in waits)
    assert len(set(waits)) > 40


def test_what_fails_is_left_alone_for_longer_and_forgiven_at_once() -> None:
    table = Timetable([poll("https://a/1")], 0, jitter=0, host_pause_ms=0)
    now, waits = 0, []
    for _ in range(12):
        found = table.due(now)
        assert found is not None
        table.failed(found, now)
        ahead = table.next_ms()
        assert ahead is not None
        waits.append(ahead - now)
        now = ahead
    assert waits[:3] == [120_000, 240_000, 480_000] and waits[-1] == LONGEST_MS
    found = table.due(now)
    assert found is not None
    table.answered(found, now)
    assert table.next_ms() == now + 60_000


def test_who_reads_the_same_shares_the_look_at_the_shortest_interval() -> None:
    one = FetchRequest(uri="https://a/1")
    polls = merge_polls(
        [("x", one, 9_000), ("y", one, 5_000), ("x", one, 7_000), ("x", FetchRequest(uri="b.csv"), 1_000)]
    )
    assert [(p.uri, p.datasets, p.interval_ms) for p in polls] == [
        ("https://a/1", ("x", "y"), 5_000),
        ("b.csv", ("x",), 1_000),
    ]
