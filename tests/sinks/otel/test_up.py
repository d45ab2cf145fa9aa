"""`kfm up` sends metrics about once a minute, whatever the collector does, and only where it leads."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kfm.app.daemon.metrics_thread import MetricsThread
from kfm.app.session.session import open_session
from kfm.config import load
from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.delivery.sites import Site
from tests.policy.servers import free_port
from tests.sinks.otel.receiver import Answer, attributes, configured, receiving


class Noted:
    """A log that keeps the names of its events."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.heard = threading.Event()

    def event(self, name: str, **_fields: object) -> None:
        self.events.append(name)
        self.heard.set()

    def bind(self, **_fields: object) -> Noted:
        return self


def test_the_thread_sends_again_after_a_failure_and_says_each_once(tmp_path: Path) -> None:
    asked = 0
    enough = threading.Event()

    def fails_at_first(_path: str, _request: Any) -> Answer | None:
        nonlocal asked
        asked += 1
        if asked >= 6:
            enough.set()
        return (503, {}, b"") if asked <= 3 else None

    with receiving(fails_at_first) as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        resolved = load(str(site.folder / "kfm.yml"), {})
        log = Noted()
        thread = MetricsThread(partial(open_session, resolved), lambda: True, log, pause_s=0.01)
        thread.start()
        assert enough.wait(30)
        thread.end()
        thread.join(30)
    assert receiver.faults == [503] * 3 and log.events == ["metrics.unsent", "metrics.sent"]
    assert thread.sent == len(receiver.requests) >= 3 and not thread.is_alive()


def test_a_process_that_stands_by_sends_nothing(tmp_path: Path) -> None:
    looked = threading.Semaphore(0)

    def leads() -> bool:
        looked.release()
        return False

    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        resolved = load(str(site.folder / "kfm.yml"), {})
        thread = MetricsThread(partial(open_session, resolved), leads, Noted(), pause_s=0.01)
        thread.start()
        for _ in range(3):
            assert looked.acquire(timeout=30)
        thread.end()
        thread.join(30)
    assert receiver.raw == [] and thread.sent == 0


def gauges(kfm: Kfm, monkeypatch: pytest.MonkeyPatch, url: str, more: str = "") -> None:  # noqa: F811
    assert kfm("init", "gauges").code == 0
    monkeypatch.chdir("gauges")
    with Path("kfm.yml").open("a") as file:
        file.write(configured(url, more))


def test_one_round_sends_the_metrics_at_its_end(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    with receiving() as receiver:
        gauges(kfm, monkeypatch, receiver.url)
        assert kfm("up", "--once").code == 0
    assert [path for path, _ in receiver.requests] == ["/v1/traces", "/v1/logs", "/v1/metrics"]
    (total,) = [metric for metric in receiver.metrics() if metric.name == "kfm_ledger_entries_total"]
    assert total.sum.data_points[0].as_double == 1 and len(receiver.roots()) == 1
    (lag,) = [metric for metric in receiver.metrics() if metric.name == "kfm_sink_lag_entries"]
    assert {attributes(point)["sink"]: point.as_double for point in lag.gauge.data_points}["otel"] == 0


def test_one_round_without_a_collector_does_its_work(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    gauges(kfm, monkeypatch, f"http://127.0.0.1:{free_port()}")
    answer = kfm("up", "--once")
    assert answer.code == 0 and "SUCCESS" in answer.out and "Traceback" not in answer.err
    assert "otel: 127.0.0.1 does not answer" in answer.err
    assert kfm("sinks").code == 69


def test_metrics_that_are_not_wanted_are_not_sent(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    with receiving() as receiver:
        gauges(kfm, monkeypatch, receiver.url, ", signals: [traces]")
        assert kfm("up", "--once").code == 0
    assert [path for path, _ in receiver.requests] == ["/v1/traces"]


@pytest.mark.long
def test_a_process_that_stays_up_sends_them_and_ends_when_it_is_told(
    kfm: Kfm,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = threading.Event()

    def hears(path: str, _request: Any) -> Answer | None:
        if path == "/v1/metrics":
            sent.set()
        return None

    with receiving(hears) as receiver:
        gauges(kfm, monkeypatch, receiver.url)
        with Path("said.txt").open("w") as said:
            process = subprocess.Popen([sys.executable, "-m", "kfm", "up"], stdout=said, stderr=said)
            try:
                assert sent.wait(60), Path("said.txt").read_text()
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0, Path("said.txt").read_text()
            finally:
                process.kill()
    assert "Traceback" not in Path("said.txt").read_text()
