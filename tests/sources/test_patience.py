"""A source that does not answer is asked again, as often and as late as was said, and never past its time."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from kfm.clock import FixedClock
from kfm.errors import Denied, KfmError, Refused, Unavailable
from kfm.model.records import Checkpoint, Fetched, FetchRequest, SourceRef
from kfm.sources.retry import RetrySource
from tests.engine.installations import Installation
from tests.sources.hostile_server import Exchange, ScriptedServer
from tests.sources.memory_objects import MemoryObjects

GOOD = Fetched(
    ref=SourceRef(uri="u", content_hash="", size=0),
    checkpoint=Checkpoint(
        uri="u", content_hash="", size=0, media_type="", etag="", last_modified="", fetched_ms=0, checked_ms=0
    ),
    not_modified=False,
)


class Flaky:
    def __init__(self, *problems: KfmError) -> None:
        self.problems = list(problems)
        self.asked: list[int] = []

    def fetch(self, request: FetchRequest, known: Any, objects: Any) -> Fetched:
        self.asked.append(request.total_ms)
        if self.problems:
            raise self.problems.pop(0)
        return GOOD


def ask(source: Flaky, retries: int, **fields: Any) -> tuple[list[int], FixedClock]:
    clock = FixedClock(0)
    waits: list[int] = []
    patient = RetrySource(source, retries, clock, lambda _name, _n, wait, _why: waits.append(wait), chance=lambda: 1.0)
    patient.fetch(FetchRequest(uri="u", **fields), None, MemoryObjects())
    return waits, clock


REFUSED = Unavailable("cannot be reached", errno=errno.ECONNREFUSED)
RESET = Unavailable("broke", errno=errno.ECONNRESET)


def test_it_waits_twice_as_long_each_time() -> None:
    source = Flaky(REFUSED, RESET, Unavailable("answers 500", status=500, retry_after_s=None))
    waits, clock = ask(source, 3)
    assert waits == [500, 1000, 2000]
    assert clock.now_ms() == 3500
    assert source.asked == [3_600_000, 3_599_500, 3_598_500, 3_596_500], "all of it lies within the time it may take"


def test_it_waits_as_long_as_it_is_asked_to() -> None:
    waits, _ = ask(Flaky(Unavailable("answers 503", status=503, retry_after_s=7)), 1)
    assert waits == [7000]


def test_it_gives_up_when_it_was_asked_often_enough() -> None:
    source = Flaky(REFUSED, REFUSED, RESET)
    with pytest.raises(Unavailable, match="broke"):
        ask(source, 2)
    assert len(source.asked) == 3


def test_it_does_not_wait_longer_than_the_source_may_take() -> None:
    source = Flaky(Unavailable("answers 429", status=429, retry_after_s=3600))
    with pytest.raises(Unavailable):
        ask(source, 5, total_ms=60_000)
    assert len(source.asked) == 1


@pytest.mark.parametrize("problem", [Refused("gone", status=404), Denied("private")])
def test_what_will_not_change_is_not_asked_again(problem: KfmError) -> None:
    source = Flaky(problem)
    with pytest.raises(type(problem)):
        ask(source, 5)
    assert len(source.asked) == 1


CONFIG = """
kfm: 1
accept_weak_storage: true
network: {allow: ["127.0.0.1:%d"], retries: %d}
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources: {rain: {uri: "http://127.0.0.1:%d/rain.csv", format: csv}}
    outputs: {all: {from: rain}}
"""
BODY = b"id,mm\n1,2\n"


def test_a_run_survives_a_server_that_is_just_starting(tmp_path: Path) -> None:
    told: list[str] = []

    def script(exchange: Exchange) -> None:
        told.append(exchange.path)
        if len(told) == 1:
            exchange.answer("503 Service Unavailable", "Retry-After: 2", "Content-Length: 0")
        elif len(told) == 2:
            exchange.answer("200 OK", "Content-Length: 999", body=b"id,mm\n")  # and the connection is cut
        else:
            exchange.answer("200 OK", f"Content-Length: {len(BODY)}", body=BODY)

    with ScriptedServer(script) as server:
        (tmp_path / "kfm.yml").write_text(CONFIG % (server.port, 0, server.port))
        there = Installation(tmp_path)
        assert "answers 503" in there.kfm("run", expect=69).err, "nothing is asked again unless that is said"
        assert len(told) == 1
        told.clear()
        (tmp_path / "kfm.yml").write_text(CONFIG % (server.port, 3, server.port))
        answer = there.kfm("run", "--verbose", env={"KFM_LOG": "jsonl"})
    assert len(told) == 3
    assert answer.err.count('"source.retried"') == 2
    assert there.kfm("cat", "processed/rain", "all").out.encode() == BODY


@pytest.mark.parametrize(
    ("setting", "code", "said"),
    [
        ("timeout_s: 0.2", 69, "was silent for 200 ms"),
        ("total_s: 0.2", 69, "was not fetched within 200 ms"),
        ("max_bytes: 5", 3, "5 bytes"),
    ],
)
def test_the_setting_that_an_error_advises_exists_for_one_source(
    tmp_path: Path, setting: str, code: int, said: str
) -> None:
    def script(exchange: Exchange) -> None:
        if not setting.startswith("max_bytes"):
            over.wait(20)
        exchange.answer("200 OK", f"Content-Length: {len(BODY)}", body=BODY)

    over = threading.Event()
    with ScriptedServer(script) as server:
        text = CONFIG % (server.port, 0, server.port)
        (tmp_path / "kfm.yml").write_text(text.replace("format: csv", f"format: csv, {setting}"))
        there = Installation(tmp_path)
        try:
            error = there.kfm("run", expect=code).err
        finally:
            over.set()
        assert said in error and f"raise {setting.partition(':')[0]} of this source or of network" in error
        (tmp_path / "kfm.yml").write_text(text.replace("format: csv", f"format: csv, {setting.partition(':')[0]}: 60"))
        there.kfm("run")
    assert there.kfm("cat", "processed/rain", "all").out.encode() == BODY
