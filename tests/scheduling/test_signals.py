"""Signals: of every run, from what asked for it to what it made; and how everything stands, for Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.maintenance.metrics import lines
from kfm.app.maintenance.run_events import events
from kfm.app.runs.run_control import resume_runs, run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.engine.execute import Crew
from kfm.errors import Full
from kfm.scheduling.triggers import keep

SAID = """\
publish: noop
pools: {gpu: 1}
datasets:
  rain:
    version: "1.0.0"
    SENSITIVITY
    pool: gpu
    freshness: {max_age: 1h}
    sources:
      rain: {uri: rain.csv, format: csv, contract: {columns: [{name: n, type: integer}]}}
    outputs: {rain: {from: rain}}
"""


class Site:
    def __init__(self, folder: Path, session: Session, clock: FixedClock) -> None:
        self.folder, self.session, self.clock = folder, session, clock

    def run(self, text: str, *, waited_ms: int = 0) -> str:
        """Asked for, and run so much later."""
        (self.folder / "rain.csv").write_text(text)
        trigger = keep(self.session.state, new_trigger(self.session, "rain", actor="tester"))
        self.clock.advance(waited_ms)
        return run_trigger(self.session, trigger).run_id

    def told(self, after: int = 0) -> list[dict[str, Any]]:
        return list(events(self.session, [], after=after))

    def metrics(self) -> dict[str, float]:
        found = {}
        for line in lines(self.session):
            if not line.startswith("#"):
                assert re.fullmatch(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.]+(e[+-][0-9]+)?', line), (
                    line
                )
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found


@contextmanager
def opened(folder: Path, sensitivity: str = "sensitivity: public") -> Iterator[Site]:
    (folder / "kfm.yml").write_text(SAID.replace("SENSITIVITY", sensitivity))
    (folder / "rain.csv").write_text("n\n1\n2\n")
    clock = FixedClock(1_780_000_000_000)
    with open_session(
        config.load(str(folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"}), clock=clock
    ) as session:
        yield Site(folder, session, clock)


def test_a_run_from_queued_to_succeeded_with_what_it_made(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run("n\n1\n2\n")
        site.clock.advance(90 * 60_000)
        second = site.run("n\n1\n3\n4\n", waited_ms=5_000)
        told = [each for each in site.told() if each["run_id"] == second]
        states = [each["state"] for each in told if each["signal"] == "run.lifecycle"]
        assert states == ["queued", "started", "succeeded"]
        first, last = told[0], told[-1]
        assert (first["ts"], last["ts"]) == ("2026-05-28T21:56:40.000Z", "2026-05-28T21:56:45.000Z")
        assert (last["rows_read"], last["rows_written"], last["errors"]) == (3, 3, [])
        assert (last["latency_ms"], last["freshness_minutes"], last["emitter"]) == (5_000, 90, "tester")
        (delta,) = [each["value"] for each in told if each["signal"] == "freshness.delta_minutes"]
        assert delta == 30
        (uri,) = [each["uri"] for each in told if each["signal"] == "artifact.uri"]
        (size,) = [each for each in told if each["signal"] == "artifact.size_bytes"]
        assert uri.startswith("kfm://dataset/rain/") and "#sha256:" in uri
        assert size["uri"] == uri and size["value"] > 0


def test_whoever_reads_on_misses_nothing_and_hears_nothing_twice(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        for n in range(4):
            site.run(f"n\n{n}\n")
        whole, parts, after = site.told(), [], 0
        while new := list(events(site.session, ["rain"], after=after, limit=1)):
            parts += new
            after = new[-1]["index"]
        assert parts == whole and len({each["run_id"] for each in whole}) == 4


def test_the_end_of_a_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as site:
        site.run("n\n1\n")
        site.run("n\n1\n")  # nothing new
        site.run("n\nx\n")
        (site.folder / "rain.csv").write_text("n\n2\n")
        with monkeypatch.context() as patch:
            patch.setattr(Crew, "_one", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                site.run("n\n2\n")
        (left,) = site.session.state.runs.unfinished()
        assert site.metrics()['kfm_run_lifecycle{dataset="rain",state="started"}'] == 1
        run_operation(site.session, "freeze", "rain", {"scope": f"run/{left.run_id}"}, actor="tester")
        list(resume_runs(site.session, left.run_id))
        last = [each for each in site.told() if "outcome" in each and each["dataset"] == "rain"]
        ended = [(each["state"], each["outcome"], each["errors"]) for each in last if each["trigger"] != "operation"]
        assert ended == [
            ("succeeded", "done", []),
            ("succeeded", "noop", []),
            ("failed", "held", ["source.held"]),
            ("cancelled", "cancelled", ["run.cancelled"]),
        ]
        found = site.metrics()
        assert found['kfm_run_lifecycle{dataset="rain",state="cancelled"}'] == 1
        assert found['kfm_run_lifecycle{dataset="rain",state="failed"}'] == 1


def test_what_is_frozen_is_queued_still(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        run_operation(site.session, "freeze", "global", {"scope": "global"}, actor="tester")
        site.run("n\n1\n")
        states = [each["state"] for each in site.told() if each["dataset"] == "rain"]
        assert states == ["queued"]
        assert site.metrics()['kfm_run_lifecycle{dataset="rain",state="queued"}'] == 1


def test_the_wait_for_a_pool_is_reported_while_it_lasts_and_afterwards(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        taken = site.session.state.leases.acquire("pool/gpu/0", "elsewhere:1:::::k:0:1:0::other", 3_600_000)
        trigger = keep(site.session.state, new_trigger(site.session, "rain", actor="tester"))
        for _ in range(3):  # it comes back, as one that is up does
            with pytest.raises(Full):
                run_trigger(site.session, trigger, patient=False)
            site.clock.advance(4_000)
        assert site.metrics()['kfm_pool_wait_ms{pool="gpu"}'] == 12_000
        site.session.state.leases.release(taken)
        run = run_trigger(site.session, trigger, patient=False)
        (wait,) = [each["value"] for each in site.told() if each["signal"] == "pool.wait_ms"]
        assert run.status == "SUCCESS" and wait == 12_000
        assert site.metrics()['kfm_pool_wait_ms{pool="gpu"}'] == 0


def test_metrics_of_freshness_and_artifacts(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run("n\n1\n")
        site.clock.advance(50 * 60_000)
        found = site.metrics()
        assert found['kfm_freshness_delta_minutes{dataset="rain"}'] == -10
        assert found['kfm_freshness_age_minutes{dataset="rain"}'] == 50
        assert found['kfm_artifact_size_bytes{dataset="rain"}'] > 0
        (uri,) = [name for name in found if name.startswith("kfm_artifact_uri")]
        assert 'uri="kfm://dataset/rain#sha256:' in uri


def test_metrics_of_the_queue_say_how_much_waits_and_how_long(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        assert (site.metrics()["kfm_queue_depth"], site.metrics()["kfm_queue_lag_seconds"]) == (0, 0)
        keep(site.session.state, new_trigger(site.session, "rain", actor="tester"))
        site.clock.advance(90_000)
        found = site.metrics()
        assert (found["kfm_queue_depth"], found["kfm_queue_lag_seconds"]) == (1, 90)
        assert (found["kfm_queue_waiting"], found["kfm_jobs_running"], found["kfm_jobs_dead"]) == (1, 0, 0)


def test_no_size_is_reported_of_data_that_is_not_plainly_public(tmp_path: Path) -> None:
    with opened(tmp_path, "title: Rain") as site:
        site.run("n\n1\n")
        assert not [name for name in site.metrics() if "size_bytes" in name]
