"""The files that KFM writes for other runners wake it in time for every instant of a year."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from kfm.clock import parse_instant
from tests.abilities import lacking
from tests.app.runners.conftest import declare
from tests.app.runners.test_wakes import is_woken, schedule, upcoming
from tests.cli.conftest import Kfm

LATE = {"github": 5, "argo": 0, "kubernetes": 0, "tekton": 0, "cron": 0}  # minutes that each promises
CRONS = ("58,59 23 * * *", "*/2 9 * * mon", "0 0 1 1 *", "59 23 L * *", "30 2 * * *", "7,52 */6 * 3,10 *")
ONE = """\
  set-{n}:
    version: "1.0.0"
    schedule: {{cron: "{cron}", timezone: {zone}}}
    sources: {{one: {{uri: rain.csv, format: csv}}}}
    outputs: {{one: {{from: one}}}}
"""


def lines_of(kind: str, kfm: Kfm) -> list[str]:
    """The lines of cron in the file of a runner, as that runner reads them."""
    text = kfm("runners", "write", kind, "--stdout").out
    if kind == "github":
        return [each["cron"] for each in yaml.safe_load(text.replace("\non:", "\n'on':"))["on"]["schedule"]]
    if kind == "cron":
        return [" ".join(line.split()[:5]) for line in text.splitlines() if line[:1].isdigit() or line[:1] == "*"]
    parts = list(yaml.safe_load_all(text))
    if kind == "argo":
        return list(parts[1]["spec"]["schedules"])
    return [each["spec"]["schedule"] for each in parts if each["kind"] == "CronJob"]


@pytest.mark.long
@pytest.mark.parametrize("zone", ["UTC", "America/Chicago", "Asia/Kathmandu"])
@pytest.mark.parametrize("kind", LATE)
def test_no_instant_of_a_year_is_later_than_the_runner_promises(kfm: Kfm, kind: str, zone: str, count: Any) -> None:
    declare("".join(ONE.format(n=n, cron=cron, zone=zone) for n, cron in enumerate(CRONS)))
    Path("rain.csv").write_text("station,inches\na,1\n")
    lines, here = lines_of(kind, kfm), ZoneInfo(zone)
    begin = parse_instant("2026-01-01T00:00:00Z", "begin")
    end, tried = begin + 365 * 86_400_000, 0
    for cron in CRONS:
        for at_ms in takewhile(lambda at: at < end, upcoming(schedule(cron, zone), begin)):
            at = datetime.fromtimestamp(at_ms / 1000, UTC)
            tried += 1
            if not is_woken(lines, at, within=LATE[kind]):
                before = at - timedelta(seconds=1)
                assert before.astimezone(here).utcoffset() != at.astimezone(here).utcoffset(), (cron, lines, at)
                assert is_woken(lines, at, within=60), (cron, lines, at)  # the hour that the clock skips
    assert tried > 1000
    count("instants of a year held against runner files", tried)


@pytest.mark.long
@pytest.mark.parametrize("zone", ["UTC", "America/Chicago", "Asia/Kathmandu"])
def test_systemd_itself_wakes_it_at_every_instant_of_a_year(kfm: Kfm, zone: str, count: Any) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        lacking("no systemd-analyze on this machine")
    declare("".join(ONE.format(n=n, cron=cron, zone=zone) for n, cron in enumerate(CRONS)))
    Path("rain.csv").write_text("station,inches\na,1\n")
    text, here = kfm("runners", "write", "systemd", "--stdout").out, ZoneInfo(zone)
    wakes: set[datetime] = set()
    for line in re.findall(r"(?m)^OnCalendar=(.+)$", text):
        words = [analyze, "calendar", "--base-time=2025-12-31 23:59:59 UTC", "--iterations=60000", line]
        out = subprocess.run(words, capture_output=True, text=True, check=True, env={"TZ": "UTC", "LC_ALL": "C"}).stdout
        found = re.findall(r"(?m)^ *(?:Next elapse|Iter\. #\d+|Iteration #\d+): \w+ (2026-\S+ \S+) UTC$", out)
        wakes |= {datetime.fromisoformat(f"{each}+00:00") for each in found}
    begin = parse_instant("2026-01-01T00:00:00Z", "begin")
    end, tried = begin + 365 * 86_400_000, 0
    for cron in CRONS:
        for at_ms in takewhile(lambda at: at < end, upcoming(schedule(cron, zone), begin)):
            at = datetime.fromtimestamp(at_ms / 1000, UTC)
            tried += 1
            if at not in wakes:
                before = at - timedelta(seconds=1)
                assert before.astimezone(here).utcoffset() != at.astimezone(here).utcoffset(), (cron, at)
                assert any(at + timedelta(minutes=late) in wakes for late in range(61)), (cron, at)
    assert tried > 1000
    count("instants of a year held against runner files", tried)
