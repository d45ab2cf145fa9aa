"""The cron jobs of the chart make KFM act at the instants of the schedules, and at no other, as clocks change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.session.session import open_session
from kfm.clock import parse_instant
from tests.abilities import lacking
from tests.app.runners.test_wakes import is_woken, matches, schedule, upcoming
from tests.cli.conftest import Kfm, kfm, plain_environment
from tests.deploy.manifests import documents, given, template
from tests.policy.tools import Absent, built

__all__ = ["kfm", "plain_environment"]

# March 2026: Chicago's clocks change on the 8th, Berlin's on the 29th, UTC's never.
BEGIN, END = "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"
SCHEDULES = {
    "rain": ("30 2 * * *", "America/Chicago"),
    "gauges": ("40 5 * * mon-fri", "Europe/Berlin"),
    "wells": ("0 12 1,15 * *", "UTC"),
    "quakes": ("0 6 * * sun#2", "America/Chicago"),
}
ONE = """\
  {name}:
    version: "1.0.0"
    schedule: {{cron: "{cron}", timezone: {zone}}}
    sources: {{one: {{uri: rain.csv, format: csv}}}}
    outputs: {{one: {{from: one}}}}
"""


def rendered_crons(kfm: Kfm) -> list[str]:
    """The lines of the chart's cron jobs for an installation with these schedules."""
    try:
        built("helm")
    except Absent as problem:
        lacking(str(problem))
    sets = "".join(ONE.format(name=name, cron=cron, zone=zone) for name, (cron, zone) in SCHEDULES.items())
    Path("kfm.yml").write_text(f"runners: {{image: 'example.org/kfm:1.0.0'}}\ndatasets:\n{sets}")
    Path("rain.csv").write_text("station,inches\na,1\n")
    assert kfm("runners", "write", "kubernetes").code == 0
    done = template(*given(clock=Path("pipelines/runners/kubernetes.yml")))
    assert done.returncode == 0, done.stderr
    specs = [each["spec"] for each in documents(done.stdout) if each["kind"] == "CronJob"]
    assert specs and all(each["timeZone"] == "Etc/UTC" for each in specs)
    return [each["schedule"] for each in specs]


def instants(name: str) -> list[int]:
    """The instants of a schedule in this month."""
    begin, end = parse_instant(BEGIN, "begin"), parse_instant(END, "end")
    return list(takewhile(lambda at: at < end, upcoming(schedule(*SCHEDULES[name]), begin)))


def wakes(crons: list[str]) -> Iterator[datetime]:
    """When Kubernetes would start a job in this month."""
    at, end = datetime.fromisoformat(BEGIN), datetime.fromisoformat(END)
    while at < end:
        if any(matches(line, at) for line in crons):
            yield at
        at += timedelta(minutes=1)


def test_every_instant_of_a_month_wakes_a_cron_job_of_the_chart(kfm: Kfm, count: Any) -> None:
    crons = rendered_crons(kfm)
    tried = 0
    for name in SCHEDULES:
        found = instants(name)
        assert len(found) == {"rain": 31, "gauges": 22, "wells": 2, "quakes": 1}[name]
        for at_ms in found:
            at = datetime.fromtimestamp(at_ms / 1000, UTC)
            tried += 1
            skipped = name == "rain" and at.day == 8  # 02:30 does not exist in Chicago that night
            assert is_woken(crons, at, within=60 if skipped else 0), (name, at, crons)
    assert not is_woken(["29 7,8 * * *"], datetime.fromtimestamp(instants("rain")[0] / 1000, UTC))
    count("instants held against cron jobs of the chart", tried)


@pytest.mark.long
def test_what_is_done_in_a_month_is_what_the_schedules_say(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the cron jobs, at every instant at which Kubernetes starts one."""
    crons = rendered_crons(kfm)
    monkeypatch.setenv("KFM_NOW", BEGIN)
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")
    assert kfm("up", "--once").code == 0
    started = 0
    for at in wakes(crons):
        monkeypatch.setenv("KFM_NOW", at.isoformat().replace("+00:00", "Z"))
        assert kfm("up", "--once").code == 0
        started += 1
    assert started > 100
    with open_session(config.load("kfm.yml", {"KFM_ACCEPT_WEAK_STORAGE": "true"}), mode="read") as session:
        begin, late = parse_instant(BEGIN, "begin"), 0
        for name in SCHEDULES:
            ticks = [tick for tick in session.state.ticks.of(name, limit=1000) if tick.at_ms > begin]
            assert sorted(tick.at_ms for tick in ticks) == [at for at in instants(name) if at > begin]
            late += sum(tick.claimed_ms - tick.at_ms > 60_000 for tick in ticks)
            assert all(tick.claimed_ms - tick.at_ms <= 3_600_000 for tick in ticks)
    assert late <= 1, "but for the night in which Chicago has no 02:30"
