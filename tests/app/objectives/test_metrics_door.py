"""`/metrics` at `kfm up --listen`: who gets it, what it holds, and what it costs."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm import config
from kfm.api import metrics_collector
from kfm.api.metrics_collector import MetricsCollector
from kfm.app.maintenance.metrics import Metrics
from kfm.app.objectives.ledger_counts import OPERATIONS
from kfm.app.session.session import Session, open_session
from kfm.errors import Unavailable
from kfm.model.records import LedgerEntry, RunTelemetry
from kfm.projections.operation_counts import LedgerCounts, lifecycle, operation_metrics
from kfm.projections.signals import exposition
from tests.app.objectives.site import SAID, Site, scraped
from tests.servers.prometheus import promtool

# Names that the specifications give, whose units and suffixes promtool would have otherwise.
GIVEN = {
    "kfm_ops_latency_ms", "kfm_ops_retry_count", "kfm_pool_wait_ms", "kfm_freshness_age_minutes",
    "kfm_freshness_delta_minutes", "kfm_tick_overdue_minutes",
}  # fmt: skip
POOL = "pools: {gpu: 1}\n"
HOOK = "webhooks:\n  hook: {datasets: [rain], secrets: [env:KFM_SECRET_HOOK]}\n"


def asked(target: str, method: str, path: str = "/metrics") -> tuple[int, str]:
    connection = HTTPConnection(target, timeout=30)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_without_a_webhook_it_listens_for_metrics_alone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kfm("run")
    with site.up() as target:
        text = scraped(target)
        assert 'kfm_operations_total{op="ingest",outcome="done"} 1' in text.splitlines()
        assert asked(target, "HEAD") == (200, "")
        for method in ("POST", "PUT", "DELETE"):
            assert asked(target, method)[0] == 405
        assert asked(target, "POST", "/webhooks/hook")[0] in (404, 403)
        assert asked(target, "GET", "/metrics/rain")[0] == 404
        assert asked(target, "GET", "/livez")[0] == 200


def test_where_webhooks_come_in_metrics_take_a_word_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, SAID + HOOK)
    secret = "up-" + "0123456789abcdef" * 2
    monkeypatch.setattr(Site, "environment", lambda _, own=Site.environment: {**own(_), "KFM_SECRET_HOOK": secret})
    with site.up() as target:
        assert asked(target, "GET")[0] == 404
    with site.up("--metrics") as target:
        assert asked(target, "GET")[0] == 200


def test_metrics_without_an_address_and_an_open_one_without_tls_are_refused(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert "--listen" in site.kfm("up", "--once", "--metrics", code=3)
    assert "there is no TLS" in site.kfm("up", "--once", "--listen", "0.0.0.0:0", code=3)


def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    site = Site(tmp_path, SAID.replace("    title: Rain\n", "    title: Rain\n    freshness: {max_age: 1h}\n") + POOL)
    site.kfm("run")
    site.kfm("publish", "rain")
    site.kfm("freeze")
    found = promtool("check", "metrics", text=site.kfm("runs", "signals", "--metrics"))
    complaints = {line.split()[0] for line in (found.stdout + found.stderr).splitlines()}
    assert complaints == GIVEN, found
    bad = promtool("check", "metrics", text="# TYPE kfm_things counter\nkfm_things 1\n")
    assert bad.returncode != 0, "promtool finds what is wrong"


def test_a_textfile_is_what_the_command_shows(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kfm("run")
    site.kfm("freeze")
    (tmp_path / "kfm.prom").write_text("an older one")
    site.kfm("runs", "signals", "--metrics", "--to", "kfm.prom")
    kept = (tmp_path / "kfm.prom").read_text()
    assert 'kfm_frozen{scope="global",level="red"} 1' in kept.splitlines()
    steady = {line for line in kept.splitlines() if "freshness" not in line}
    assert steady <= set(site.kfm("runs", "signals", "--metrics").splitlines())
    assert [each.name for each in tmp_path.glob("kfm.prom*")] == ["kfm.prom"]
    assert json.loads(site.kfm("runs", "signals", "--metrics", "--to", "kfm.prom", "--json"))["written"]
    assert "--metrics" in site.kfm("runs", "signals", "--to", "kfm.prom", code=3)
    assert "make it first" in site.kfm("runs", "signals", "--metrics", "--to", "no/kfm.prom", code=3)
    (tmp_path / "folder").mkdir()
    assert "a folder" in site.kfm("runs", "signals", "--metrics", "--to", "folder", code=3)


@contextmanager
def collecting(folder: Path, opened: Any) -> Iterator[MetricsCollector]:
    collector = MetricsCollector(opened)
    collector.start()
    try:
        yield collector
    finally:
        collector.close()


def test_many_requests_at_once_cost_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kfm.yml").write_text(SAID)
    looked: list[str] = []
    text = Metrics.text
    monkeypatch.setattr(Metrics, "text", lambda self: looked.append("once") or text(self))
    monkeypatch.setattr(metrics_collector, "SECONDS_KEPT", 1000.0)
    resolved = config.load(str(tmp_path / "kfm.yml"), {})

    async def ask(collector: MetricsCollector) -> list[bytes | None]:
        return await asyncio.gather(*(collector.text() for _ in range(200)))

    with collecting(tmp_path, lambda: open_session(resolved)) as collector:
        bodies = asyncio.run(ask(collector))
    assert len(looked) == 1 and len(set(bodies)) == 1 and b"kfm_ledger_entries_total 0" in (bodies[0] or b"")


def test_while_the_state_does_not_answer_there_is_no_old_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kfm.yml").write_text(SAID)
    resolved = config.load(str(tmp_path / "kfm.yml"), {})
    monkeypatch.setattr(metrics_collector, "SECONDS_KEPT", 0.0)
    down, tried = threading.Event(), []

    def opened() -> Session:
        tried.append("opened")
        if down.is_set():
            raise Unavailable("the state does not answer")
        return open_session(resolved)

    text = Metrics.text

    def failing(self: Metrics) -> str:
        if down.is_set():
            raise Unavailable("the state does not answer")
        return text(self)

    monkeypatch.setattr(Metrics, "text", failing)
    with collecting(tmp_path, opened) as collector:
        assert asyncio.run(collector.text())
        down.set()
        assert asyncio.run(collector.text()) is None and asyncio.run(collector.text()) is None
        down.clear()
        assert asyncio.run(collector.text()) and len(tried) == 3, "it opened the state again"


ENERGY = ("kfm_ops_energy", "kfm_ops_carbon", "kfm_operation_energy", "kfm_energy_joules", "kfm_co2e_grams")


def test_what_is_unknown_is_absent(tmp_path: Path) -> None:
    counts, entry, measured = counted_run(tmp_path)
    names = samples(counts)
    assert not any(name.startswith(ENERGY) for name in names)
    known = msgspec.structs.replace(measured, energy_kwh=0.002, co2e_g=0.5, energy_method="measured: by a test")
    counts.add(entry, known)
    counts.add(entry, measured)
    found = samples(counts)
    assert {name: value for name, value in found.items() if name.startswith(ENERGY[-2:])} == {
        'kfm_energy_joules_total{method="measured"}': 7200,
        'kfm_co2e_grams_total{method="measured"}': 0.5,
    }
    assert found['kfm_ops_energy_wh{op="ingest"}'] == 2 and found['kfm_ops_carbon_gco2e{op="ingest"}'] == 0.5
    assert found['kfm_operation_energy_joules_total{op="ingest"}'] == 7200
    assert 'kfm_ops_energy_wh{op="promote"}' not in found


def test_no_label_holds_what_people_write(tmp_path: Path) -> None:
    counts, entry, measured = counted_run(tmp_path)
    written = msgspec.structs.replace(entry, op_type='an"author', outcome="31XX12", dataset="the-old-grave")
    counts.add(written, measured)
    counts.add(entry, msgspec.structs.replace(measured, energy_kwh=1.0, energy_method="grave: of an author"))
    text = "\n".join(samples(counts))
    states = str(lifecycle(counts, {("another", "queued"): 1}, {"rain"}))
    assert 'kfm_energy_joules_total{method="reported"}' in text and "grave" not in text
    assert "author" not in text and "31XX12" not in text and 'op="other",outcome="other"' in text
    assert "grave" not in states and "another" not in states and "'dataset': 'other'" in states


def counted_run(folder: Path) -> tuple[LedgerCounts, LedgerEntry, RunTelemetry]:
    """The counts of a ledger with one run, its entry and its telemetry."""
    site = Site(folder, SAID + 'energy: {meter: "off"}\n')
    site.kfm("run")
    with open_session(config.load(str(folder / "kfm.yml"), {}), mode="read") as session:
        entry = next(iter(session.state.ledger.entries()))
        measured = session.state.ledger.telemetry(entry.run_id)
        assert measured is not None and measured.energy_kwh is None
        return OPERATIONS.now(session), entry, measured


def samples(counts: LedgerCounts) -> dict[str, float]:
    lines = exposition(operation_metrics(counts, ("ingest", "promote", "other")))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
