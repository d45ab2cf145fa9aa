"""The rules that `kfm alerts write` makes: promtool accepts them, they fire when they should, and a real Prometheus
tells a real Alertmanager."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kfm.model.reports.objective import DAY_MS, Objective
from kfm.projections.alert_rules import rules_text
from tests.app.objectives.site import Site, promise
from tests.servers.prometheus import alertmanager_server, prometheus_server, promtool

SUCCESS = Objective(name="rain-success", indicator="success", target=0.99, window_ms=30 * DAY_MS, datasets=("rain",))
FRESH = Objective(name="rain-fresh", indicator="freshness", target=0.9, window_ms=30 * DAY_MS, limit_ms=93_600_000)
WEEK = Objective(name="week", indicator="latency", target=0.95, window_ms=7 * DAY_MS, limit_ms=60_000)
EVENTS, BAD = 'kfm_slo_events_total{slo="rain-success"}', 'kfm_slo_bad_events_total{slo="rain-success"}'
LATE = 'kfm_slo_late_ratio{slo="rain-fresh"}'


class Case(NamedTuple):
    """Series with a value each minute, and whether an alert fires then: with these labels, or any if it says so."""

    alert: str
    at: str
    series: dict[str, str]
    fires: bool
    labels: tuple[str, ...] = ()


def judged(folder: Path, cases: list[Case], *, each: str = "1m") -> dict[int, str]:
    """Have promtool judge the rules in each case. Nothing is expected to fire, so it tells of what does: return that by
    the position of its case."""
    (folder / "rules.yml").write_text(rules_text([FRESH, SUCCESS]))
    found: dict[int, str] = {}
    tests = [
        {
            "interval": "1m",
            "name": f"case {n} ",
            "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
            "alert_rule_test": [{"alertname": case.alert, "eval_time": case.at, "exp_alerts": []}],
        }
        for n, case in enumerate(cases)
    ]
    document = {"rule_files": ["rules.yml"], "evaluation_interval": each, "tests": tests}
    (folder / "tests.yml").write_text(json.dumps(document))
    said = promtool("test", "rules", "tests.yml", at=folder)
    for part in re.split(r"(?=name: case )", said.stdout + said.stderr)[1:]:
        found[int(part.split()[2].rstrip(","))] = part
    assert (said.returncode != 0) == bool(found), said
    return found


def test_promtool_accepts_the_rules_and_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rules_text([FRESH, SUCCESS, WEEK]))
    found = promtool("check", "rules", "rules.yml", at=tmp_path)
    assert found.returncode == 0 and "SUCCESS: 42 rules found" in found.stdout, found
    (tmp_path / "rules.yml").write_text(rules_text([]))
    assert "SUCCESS: 7 rules found" in promtool("check", "rules", "rules.yml", at=tmp_path).stdout
    (tmp_path / "rules.yml").write_text(rules_text([SUCCESS]).replace("increase(", "increse("))
    assert promtool("check", "rules", "rules.yml", at=tmp_path).returncode != 0


PAGE, BURN = 'severity="page"', "KfmErrorBudgetBurn"
BURNS = {
    "a run each minute, and none fails": Case(BURN, "6h", {EVENTS: "0+1x360", BAD: "0x360"}, False),
    "a fifth fails for an hour": Case(
        BURN, "2h", {EVENTS: "0+10x120", BAD: "0x60 0+2x60"}, True, (PAGE, 'window="1h"', 'slo="rain-success"')
    ),
    "it has stopped failing": Case(BURN, "150m", {EVENTS: "0+10x150", BAD: "0x60 0+2x55 110x35"}, False, (PAGE,)),
    "a tenth fails for six hours": Case(
        BURN, "6h", {EVENTS: "0+10x360", BAD: "0+1x360"}, True, (PAGE, 'window="6h"', 'slo="rain-success"')
    ),
    "one failed run among many": Case(BURN, "2h", {EVENTS: "0+100x120", BAD: "0x119 1"}, False, (PAGE,)),
    "one in two hundred fails, as it may": Case(BURN, "6h", {EVENTS: "0+200x360", BAD: "0+1x360"}, False, (PAGE,)),
    "nothing ran at all": Case(BURN, "2h", {EVENTS: "5x120", BAD: "1x120"}, False),
    "data are too old": Case(BURN, "90m", {LATE: "1x90"}, True, ('slo="rain-fresh"',)),
    "data are young": Case(BURN, "90m", {LATE: "0x90"}, False),
}
LEFT = 'kfm_slo_error_budget_remaining_ratio{slo="rain-success"}'
FLAG = 'kfm_frozen{{scope="{}",level="{}"}}'
OTHERS = [
    Case("KfmErrorBudgetBurnt", "5m", {LEFT: "-0.5x5"}, True),
    Case("KfmErrorBudgetBurnt", "5m", {LEFT: "0.5x5"}, False),
    Case("KfmFrozen", "59m", {FLAG.format("global", "red"): "1x90"}, False),
    Case("KfmFrozen", "61m", {FLAG.format("global", "red"): "1x90"}, True),
    Case("KfmFrozen", "61m", {FLAG.format("dataset", "red"): "2x90"}, True),
    Case("KfmFrozen", "61m", {FLAG.format("global", "amber"): "1x90"}, False),
    Case("KfmFrozen", "61m", {FLAG.format("global", "red"): "0x90"}, False),
    Case("KfmTickOverdue", "10m", {"kfm_tick_overdue_seconds": "901x20"}, True),
    Case("KfmTickOverdue", "10m", {"kfm_tick_overdue_seconds": "899x20"}, False),
    Case("KfmDeadLetters", "6m", {"kfm_jobs_dead": "1x20"}, True),
    Case("KfmDeadLetters", "6m", {'kfm_sink_dead_letters{sink="graph"}': "3x20"}, True),
    Case("KfmDeadLetters", "6m", {"kfm_jobs_dead": "0x20", 'kfm_sink_dead_letters{sink="graph"}': "0x20"}, False),
    Case("KfmSinkBehind", "61m", {'kfm_sink_up{sink="graph"}': "0x90"}, True),
    Case("KfmSinkBehind", "61m", {'kfm_sink_lag_entries{sink="graph"}': "7x90"}, True),
    Case("KfmSinkBehind", "61m", {'kfm_sink_up{sink="graph"}': "1x90"}, False),
    Case("KfmSinkBehind", "61m", {'kfm_sink_lag_entries{sink="graph"}': "0x90"}, False),
    Case("KfmBrokenLinks", "6m", {"kfm_ops_broken_links": "1x20"}, True),
    Case("KfmBrokenLinks", "6m", {"kfm_ops_broken_links": "0x20"}, False),
    Case("KfmAbsent", "6m", {"kfm_jobs_dead": "0x20"}, True),
    Case("KfmAbsent", "6m", {'kfm_build_info{version="1"}': "1x20"}, False),
    Case("KfmObjectivesUnreadable", "6m", {"kfm_slo_readable": "0x20"}, True),
    Case("KfmObjectivesUnreadable", "6m", {"kfm_slo_readable": "1x20"}, False),
]


def test_a_burn_pages_when_it_is_fast_and_goes_on(tmp_path: Path) -> None:
    found = judged(tmp_path, list(BURNS.values()), each="10m")
    for n, (why, case) in enumerate(BURNS.items()):
        said = found.get(n, "")
        if case.fires:
            assert all(label in said for label in case.labels) and said, (why, said)
        else:
            assert not said or (case.labels and not any(label in said for label in case.labels)), (why, said)


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    found = judged(tmp_path, OTHERS)
    assert sorted(found) == [n for n, case in enumerate(OTHERS) if case.fires], found
    assert all(f'alertname="{OTHERS[n].alert}"' in said for n, said in found.items())
    rules = {line.split()[-1] for line in (tmp_path / "rules.yml").read_text().splitlines() if "- alert:" in line}
    assert rules == {f'"{case.alert}"' for case in (*OTHERS, *BURNS.values())}, "an alert is not tried"


def test_a_promise_that_no_share_can_break_so_fast_has_no_such_alert(tmp_path: Path) -> None:
    loose = Objective(name="loose", indicator="success", target=0.5, window_ms=30 * DAY_MS)
    text = rules_text([loose])
    assert "14.4 times" not in text and "6 times" not in text and "is spent" in text
    (tmp_path / "rules.yml").write_text(text)
    assert promtool("check", "rules", "rules.yml", at=tmp_path).returncode == 0


@pytest.mark.long  # the thin path does it with every commit
def test_the_alert_of_a_burnt_budget_reaches_a_real_alertmanager(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    promise(site.folder, "rain-success", target=0.95)
    site.kfm("alerts", "write", "--to", "rules.yml")
    site.kfm("run")
    with (
        site.up() as target,
        alertmanager_server(tmp_path / "alerts") as alerts,
        prometheus_server(
            tmp_path / "prometheus", target, rules=site.folder / "rules.yml", alertmanager=alerts
        ) as seen,
    ):
        seen.wait_for("kfm_slo_events_total", lambda n: n == 1)
        assert seen.firing() == [] and alerts.alerts() == []
        site.source("n\nx\n")
        site.kfm("run", code=3)
        alerts.wait_for("KfmErrorBudgetBurnt", slo="rain-success", severity="ticket")
        alerts.wait_for("KfmErrorBudgetBurn", slo="rain-success", severity="page", window="1h")
        assert seen.query("kfm_slo_closed") == {"slo=rain-success": 1}
        site.kfm("slo", "override", "rain-success", "--until", "1h", "--reason", "we know why")
        seen.wait_for("kfm_slo_closed", lambda n: n == 0)
        seen.wait_for('kfm_operations_total{op="override",outcome="done"}', lambda n: n == 1)
