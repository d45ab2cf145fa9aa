"""Files of schedules that mean nothing: one clear line with file and line, the exit code of bad input, and whatever
runs goes on as before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sampling import sampled

KFM = """\
publish: noop
watch: {poll_s: 0}
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources: {rain: {uri: rain.csv, format: csv}}
    outputs: {rain: {from: rain}}
  below:
    version: "1.0.0"
    sources: {rain: {uri: rain.csv, format: csv}}
    outputs: {rain: {from: rain}}
"""
HEAD = "version: 1\nschedules:\n"
GOOD = HEAD + "  nightly: {dataset: rain, cron: '0 6 * * *'}\n"

BAD = {
    "no yaml": ("version: 1\nschedules: [\n", ":2:"),
    "no mapping": ("- a\n", ":1:"),
    "unknown key": (HEAD + "  a: {dataset: rain, cadance: daily}\n", ":3:"),
    "nothing says when": (HEAD + "  a: {dataset: rain}\n", ":3:"),
    "two say when": (HEAD + "  a: {dataset: rain, cadence: daily, cron: '0 6 * * *'}\n", ":3:"),
    "no such dataset": (HEAD + "  a: {dataset: rian, cadence: daily}\n", ":3:"),
    "the zone of a machine": (HEAD + "  a: {dataset: rain, cadence: daily, timezone: localtime}\n", ":3:"),
    "no such zone": (HEAD + "  a: {dataset: rain, cadence: daily, timezone: America/Topeka}\n", ":3:"),
    "no such pool": (HEAD + "  a: {dataset: rain, cadence: daily, pool: gpu}\n", ":3:"),
    "no such time": (HEAD + "  a: {dataset: rain, cadence: daily, at: '25:00'}\n", ":3:"),
    "never": (HEAD + "  a: {dataset: rain, cron: '0 0 30 2 *'}\n", ":3:"),
    "no cron": (HEAD + "  a: {dataset: rain, cron: '61 * * * *'}\n", ":3:"),
    "a gap as an instant": (HEAD + "  a: {dataset: rain, cadence: daily, start: '2026-03-08T02:30 US'}\n", ":3:"),
    "ends first": (HEAD + "  a: {dataset: rain, cadence: daily, start: 1800000000, end: 1700000000}\n", ":3:"),
    "a circle": (HEAD + "  a: {dataset: rain, after: [below]}\n  b: {dataset: below, after: [rain]}\n", ":"),
    "itself": (HEAD + "  a: {dataset: rain, after: [rain]}\n", ":3:"),
    "twice": (HEAD + "  a: {dataset: rain, cadence: daily}\n  a: {dataset: rain, cadence: daily}\n", ":4:"),
    "a bad name": (HEAD + "  '../a': {dataset: rain, cadence: daily}\n", ":3:"),
    "too often": (HEAD + "  a: {dataset: rain, cadence: real-time, every_min: 0}\n", ":3:"),
    "another version": ("version: 2\nschedules: {}\n", ":1:"),
    "a million lines": (HEAD + "".join(f"  s{n}: {{dataset: rain, cadence: daily}}\n" for n in range(1_000_000)), ""),
}  # fmt: skip


WHOLE = ("no such zone", "a million lines")  # of these also what else goes on


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "kfm.yml").write_text(KFM)
    (tmp_path / "rain.csv").write_text("n\n1\n")
    (tmp_path / "pipelines" / "schedules").mkdir(parents=True)
    (tmp_path / "pipelines" / "schedules" / "a.yml").write_text(GOOD)
    return tmp_path


def kfm(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("KFM_")}
    env |= {"KFM_ACCEPT_WEAK_STORAGE": "true", "KFM_ACTOR": "tester", "KFM_REASON": "test"}
    return subprocess.run(
        [sys.executable, "-m", "kfm", *words], cwd=site, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("what", sampled(BAD, every=2))
def test_it_is_refused_in_one_line_with_its_place_and_everything_else_goes_on(site: Path, what: str) -> None:
    text, place = BAD[what]
    whole = what in WHOLE
    assert not whole or kfm(site, "up", "--once").returncode == 0
    before = sorted(path.name for path in (site / ".kfm").rglob("*"))
    (site / "pipelines" / "schedules" / "b.yml").write_text(text)
    checked = kfm(site, "schedule", "check")
    lines = checked.stderr.splitlines()
    assert checked.returncode == 3 and checked.stdout == ""
    assert len(lines) == 1 and len(lines[0]) < 500, lines
    assert f"pipelines/schedules/b.yml{place}" in lines[0], lines
    assert "Traceback" not in checked.stderr
    if not whole:
        return
    for words in (
        ("up", "--once"),
        ("schedule", "list"),
        ("schedule", "freshness"),
    ):
        assert kfm(site, *words).returncode == 3, words
    assert sorted(path.name for path in (site / ".kfm").rglob("*")) == before
    assert kfm(site, "run", "rain").returncode == 3, "a run checks the files that kfm.yml names before it starts"
    (site / "pipelines" / "schedules" / "b.yml").unlink()
    assert kfm(site, "up", "--once").returncode == 0


def test_a_time_that_the_clock_skips_is_no_mistake_but_is_said(site: Path) -> None:
    said = "  b: {dataset: rain, cron: '30 2 8 3 *', timezone: America/Chicago}\n"
    (site / "pipelines" / "schedules" / "b.yml").write_text(HEAD + said)
    assert kfm(site, "schedule", "check").returncode == 0
    told = kfm(site, "schedule", "next", "1", "--schedule", "b", "--after", "2026-01-01T00:00:00Z")
    assert "2026-03-08 03:00 CDT" in told.stdout and "moved out of the hour that the clock skips" in told.stdout


def test_an_overdue_schedule_is_reported_with_its_exit_code(site: Path) -> None:
    assert kfm(site, "schedule", "list", "--check").returncode == 0
    env = {"KFM_NOW": "2026-06-01T12:00:00Z"}
    os.environ.update(env)
    try:
        command = [sys.executable, "-m", "kfm"]
        said = {**os.environ, "KFM_ACCEPT_WEAK_STORAGE": "true"}
        subprocess.run([*command, "up", "--once"], cwd=site, env=said, check=True, capture_output=True)
        said["KFM_NOW"] = "2026-06-02T06:04:00Z"
        soon = subprocess.run([*command, "schedule", "list", "--check"], cwd=site, env=said, capture_output=True)
        said["KFM_NOW"] = "2026-06-02T06:06:00Z"
        late = subprocess.run(
            [*command, "schedule", "list", "--check"], cwd=site, env=said, capture_output=True, text=True
        )
    finally:
        del os.environ["KFM_NOW"]
    assert soon.returncode == 0
    assert late.returncode == 3 and "the last tick was claimed 2026-06-01T12:00:00" in late.stderr
