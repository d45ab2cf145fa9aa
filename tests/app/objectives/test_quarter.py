"""The review of a quarter: each number is the one that a plain recount of the ledger gives."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kfm.app.maintenance.quarter import FORMS, quarter_of, quarter_report
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.clock import FixedClock, parse_instant
from kfm.errors import BadInput, KfmError, Refused
from kfm.model.reports.quarter_figures import DatasetQuarter, QuarterReport
from tests.app.objectives.site import SAID, Site
from tests.app.objectives.test_ledger_counts import laid_out, opened

DAY = 86_400_000
START = parse_instant("2026-05-20T12:00:00Z", "the start")
SLO = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: rain-success}
spec:
  service: rain
  indicator:
    metadata: {name: rain-success}
    spec:
      ratioMetric:
        counter: true
        good: {metricSource: {type: kfm, spec: {indicator: success, dataset: rain}}}
        total: {metricSource: {type: kfm, spec: {indicator: success, dataset: rain}}}
  timeWindow: [{duration: 30d, isRolling: true}]
  budgetingMethod: Occurrences
  objectives: [{target: 0.8}]
"""


def act(session: Session, clock: FixedClock, folder: Path, what: str, turn: int) -> None:
    try:
        if what in ("run", "bad", "forced"):
            (folder / "rain.csv").write_text(f"n\n{'x' if what == 'bad' else turn}\n")
            force = what == "forced"
            run_trigger(session, new_trigger(session, "rain", actor="tester", force=force, reason="again" * force))
        elif what == "publish":
            to = session.state.refs.at("processed/rain")
            run_operation(session, "promote", "rain", {"to": to}, reason="a test", actor="olli")
        elif what == "back":
            run_operation(session, "rollback", "rain", reason="a test")
        elif what == "withdraw":
            run_operation(session, "rollback", "rain", {"to": "nothing"}, reason="a test")
        else:
            run_operation(session, what, "rain", reason="a test")
    except KfmError:
        """It was refused: what the ledger says of it is counted like all else."""
    clock.advance(7 * DAY + 3_600_000)


def recounted(session: Session, begin_ms: int, end_ms: int) -> dict[str, dict[str, int]]:
    """The numbers of a quarter, counted in the plainest way."""
    found: dict[str, Counter[str]] = {}
    for entry in session.state.ledger.entries():
        if not begin_ms <= parse_instant(entry.ts, "an entry") < end_ms:
            continue
        each = found.setdefault(entry.dataset, Counter())
        each["runs"] += entry.op_type == "ingest"
        each["freezes"] += (entry.op_type, entry.outcome) == ("freeze", "done")
        each["denials"] += entry.outcome in ("denied", "escalated")
        each["failed"] += entry.outcome in ("failed", "held", "denied", "escalated", "abandoned", "cancelled")
        each["overrides"] += len(entry.overrides)
        each["care_flags"] += len(entry.governed.findings) if entry.governed is not msgspec.UNSET else 0
        measured = session.state.ledger.telemetry(entry.run_id)
        each["unmeasured"] += measured is None or measured.energy_kwh is None
        each["without_carbon"] += measured is None or measured.co2e_g is None
        for move in entry.moves:
            if move.ref == "published/rain":
                back = entry.op_type == "rollback"
                each["withdrawals" if not move.after else "rollbacks" if back else "publications"] += 1
    return {name: {key: count for key, count in each.items() if count} for name, each in found.items()}


def shown(each: DatasetQuarter) -> dict[str, int]:
    return {key: value for key, value in msgspec.to_builtins(each).items() if key not in NOT_COUNTED and value}


NOT_COUNTED = ("dataset", "energy_wh", "energy_methods", "carbon_g")
ACTS = st.lists(
    st.sampled_from(["run", "run", "forced", "bad", "publish", "publish", "back", "withdraw", "freeze", "thaw"]),
    min_size=1,
    max_size=14,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=ACTS)
def test_after_any_history_each_number_is_that_of_a_recount(tmp_path: Path, acts: list[str]) -> None:
    folder = tmp_path / "site"
    shutil.rmtree(folder, ignore_errors=True)
    laid_out(folder)
    (folder / "slos").mkdir()
    (folder / "slos/rain.yml").write_text(SLO)
    clock = FixedClock(START)
    with opened(folder, clock) as session:
        for turn, what in enumerate(acts):
            act(session, clock, folder, what, turn)
        now_ms, total = clock.now_ms(), 0
        for name in ("2026-Q1", "2026-Q2", "2026-Q3"):
            try:
                quarter = quarter_of(name, now_ms)
            except Refused:
                assert name == "2026-Q3" and now_ms < parse_instant("2026-07-01T00:00:00Z", "then")
                continue
            report = quarter_report(session, quarter)
            model = recounted(session, quarter.begin_ms, quarter.end_ms)
            assert {each.dataset: shown(each) for each in report.datasets} == model
            total += report.entries
            assert sum(each.count for each in report.denials) >= sum(one.get("denials", 0) for one in model.values())
            assert len(report.overrides) == sum(one.get("overrides", 0) for one in model.values())
            check_objective(session, report, quarter.begin_ms, quarter.end_ms)
            assert all(form(report) for form in FORMS.values())
        assert total == len(list(session.state.ledger.entries()))


def check_objective(session: Session, report: QuarterReport, begin_ms: int, end_ms: int) -> None:
    outcomes = [
        entry.outcome
        for entry in session.state.ledger.entries()
        if entry.op_type == "ingest" and begin_ms <= parse_instant(entry.ts, "an entry") < end_ms
    ]
    good = sum(each in ("done", "noop", "unchanged") for each in outcomes)
    bad = sum(each in ("failed", "held", "denied") for each in outcomes)
    assert report.objectives is not None
    (found,) = report.objectives
    assert found.actual == (good / (good + bad) if good + bad else None)
    assert found.kept == (None if found.actual is None else found.actual >= 0.8)


@pytest.mark.parametrize(
    ("text", "now", "begin", "end"),
    [
        ("2026-Q3", "2026-11-19T00:00:00Z", "2026-07-01T00:00:00Z", "2026-10-01T00:00:00Z"),
        ("2026-q4", "2026-11-19T00:00:00Z", "2026-10-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("", "2026-12-31T23:59:59Z", "2026-10-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("", "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-04-01T00:00:00Z"),
    ],
)
def test_a_quarter_begins_at_midnight_utc(text: str, now: str, begin: str, end: str) -> None:
    found = quarter_of(text, parse_instant(now, "now"))
    assert (found.begin_ms, found.end_ms) == (parse_instant(begin, "begin"), parse_instant(end, "end"))


@pytest.mark.parametrize("wrong", ["2026", "2026-Q5", "2026-Q0", "Q3", "2026-07", "0001-Q1", "9999-Q1", "x" * 500])
def test_another_text_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput):
        quarter_of(wrong, START)
    with pytest.raises(Refused):
        quarter_of("2026-Q3", START)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site", SAID)


def test_the_three_faces_say_the_same_and_no_reason_is_in_any(site: Site) -> None:
    (site.folder / "slos").mkdir()
    (site.folder / "slos/rain.yml").write_text(SLO)
    site.kfm("run", "--force", "--reason", "canary-of-a-reason")
    site.kfm("slo", "override", "rain-success", "--until", "12h", "--reason", "canary-of-a-reason")
    site.kfm("freeze", "rain", "--reason", "canary-of-a-reason")
    for name in ("r.md", "r.html", "r.json"):
        site.kfm("report", "quarter", "--to", name)
    texts = {name: (site.folder / name).read_text() for name in ("r.md", "r.html", "r.json")}
    assert not any("canary-of-a-reason" in text for text in texts.values())
    said: dict[str, Any] = json.loads(texts["r.json"])
    assert {each["what"] for each in said["overrides"]} == {"force", "rain-success"}
    assert all(each["who"] == "tester" and each["has_reason"] for each in said["overrides"])
    (lasting,) = (each for each in said["overrides"] if each["what"] == "rain-success")
    assert lasting["until"] in texts["r.md"] and lasting["until"] in texts["r.html"]
    (rain,) = (each for each in said["datasets"] if each["dataset"] == "rain")
    assert rain["energy_wh"] > 0 and rain["carbon_g"] is None and rain["unmeasured"] == 0 and rain["freezes"] == 1
    assert rain["energy_methods"] == ["estimated"] and rain["without_carbon"] == 3
    assert re.search(r"^\| rain \| [0-9.e-]+ \| estimated \| 0 \| unknown \| 3 \|$", texts["r.md"], re.M)
    assert "The ledger has no entry of this quarter." in site.kfm("report", "quarter", "2001-Q1")


def test_nonsense_is_one_line_and_writes_nothing(site: Site) -> None:
    site.kfm("run")
    for words in (("2026-Q5",), ("9000-Q1",), ("--to", "r.pdf"), ("--to", "none/r.md")):
        answer = site.kfm("report", "quarter", *words, code=3)
        assert answer.count("\n") == 1 and "Traceback" not in answer
    assert sorted(path.name for path in site.folder.glob("r.*")) == []
